/* Heaps that are together more than a process can map. Each process is TEST_THREADS ranks, a thread each. */
#include "check.h"

static pennyUniqueId id;
static int threads = 1;

/* A rank's sum over all of one element, and of a few in the heap, after `filler` bytes of it were handed out. */
static void reduce_once(int me, int all, size_t filler) {
    enum { COUNT = 300 };
    pennyComm_t comm;
    float one = (float)me, sum = 0, *heap, *unused = NULL;
    OK(pennyCommInitRank(&comm, all, id, me));
    OK(pennyAllReduce(&one, &sum, 1, pennyFloat, pennySum, comm, NULL));
    CHECK_INT(sum, all * (all - 1) / 2);
    OK(pennyMemAlloc((void **)&unused, filler));
    OK(pennyMemAlloc((void **)&heap, COUNT * sizeof *heap));
    for (int i = 0; i < COUNT; i++) heap[i] = (float)(me + i % 10);
    OK(pennyAllReduce(heap, heap, filler > 0 ? COUNT : 1, pennyFloat, pennySum, comm, NULL));
    for (int i = 0; i < (filler > 0 ? COUNT : 1); i++) CHECK_INT(heap[i], all * (all - 1) / 2 + all * (i % 10));
    OK(pennyCommDestroy(comm));
    OK(pennyMemFree(heap));
    OK(pennyMemFree(unused));
}

static void *run_rank(void *number) {
    reduce_once((int)(intptr_t)number, ranks * threads, 0);
    return NULL;
}

static void ranks_of_large_heaps_start_and_reduce(void) {
    pthread_t thread[64];
    id = shared_id();
    CHECK(threads <= 64);
    for (int t = 1; t < threads; t++) {
        CHECK(pthread_create(&thread[t], NULL, run_rank, (void *)(intptr_t)(rank * threads + t)) == 0);
    }
    run_rank((void *)(intptr_t)(rank * threads));
    for (int t = 1; t < threads; t++) CHECK(pthread_join(thread[t], NULL) == 0);
}

static void what_lies_far_into_a_heap_is_reached(void) {
    id = shared_id();
    reduce_once(rank, ranks, (size_t)number_of("TEST_FILLER") << 20);
}

/* A put, and a pointer to the other rank's memory, far into the heaps. */
static void symmetric_memory_far_into_a_heap_is_reached(void) {
    enum { COUNT = 100000 };
    void *unused;
    OK(pennyMemAlloc(&unused, (size_t)number_of("TEST_FILLER") << 20));
    pennyComm_t comm = join();
    uint32_t *words, *own = malloc(COUNT * sizeof *own), *theirs;
    int next = (rank + 1) % ranks;
    CHECK(own != NULL);
    OK(pennyShmemInit(comm));
    OK(pennyShmemMalloc((void **)&words, COUNT * sizeof *words, comm));
    for (int i = 0; i < COUNT; i++) own[i] = (uint32_t)(rank + i);
    OK(pennyShmemPutMem(words, own, COUNT * sizeof *own, next, comm));
    OK(pennyShmemBarrierAll(comm));
    for (int i = 0; i < COUNT; i++) CHECK_INT(words[i], (rank + ranks - 1) % ranks + i);
    OK(pennyShmemPtr((void **)&theirs, words, next, comm));
    for (int i = 0; theirs != NULL && i < COUNT; i++) CHECK_INT(theirs[i], rank + i);
    OK(pennyShmemBarrierAll(comm));
    OK(pennyShmemFinalize(comm));
    OK(pennyCommDestroy(comm));
    OK(pennyMemFree(unused));
    free(own);
}

int main(void) {
    begin();
    if (getenv("TEST_THREADS") != NULL) {
        threads = number_of("TEST_THREADS");
        RUN(ranks_of_large_heaps_start_and_reduce);
        return 0;
    }
    RUN(what_lies_far_into_a_heap_is_reached);
    RUN(symmetric_memory_far_into_a_heap_is_reached);
    return 0;
}
