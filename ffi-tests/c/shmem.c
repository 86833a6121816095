/* src/ffi/shmem: the symmetric heap, puts, gets, signals, waiting, atomic operations, teams. */
#include "check.h"

#include <sched.h>

static pennyComm_t comm;
static int next, prev;

/* How often: looking for races takes its time. */
static int often(int times) { return getenv("PENNY_CHECK") == NULL ? times : times / 40 * 2; }

static void *allocate(size_t size) {
    void *ptr = NULL;
    OK(pennyShmemMalloc(&ptr, size, comm));
    CHECK(ptr != NULL);
    return ptr;
}

static void the_heap_is_made_before_it_is_used(void) {
    void *ptr = &ptr;
    int pe = -1, npes = -1;
    comm = join();
    next = (rank + 1) % ranks;
    prev = (rank + ranks - 1) % ranks;
    FAILS(pennyInvalidUsage, "pennyShmemInit", pennyShmemMalloc(&ptr, 8, comm));
    CHECK(ptr == &ptr);
    OK(pennyShmemInit(comm));
    FAILS(pennyInvalidUsage, "already", pennyShmemInit(comm));
    OK(pennyShmemMyPe(comm, &pe));
    OK(pennyShmemNPes(comm, &npes));
    CHECK_INT(pe, rank);
    CHECK_INT(npes, ranks);
}

static void memory_is_aligned_zeroed_on_request_and_comes_back(void) {
    pennyShmemStats_t stats = PENNY_SHMEM_STATS_INITIALIZER;
    void *none = &none;
    OK(pennyShmemMalloc(&none, 0, comm));
    CHECK(none == NULL);
    OK(pennyShmemFree(NULL, comm));
    for (size_t align = 1; align <= 4096; align *= 2) {
        unsigned char *a, *b;
        OK(pennyShmemAlign((void **)&a, align, 100, comm));
        CHECK((uintptr_t)a % align == 0);
        memset(a, 0xff, 100);
        OK(pennyShmemFree(a, comm));
        OK(pennyShmemCalloc((void **)&b, 10, 10, comm));
        for (int i = 0; i < 100; i++) CHECK_INT(b[i], 0);
        OK(pennyShmemFree(b, comm));
    }
    OK(pennyShmemStats(comm, &stats));
    CHECK_INT(stats.used, 0);
    CHECK_INT(stats.blocks, 0);
    CHECK_INT(stats.free, stats.bytes);
    CHECK(stats.fragmentation == 0.0);
    CHECK_INT(stats.allocations, stats.frees);
    CHECK(stats.peakUsed >= 128);
}

static void the_heap_grows_by_segments_and_collectives_take_its_memory(void) {
    enum { BIG = 100 << 20 };
    pennyShmemStats_t before = PENNY_SHMEM_STATS_INITIALIZER, after = PENNY_SHMEM_STATS_INITIALIZER;
    OK(pennyShmemStats(comm, &before));
    float *big = allocate(BIG), *sum = allocate(4096);
    OK(pennyShmemStats(comm, &after));
    CHECK(after.segments == before.segments + 1 && after.bytes >= before.bytes + BIG);
    float *last = big + BIG / sizeof *big - 1024;
    for (int i = 0; i < 1024; i++) last[i] = (float)(rank + i);
    OK(pennyAllReduce(last, sum, 1024, pennyFloat, pennySum, comm, NULL));
    for (int i = 0; i < 1024; i++) CHECK_INT(sum[i], ranks * (ranks - 1) / 2 + ranks * i);
    OK(pennyShmemFree(big, comm));
    OK(pennyShmemFree(sum, comm));
}

static void puts_and_gets_reach_every_rank(void) {
    enum { COUNT = 10000 };
    int *inbox = allocate(COUNT * sizeof *inbox), *out = malloc(COUNT * sizeof *out);
    CHECK(out != NULL);
    for (int i = 0; i < COUNT; i++) out[i] = rank * COUNT + i;
    OK(pennyShmemPutMem(inbox, out, COUNT * sizeof *out, next, comm));
    OK(pennyShmemBarrierAll(comm));
    for (int i = 0; i < COUNT; i++) CHECK_INT(inbox[i], prev * COUNT + i);
    memset(out, 0, COUNT * sizeof *out);
    OK(pennyShmemGet(out, inbox, COUNT, pennyInt, next, comm)); /* what this rank has put there */
    for (int i = 0; i < COUNT; i++) CHECK_INT(out[i], rank * COUNT + i);
    OK(pennyShmemSyncAll(comm));

    int value = 100 + rank, got = -1;
    OK(pennyShmemP(&inbox[7], &value, pennyInt, next, comm));
    OK(pennyShmemQuiet(comm));
    OK(pennyShmemG(&got, &inbox[7], pennyInt, next, comm));
    CHECK_INT(got, 100 + rank);
    OK(pennyShmemSyncAll(comm));

    /* Every third element of the source to every second of the destination. */
    memset(inbox, 0, COUNT * sizeof *inbox);
    for (int i = 0; i < COUNT; i++) out[i] = i;
    OK(pennyShmemBarrierAll(comm));
    OK(pennyShmemIput(inbox, out, 2, 3, 1000, pennyInt, next, comm));
    OK(pennyShmemBarrierAll(comm));
    for (int i = 0; i < 2000; i++) CHECK_INT(inbox[i], i % 2 == 0 ? i / 2 * 3 : 0);
    OK(pennyShmemIget(out, inbox, 1, 2, 1000, pennyInt, next, comm));
    for (int i = 0; i < 1000; i++) CHECK_INT(out[i], 3 * i);
    OK(pennyShmemSyncAll(comm));

    void *theirs = NULL;
    OK(pennyShmemPtr(&theirs, inbox, next, comm));
    CHECK(theirs != NULL && ((int *)theirs)[2] == 3);
    OK(pennyShmemPtr(&theirs, out, next, comm));
    CHECK(theirs == NULL);
    OK(pennyShmemSyncAll(comm));
    free(out);
    OK(pennyShmemFree(inbox, comm));
}

static void a_signal_brings_its_bytes(void) {
    enum { BYTES = 256 };
    const int ROUNDS = often(2000);
    struct {
        uint64_t signal;
        unsigned char data[BYTES];
    } *box = NULL;
    OK(pennyShmemCalloc((void **)&box, 1, sizeof *box, comm));
    unsigned char out[BYTES];
    uint64_t seen = 0;
    for (int i = 1; i <= ROUNDS; i++) {
        memset(out, i & 0xff, BYTES);
        if (i % 2 == 0) {
            OK(pennyShmemPutMemSignal(box->data, out, BYTES, &box->signal, (uint64_t)i, PENNY_SIGNAL_SET, next, comm));
        } else {
            OK(pennyShmemPutMemSignalNbi(box->data, out, BYTES, &box->signal, 1, PENNY_SIGNAL_ADD, next, comm));
        }
        OK(pennyShmemSignalWaitUntil(&seen, &box->signal, PENNY_CMP_GE, (uint64_t)i, comm));
        CHECK_INT(seen, i);
        for (int b = 0; b < BYTES; b++) CHECK_INT(box->data[b], i & 0xff);
        OK(pennyShmemSyncAll(comm)); /* the box may be written again */
    }
    OK(pennyShmemSignalFetch(&seen, &box->signal, comm));
    CHECK_INT(seen, ROUNDS);
    OK(pennyShmemSyncAll(comm));
    OK(pennyShmemSignalOp(&box->signal, 5, PENNY_SIGNAL_SET, rank, comm));
    OK(pennyShmemSignalWaitUntil(NULL, &box->signal, PENNY_CMP_EQ, 5, comm));
    OK(pennyShmemFree(box, comm));
}

static void every_comparison_ends_a_wait_that_it_should(void) {
    int64_t *word = NULL, value = -3;
    int holds = -1;
    OK(pennyShmemCalloc((void **)&word, 1, 8, comm));
    OK(pennyShmemBarrierAll(comm));
    OK(pennyShmemP(word, &value, pennyInt64, next, comm));
    OK(pennyShmemWaitUntil(word, PENNY_CMP_EQ, &value, pennyInt64, comm));
    const struct {
        pennyCmp_t cmp;
        int64_t than;
        int expected;
    } cases[] = {{PENNY_CMP_EQ, -3, 1}, {PENNY_CMP_EQ, 3, 0}, {PENNY_CMP_NE, 3, 1}, {PENNY_CMP_NE, -3, 0},
                 {PENNY_CMP_GT, -4, 1}, {PENNY_CMP_GT, -3, 0}, {PENNY_CMP_GE, -3, 1}, {PENNY_CMP_GE, 0, 0},
                 {PENNY_CMP_LT, 0, 1},  {PENNY_CMP_LT, -3, 0}, {PENNY_CMP_LE, -3, 1}, {PENNY_CMP_LE, -4, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(pennyShmemTest(&holds, word, cases[i].cmp, &cases[i].than, pennyInt64, comm));
        CHECK_INT(holds, cases[i].expected);
    }
    /* As an unsigned number it is large. */
    uint64_t one = 1;
    OK(pennyShmemTest(&holds, word, PENNY_CMP_GT, &one, pennyUint64, comm));
    CHECK_INT(holds, 1);
    OK(pennyShmemFree(word, comm));
}

static void several_words_are_waited_for_together(void) {
    enum { WORDS = 8 };
    int32_t *words = NULL;
    size_t index = 99, indices[WORDS], count = 99;
    int left_out[WORDS] = {0}, holds = -1;
    OK(pennyShmemCalloc((void **)&words, WORDS, sizeof *words, comm));
    OK(pennyShmemBarrierAll(comm));
    int32_t one = 1;
    OK(pennyShmemTestAny(&index, words, WORDS, NULL, PENNY_CMP_EQ, &one, pennyInt, comm));
    CHECK(index == SIZE_MAX);
    OK(pennyShmemSyncAll(comm));
    OK(pennyShmemP(&words[5], &one, pennyInt, next, comm));
    OK(pennyShmemWaitUntilAny(&index, words, WORDS, NULL, PENNY_CMP_EQ, &one, pennyInt, comm));
    CHECK_INT(index, 5);
    OK(pennyShmemSyncAll(comm));
    OK(pennyShmemP(&words[2], &one, pennyInt, next, comm));
    left_out[5] = 1;
    OK(pennyShmemWaitUntilSome(indices, &count, words, WORDS, left_out, PENNY_CMP_EQ, &one, pennyInt, comm));
    CHECK_INT(count, 1);
    CHECK_INT(indices[0], 2);
    OK(pennyShmemTestSome(indices, &count, words, WORDS, NULL, PENNY_CMP_EQ, &one, pennyInt, comm));
    CHECK_INT(count, 2);
    OK(pennyShmemTestAll(&holds, words, WORDS, NULL, PENNY_CMP_EQ, &one, pennyInt, comm));
    CHECK_INT(holds, 0);
    OK(pennyShmemSyncAll(comm));
    for (int i = 0; i < WORDS; i++) OK(pennyShmemP(&words[i], &one, pennyInt, next, comm));
    OK(pennyShmemWaitUntilAll(words, WORDS, NULL, PENNY_CMP_EQ, &one, pennyInt, comm));
    for (int i = 0; i < WORDS; i++) left_out[i] = 1;
    OK(pennyShmemWaitUntilAll(words, WORDS, left_out, PENNY_CMP_EQ, &(int32_t){7}, pennyInt, comm));
    OK(pennyShmemWaitUntilAny(&index, words, WORDS, left_out, PENNY_CMP_EQ, &(int32_t){7}, pennyInt, comm));
    CHECK(index == SIZE_MAX);
    OK(pennyShmemFree(words, comm));
}

static void atomic_operations_lose_nothing(void) {
    const int TIMES = often(1000);
    uint64_t *counter = NULL, one = 1, before = 0, largest = 0;
    OK(pennyShmemCalloc((void **)&counter, 4, 8, comm));
    OK(pennyShmemBarrierAll(comm));
    for (int i = 0; i < TIMES; i++) {
        OK(pennyShmemAtomicFetchInc(&before, &counter[0], pennyUint64, 0, comm));
        CHECK(i == 0 || before > largest);
        largest = before;
        OK(pennyShmemAtomicAdd(&counter[1], &(uint64_t){3}, pennyUint64, 0, comm));
        OK(pennyShmemAtomicInc(&counter[2], pennyInt, 0, comm));
        OK(pennyShmemAtomicXor(&counter[3], &(uint64_t){1ull << rank}, pennyUint64, 0, comm));
    }
    OK(pennyShmemBarrierAll(comm));
    OK(pennyShmemAtomicFetch(&before, &counter[0], pennyUint64, 0, comm));
    CHECK_INT(before, ranks * TIMES);
    OK(pennyShmemAtomicFetch(&before, &counter[1], pennyUint64, 0, comm));
    CHECK_INT(before, ranks * TIMES * 3);
    int32_t narrow = 0;
    OK(pennyShmemAtomicFetch(&narrow, &counter[2], pennyInt, 0, comm));
    CHECK_INT(narrow, ranks * TIMES);
    OK(pennyShmemAtomicFetch(&before, &counter[3], pennyUint64, 0, comm));
    CHECK_INT(before, 0);
    OK(pennyShmemSyncAll(comm));

    /* A lock made of compare and swap. */
    for (int i = 0; i < 100; i++) {
        do {
            OK(pennyShmemAtomicCompareSwap(&before, &counter[3], &(uint64_t){0}, &one, pennyUint64, 0, comm));
            if (before != 0) sched_yield();
        } while (before != 0);
        uint64_t count = 0;
        OK(pennyShmemG(&count, &counter[1], pennyUint64, 0, comm));
        count++;
        OK(pennyShmemP(&counter[1], &count, pennyUint64, 0, comm));
        OK(pennyShmemAtomicSwap(&before, &counter[3], &(uint64_t){0}, pennyUint64, 0, comm));
        CHECK_INT(before, 1);
    }
    OK(pennyShmemBarrierAll(comm));
    OK(pennyShmemG(&before, &counter[1], pennyUint64, 0, comm));
    CHECK_INT(before, ranks * TIMES * 3 + ranks * 100);

    int32_t *word = (int32_t *)&counter[2], is = 0;
    if (rank == 0) {
        OK(pennyShmemAtomicSet(word, &(int32_t){0x0f}, pennyInt, 0, comm));
        OK(pennyShmemAtomicFetchOr(&is, word, &(int32_t){0xf0}, pennyInt, 0, comm));
        CHECK_INT(is, 0x0f);
        OK(pennyShmemAtomicFetchAnd(&is, word, &(int32_t){0x3c}, pennyInt, 0, comm));
        CHECK_INT(is, 0xff);
        OK(pennyShmemAtomicFetchXor(&is, word, &(int32_t){0xff}, pennyInt, 0, comm));
        CHECK_INT(is, 0x3c);
        OK(pennyShmemAtomicFetchAdd(&is, word, &(int32_t){-1}, pennyInt, 0, comm));
        CHECK_INT(is, 0xc3);
        OK(pennyShmemAtomicOr(word, &(int32_t){1}, pennyInt, 0, comm));
        OK(pennyShmemAtomicAnd(word, &(int32_t){3}, pennyInt, 0, comm));
        OK(pennyShmemAtomicFetch(&is, word, pennyInt, 0, comm));
        CHECK_INT(is, 3);
        float half = 0.5f, was = 1.0f;
        OK(pennyShmemAtomicSet(word, &half, pennyFloat, 0, comm));
        OK(pennyShmemAtomicSwap(&was, word, &(float){2.0f}, pennyFloat, 0, comm));
        CHECK(was == 0.5f);
        FAILS(pennyInvalidArgument, "no such atomic operation", pennyShmemAtomicAdd(word, &half, pennyFloat, 0, comm));
        FAILS(pennyInvalidArgument, "no such atomic operation", pennyShmemAtomicInc(word, pennyInt8, 0, comm));
    }
    OK(pennyShmemFree(counter, comm));
}

static void wrong_arguments_are_refused_and_nothing_is_written(void) {
    uint64_t *word = allocate(64), local = 7, seen = 0;
    void *ptr = NULL;
    memset(word, 0, 64);
    FAILS(pennyInvalidArgument, "not in the symmetric heap", pennyShmemPutMem(&local, &local, 8, rank, comm));
    FAILS(pennyInvalidArgument, "before the end", pennyShmemPutMem(word, &local, (size_t)1 << 40, rank, comm));
    FAILS(pennyInvalidArgument, "pe -1", pennyShmemPutMem(word, &local, 8, -1, comm));
    FAILS(pennyInvalidArgument, "pe", pennyShmemGetMem(&local, word, 8, ranks, comm));
    FAILS(pennyInvalidArgument, "source is NULL", pennyShmemPutMem(word, NULL, 8, rank, comm));
    FAILS(pennyInvalidArgument, "no pennySignalOp_t", pennyShmemSignalOp(word, 1, (pennySignalOp_t)11, rank, comm));
    FAILS(pennyInvalidArgument, "no pennyCmp_t", pennyShmemSignalWaitUntil(&seen, word, (pennyCmp_t)6, 1, comm));
    FAILS(pennyInvalidArgument, "aligned", pennyShmemSignalOp((uint64_t *)((char *)word + 4), 1, PENNY_SIGNAL_SET, rank, comm));
    FAILS(pennyInvalidArgument, "sig_addr",
          pennyShmemPutMemSignal(word, &local, 8, &local, 1, PENNY_SIGNAL_SET, rank, comm));
    FAILS(pennyInvalidArgument, "overlap", pennyShmemPutMem(word, word + 1, 16, rank, comm));
    FAILS(pennyInvalidArgument, "strides", pennyShmemIput(word, &local, 0, 1, 1, pennyUint64, rank, comm));
    FAILS(pennyInvalidArgument, "cannot be waited for",
          pennyShmemWaitUntil(word, PENNY_CMP_EQ, &local, pennyFloat, comm));
    FAILS(pennyInvalidArgument, "power of two", pennyShmemAlign(&ptr, 24, 64, comm));
    FAILS(pennyInvalidArgument, "at most 4096", pennyShmemAlign(&ptr, 8192, 64, comm));
    OK(pennyShmemPutMem(word, NULL, 0, rank, comm));
    CHECK(ptr == NULL && *word == 0 && local == 7);
    OK(pennyShmemFree(word, comm));
}

static void disagreements_about_memory_name_both(void) {
    void *ptr = NULL;
    int local = 0;
    pennyShmemStats_t before = PENNY_SHMEM_STATS_INITIALIZER, after = PENNY_SHMEM_STATS_INITIALIZER;
    OK(pennyShmemStats(comm, &before));
    if (ranks > 1) {
        FAILS(pennyInvalidUsage, "rank 0 calls an allocation of 100 bytes", pennyShmemMalloc(&ptr, rank == 0 ? 100 : 200, comm));
        FAILS(pennyInvalidUsage, "of 200 bytes", pennyShmemMalloc(&ptr, rank == 0 ? 100 : 200, comm));
        unsigned char *block = allocate(256);
        if (rank == 0) {
            FAILS(pennyInvalidArgument, "not the start", pennyShmemFree(&local, comm));
        } else {
            FAILS(pennyInvalidUsage, "no live allocation", pennyShmemFree(block, comm));
        }
        FAILS(pennyInvalidArgument, "middle", pennyShmemFree(block + 64, comm));
        OK(pennyShmemFree(block, comm));
    }
    unsigned char *block = allocate(256);
    OK(pennyShmemFree(block, comm));
    FAILS(pennyInvalidArgument, "freed already", pennyShmemFree(block, comm));
    FAILS(pennySystemError, "largest block", pennyShmemMalloc(&ptr, SIZE_MAX - 100, comm));
    FAILS(pennySystemError, "largest block", pennyShmemMalloc(&ptr, (size_t)1 << 45, comm));
    CHECK(ptr == NULL);
    OK(pennyShmemStats(comm, &after));
    CHECK_INT(after.used, before.used);
}

static void teams_are_communicators_of_some_ranks(void) {
    pennyComm_t even = NULL, row = NULL, column = NULL;
    int size = (ranks + 1) / 2, translated = -2, sum = 0;
    OK(pennyShmemTeamSplitStrided(comm, 0, ranks > 2 ? 2 : 1, ranks > 2 ? size : 1, &even));
    int member = ranks > 2 ? rank % 2 == 0 : rank == 0;
    CHECK((even != NULL) == member);
    if (member) {
        OK(pennyAllReduce(&(int){rank}, &sum, 1, pennyInt, pennySum, even, NULL));
        CHECK_INT(sum, ranks > 2 ? size * (size - 1) : 0);
        OK(pennyShmemTeamTranslatePe(comm, rank, even, &translated));
        CHECK_INT(translated, ranks > 2 ? rank / 2 : 0);
        OK(pennyShmemTeamTranslatePe(even, translated, comm, &translated));
        CHECK_INT(translated, rank);
        if (ranks > 1) {
            OK(pennyShmemTeamTranslatePe(comm, 1, even, &translated));
            CHECK_INT(translated, -1);
        }
        OK(pennyShmemTeamSync(even));
        OK(pennyCommDestroy(even));
    }
    OK(pennyShmemTeamSplit2d(comm, 2, &row, &column));
    int me = -1, members = 0;
    OK(pennyCommUserRank(row, &me));
    CHECK_INT(me, rank % 2);
    OK(pennyCommCount(column, &members));
    CHECK_INT(members, rank % 2 == 0 ? (ranks + 1) / 2 : ranks / 2);
    OK(pennyShmemTeamTranslatePe(row, me, column, &translated));
    CHECK_INT(translated, rank / 2);
    OK(pennyCommDestroy(row));
    OK(pennyCommDestroy(column));
    FAILS(pennyInvalidArgument, "are not ranks of the parent", pennyShmemTeamSplitStrided(comm, 0, 1, ranks + 1, &even));
    FAILS(pennyInvalidArgument, "stride 0", pennyShmemTeamSplitStrided(comm, 0, 0, 2, &even));
}

static void ordinary_memory_is_registered_by_its_address(void) {
    enum { COUNT = 1 << 16 };
    float *mine = malloc(COUNT * sizeof *mine), *sum = malloc(COUNT * sizeof *sum);
    CHECK(mine != NULL && sum != NULL);
    for (int i = 0; i < COUNT; i++) mine[i] = (float)(rank + i % 50);
    OK(pennyShmemBufferRegister(mine, COUNT * sizeof *mine, comm));
    FAILS(pennyInvalidArgument, "already", pennyShmemBufferRegister(mine, COUNT * sizeof *mine, comm));
    OK(pennyAllReduce(mine, sum, COUNT, pennyFloat, pennySum, comm, NULL));
    for (int i = 0; i < COUNT; i++) CHECK_INT(sum[i], ranks * (ranks - 1) / 2 + ranks * (i % 50));
    OK(pennyShmemBufferUnregister(mine, comm));
    FAILS(pennyInvalidArgument, "not the start", pennyShmemBufferUnregister(mine, comm));
    for (int i = 0; i < COUNT; i++) CHECK_INT(mine[i], rank + i % 50);
    free(mine);
    free(sum);
}

static void the_heap_ends_and_can_be_made_again(void) {
    uint64_t *word = allocate(8), value = 1;
    OK(pennyShmemFinalize(comm));
    FAILS(pennyInvalidUsage, "pennyShmemInit", pennyShmemPutMem(word, &value, 8, rank, comm));
    OK(pennyShmemInit(comm));
    word = allocate(8);
    OK(pennyShmemBarrierAll(comm));
    OK(pennyShmemPutMem(word, &value, 8, next, comm));
    OK(pennyShmemBarrierAll(comm));
    CHECK_INT(*word, 1);
    OK(pennyCommDestroy(comm)); /* with its heap */
    FAILS(pennyInvalidArgument, "not a live communicator", pennyShmemPutMem(word, &value, 8, rank, comm));
}

int main(void) {
    begin();
    RUN(the_heap_is_made_before_it_is_used);
    RUN(memory_is_aligned_zeroed_on_request_and_comes_back);
    RUN(the_heap_grows_by_segments_and_collectives_take_its_memory);
    RUN(puts_and_gets_reach_every_rank);
    RUN(a_signal_brings_its_bytes);
    RUN(every_comparison_ends_a_wait_that_it_should);
    RUN(several_words_are_waited_for_together);
    RUN(atomic_operations_lose_nothing);
    RUN(wrong_arguments_are_refused_and_nothing_is_written);
    RUN(disagreements_about_memory_name_both);
    RUN(teams_are_communicators_of_some_ranks);
    RUN(ordinary_memory_is_registered_by_its_address);
    RUN(the_heap_ends_and_can_be_made_again);
    return 0;
}
