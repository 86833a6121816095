/* The symmetric heap: two ranks swap their buffers by writing into each other's memory, in three ways. */
#include <penny.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRY(call)                                              \
    do {                                                       \
        if ((call) != pennySuccess) {                          \
            fprintf(stderr, "%s\n", pennyGetLastError(NULL)); \
            exit(1);                                           \
        }                                                      \
    } while (0)

enum { COUNT = 1 << 16, BYTES = COUNT * sizeof(int), ROUNDS = 50 };

static pennyComm_t comm;
static int rank, ranks, peer;

/* Symmetric memory: every rank has its own, and one's own address names the same place in every rank's. */
static int *landing[2];  /* what comes from the peer; rounds take turns, see `exchange` */
static uint64_t *signal; /* the round whose bytes have come */

/* (a) The barrier waits for all that every rank has put. Simple, and all ranks wait for the slowest. */
static void put_then_barrier(const int *buffer, int *at, uint64_t round) {
    (void)round;
    TRY(pennyShmemPutMem(at, buffer, BYTES, peer, comm));
    TRY(pennyShmemBarrierAll(comm));
}

/* (b) Only the two of a pair wait for each other. Without the fence the signal might be seen before the bytes. */
static void put_fence_signal(const int *buffer, int *at, uint64_t round) {
    TRY(pennyShmemPutMem(at, buffer, BYTES, peer, comm));
    TRY(pennyShmemFence(comm));
    TRY(pennyShmemSignalOp(signal, round, PENNY_SIGNAL_SET, peer, comm));
    TRY(pennyShmemSignalWaitUntil(NULL, signal, PENNY_CMP_GE, round, comm));
}

/* (c) The same in one call: the signal belongs to these bytes, and needs no fence. */
static void put_with_signal(const int *buffer, int *at, uint64_t round) {
    TRY(pennyShmemPutMemSignal(at, buffer, BYTES, signal, round, PENNY_SIGNAL_SET, peer, comm));
    TRY(pennyShmemSignalWaitUntil(NULL, signal, PENNY_CMP_GE, round, comm));
}

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What a rank's buffer holds before the first round, and after it has been swapped twice. */
static int element(int of, int i) { return of * 1000003 + i; }

static void exchange(const char *what, void (*swap)(const int *, int *, uint64_t)) {
    static uint64_t round; /* never falls, so that no wait mistakes an old signal for its own */
    static int buffer[COUNT];
    long long wrong = 0;
    double best = 1e9;

    for (int i = 0; i < COUNT; i++) buffer[i] = element(rank, i);
    for (int k = 1; k <= ROUNDS; k++) {
        /*
         * The peer may be a round ahead: it puts again while this rank still copies. So there are two places. It is never
         * two ahead, because it first waits for what this rank puts after that copy.
         */
        int *at = landing[++round % 2];
        double begin = seconds();
        swap(buffer, at, round);
        memcpy(buffer, at, BYTES);
        double took = seconds() - begin;
        if (took < best) best = took;
        for (int i = 0; i < COUNT; i++) wrong += buffer[i] != element(k % 2 ? peer : rank, i);
    }
    TRY(pennyAllReduce(&wrong, &wrong, 1, pennyInt64, pennySum, comm, NULL));
    if (rank == 0) {
        printf("%-20s %d ranks swapped %d bytes %d times, %lld elements wrong\n", what, ranks, (int)BYTES, ROUNDS, wrong);
        fprintf(stderr, "%-20s %.1f us a swap at best\n", what, 1e6 * best);
    }
    if (wrong != 0) exit(1);
}

int main(void) {
    TRY(pennyCommInitFromEnv(&comm, NULL));
    TRY(pennyCommUserRank(comm, &rank));
    TRY(pennyCommCount(comm, &ranks));
    if (ranks % 2 != 0) {
        if (rank == 0) printf("%d ranks do not make pairs: start an even number of ranks\n", ranks);
        TRY(pennyCommDestroy(comm));
        return 0;
    }
    peer = rank ^ 1;

    /* All ranks make these calls, in the same order, with the same sizes. */
    TRY(pennyShmemInit(comm));
    TRY(pennyShmemMalloc((void **)&landing[0], BYTES, comm));
    TRY(pennyShmemMalloc((void **)&landing[1], BYTES, comm));
    TRY(pennyShmemCalloc((void **)&signal, 1, sizeof *signal, comm));

    exchange("put, barrier", put_then_barrier);
    exchange("put, fence, signal", put_fence_signal);
    exchange("put with signal", put_with_signal);

    TRY(pennyShmemFree(signal, comm));
    TRY(pennyShmemFree(landing[1], comm));
    TRY(pennyShmemFree(landing[0], comm));
    TRY(pennyShmemFinalize(comm));
    TRY(pennyCommDestroy(comm));
    return 0;
}
