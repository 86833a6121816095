/* src/ffi/shmem, words of the symmetric heap: signals, comparisons, waiting for several, atomic operations. */
#include "check.h"

#include <sched.h>

static pennyComm_t comm;
static int next;

/* How often: looking for races takes its time. */
static int often(int times) { return getenv("PENNY_CHECK") == NULL ? times : times / 40 * 2; }

static void the_heap_is_made(void) {
    comm = join();
    next = (rank + 1) % ranks;
    OK(pennyShmemInit(comm));
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
    uint64_t *word = NULL, local = 7, seen = 0;
    OK(pennyShmemCalloc((void **)&word, 8, 8, comm));
    FAILS(pennyInvalidArgument, "no pennySignalOp_t", pennyShmemSignalOp(word, 1, (pennySignalOp_t)11, rank, comm));
    FAILS(pennyInvalidArgument, "no pennyCmp_t", pennyShmemSignalWaitUntil(&seen, word, (pennyCmp_t)6, 1, comm));
    FAILS(pennyInvalidArgument, "aligned", pennyShmemSignalOp((uint64_t *)((char *)word + 4), 1, PENNY_SIGNAL_SET, rank, comm));
    FAILS(pennyInvalidArgument, "sig_addr",
          pennyShmemPutMemSignal(word, &local, 8, &local, 1, PENNY_SIGNAL_SET, rank, comm));
    FAILS(pennyInvalidArgument, "cannot be waited for",
          pennyShmemWaitUntil(word, PENNY_CMP_EQ, &local, pennyFloat, comm));
    FAILS(pennyInvalidArgument, "aligned to the 8 bytes", pennyShmemP((char *)word + 4, &local, pennyUint64, rank, comm));
    FAILS(pennyInvalidArgument, "aligned to the 4 bytes", pennyShmemP((char *)word + 2, &local, pennyInt, rank, comm));
    FAILS(pennyInvalidArgument, "not in the symmetric heap", pennyShmemP(&local, &local, pennyUint64, rank, comm));
    FAILS(pennyInvalidArgument, "value is NULL", pennyShmemP(word, NULL, pennyUint64, rank, comm));
    CHECK(*word == 0 && local == 7 && seen == 0);
    OK(pennyShmemFree(word, comm));
}

static void an_element_of_any_size_is_put_and_no_more_than_it(void) {
    uint64_t *word = NULL;
    OK(pennyShmemCalloc((void **)&word, 4, 8, comm));
    OK(pennyShmemBarrierAll(comm));
    const uint64_t value = 0x8877665544332211u;
    OK(pennyShmemP(&word[0], &value, pennyUint8, next, comm));
    OK(pennyShmemP(&word[1], &value, pennyFloat16, next, comm));
    OK(pennyShmemP(&word[2], &value, pennyFloat, next, comm));
    OK(pennyShmemP(&word[3], &value, pennyInt64, next, comm));
    OK(pennyShmemBarrierAll(comm));
    CHECK(word[0] == 0x11 && word[1] == 0x2211 && word[2] == 0x44332211 && word[3] == value);
    OK(pennyShmemFree(word, comm));
}

static void the_communicator_ends_with_its_heap(void) { OK(pennyCommDestroy(comm)); }

int main(void) {
    begin();
    RUN(the_heap_is_made);
    RUN(a_signal_brings_its_bytes);
    RUN(every_comparison_ends_a_wait_that_it_should);
    RUN(several_words_are_waited_for_together);
    RUN(atomic_operations_lose_nothing);
    RUN(an_element_of_any_size_is_put_and_no_more_than_it);
    RUN(wrong_arguments_are_refused_and_nothing_is_written);
    RUN(the_communicator_ends_with_its_heap);
    return 0;
}
