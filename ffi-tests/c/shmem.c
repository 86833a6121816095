/* src/ffi/shmem: the symmetric heap, puts, gets, teams, registered buffers. Its words: shmem_words.c. */
#include "check.h"

static pennyComm_t comm;
static int next, prev;

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
    /* Memory of another host has no address here. */
    CHECK(theirs == NULL ? getenv("PENNY_HOST_ID") != NULL : ((int *)theirs)[2] == 3);
    OK(pennyShmemPtr(&theirs, out, next, comm));
    CHECK(theirs == NULL);
    OK(pennyShmemSyncAll(comm));
    free(out);
    OK(pennyShmemFree(inbox, comm));
}

static void wrong_arguments_are_refused_and_nothing_is_written(void) {
    uint64_t *word = allocate(64), local = 7;
    void *ptr = NULL;
    memset(word, 0, 64);
    FAILS(pennyInvalidArgument, "not in the symmetric heap", pennyShmemPutMem(&local, &local, 8, rank, comm));
    FAILS(pennyInvalidArgument, "before the end", pennyShmemPutMem(word, &local, (size_t)1 << 40, rank, comm));
    FAILS(pennyInvalidArgument, "pe -1", pennyShmemPutMem(word, &local, 8, -1, comm));
    FAILS(pennyInvalidArgument, "pe", pennyShmemGetMem(&local, word, 8, ranks, comm));
    FAILS(pennyInvalidArgument, "source is NULL", pennyShmemPutMem(word, NULL, 8, rank, comm));
    FAILS(pennyInvalidArgument, "overlap", pennyShmemPutMem(word, word + 1, 16, rank, comm));
    FAILS(pennyInvalidArgument, "strides", pennyShmemIput(word, &local, 0, 1, 1, pennyUint64, rank, comm));
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
    RUN(wrong_arguments_are_refused_and_nothing_is_written);
    RUN(disagreements_about_memory_name_both);
    RUN(teams_are_communicators_of_some_ranks);
    RUN(ordinary_memory_is_registered_by_its_address);
    RUN(the_heap_ends_and_can_be_made_again);
    return 0;
}
