/* One-sided operations on a declared machine. Each rank prints its clock after every step: the same wherever the ranks run. */
#include "machine.h"

enum { WORDS = 5000 };
static pennyComm_t comm;
static int next, prev;
static unsigned seed;

/* Held up by the host, for a time that differs from run to run. */
static void dawdle(void) {
    struct timespec a_while = {0, rand_r(&seed) % 300000};
    if (rand_r(&seed) % 4 == 0) nanosleep(&a_while, NULL);
}

static void tell(const char *what, uint64_t found) {
    printf("%s: %" PRIu64 " at %" PRIu64 " ps\n", what, found, now_on(comm));
    dawdle();
}

/* All ranks at one time, and from there on at unlike times. */
static void part(void) {
    static uint64_t at = 0;
    at += 1000000000;
    OK(pennyBarrier(comm, NULL));
    OK(pennyFabricAdvanceTo(comm, at + (uint64_t)rank * 3700));
}

static void puts_and_signals(void) {
    static int out[WORDS];
    uint64_t *signal = NULL, seen = 0;
    int *inbox = NULL;
    OK(pennyShmemCalloc((void **)&signal, 1, 8, comm));
    OK(pennyShmemMalloc((void **)&inbox, sizeof out, comm));
    for (int round = 1; round <= 20; round++) {
        part();
        for (int i = 0; i < WORDS; i++) out[i] = rank * round + i;
        size_t words = round % 3 == 0 ? 0 : round % 3 == 1 ? 1 : WORDS;
        OK(pennyShmemPutMemSignal(inbox, out, words * sizeof *out, signal, 1, PENNY_SIGNAL_ADD, next, comm));
        tell("put with its signal", words);
        OK(pennyShmemSignalWaitUntil(&seen, signal, PENNY_CMP_GE, (uint64_t)round, comm));
        for (size_t i = 0; i < words; i++) CHECK_INT(inbox[i], prev * round + (int)i);
        tell("signal", seen);
    }
    part();
    OK(pennyShmemPutMem(inbox, out, sizeof out, next, comm));
    tell("put", 0);
    OK(pennyShmemSignalOp(signal, 100, PENNY_SIGNAL_SET, next, comm));
    OK(pennyShmemSignalWaitUntil(&seen, signal, PENNY_CMP_EQ, 100, comm));
    tell("signal alone", seen);
    OK(pennyShmemGet(out, inbox, WORDS, pennyInt, prev, comm));
    tell("get", (uint64_t)out[7]);
    OK(pennyShmemIput(inbox, out, 2, 3, 500, pennyInt, next, comm));
    tell("put of elements that lie apart", 0);
    OK(pennyShmemSyncAll(comm));
    OK(pennyShmemIget(out, inbox, 1, 2, 500, pennyInt, next, comm));
    tell("get of elements that lie apart", (uint64_t)out[3]);
    OK(pennyShmemSyncAll(comm));
    OK(pennyShmemFree(inbox, comm));
    OK(pennyShmemFree(signal, comm));
}

/* What each rank finds there depends on the machine's order alone. */
static void words_that_all_ranks_change(void) {
    uint64_t *word = NULL, one = 1, found = 0, wanted = 0;
    OK(pennyShmemCalloc((void **)&word, 2, 8, comm));
    for (int round = 0; round < 20; round++) {
        int at = round % ranks;
        part();
        OK(pennyFabricAdvance(comm, (uint64_t)((rank * 5 + round * 3) % 7) * 1000));
        OK(pennyShmemAtomicFetchAdd(&found, word, &one, pennyUint64, at, comm));
        tell("fetched", found);
        OK(pennyShmemAtomicAdd(word + 1, &one, pennyUint64, at, comm));
        tell("added", 0);
        wanted = (uint64_t)(ranks * (round / ranks + 1));
        if (rank == at) OK(pennyShmemWaitUntil(word + 1, PENNY_CMP_EQ, &wanted, pennyUint64, comm));
        tell("all have added", wanted);
        OK(pennyShmemG(&found, word, pennyUint64, at, comm));
        tell("word", found);
        OK(pennyShmemP(word, &found, pennyUint64, at, comm));
        tell("put of a word", found);
    }
    part();
    OK(pennyShmemFree(word, comm));
}

static void semaphores_and_copies(void) {
    static int own[WORDS];
    pennySemaphore_t go = NULL, sent = NULL, come = NULL;
    int *inbox = NULL;
    OK(pennySemaphoreCreate(comm, pennySemaphoreRegular, "go", 1, &go));
    OK(pennySemaphoreCreate(comm, pennySemaphoreDma, "sent", 1, &sent));
    OK(pennySemaphoreCreate(comm, pennySemaphoreDma, "come", 1, &come));
    OK(pennyShmemMalloc((void **)&inbox, sizeof own, comm));
    for (int round = 1; round <= 10; round++) {
        part();
        OK(pennySemaphoreSignal(go, 0, 2, PENNY_DEVICE(next)));
        tell("semaphore's signal", 0);
        OK(pennySemaphoreWait(go, 0, 2));
        tell("semaphore's wait", 0);
        for (int i = 0; i < WORDS; i++) own[i] = rank * round + i;
        pennyRemoteCopy_t copy = {.src = own,
                                  .dst = inbox,
                                  .bytes = sizeof own,
                                  .sendSem = sent,
                                  .recvSem = come,
                                  .device = PENNY_DEVICE(next)};
        OK(pennyRemoteCopyStart(comm, &copy));
        tell("copy", 0);
        OK(pennyRemoteCopyWaitSend(comm, &copy));
        OK(pennyRemoteCopyWaitRecv(comm, &copy));
        for (int i = 0; i < WORDS; i++) CHECK_INT(inbox[i], prev * round + i);
        tell("copy has come", 0);
    }
    part();
    OK(pennySemaphoreDestroy(go));
    OK(pennySemaphoreDestroy(sent));
    OK(pennySemaphoreDestroy(come));
    OK(pennyShmemFree(inbox, comm));
}

static void windows(void) {
    static int out[WORDS];
    int *inbox = NULL, *wide = NULL;
    pennyWindow_t win = NULL;
    OK(pennyMemAlloc((void **)&wide, (size_t)ranks * sizeof out));
    inbox = wide;
    OK(pennyCommWindowRegister(comm, wide, (size_t)ranks * sizeof out, &win, PENNY_WIN_COLL_SYMMETRIC));
    for (int round = 0; round < 10; round++) {
        part();
        for (int i = 0; i < WORDS; i++) out[i] = rank * 1000 + round + i;
        OK(pennyGroupStart());
        for (int to = 0; to < ranks; to++) {
            size_t count = (size_t)(1 + (rank * 7 + to * 31 + round * 3) % 50) * 100;
            OK(pennyPutSignal(out, count, pennyInt, to, win, (size_t)rank * sizeof out, 1, 0, 0, comm, NULL));
        }
        OK(pennyGroupEnd());
        tell("group of puts", 0);
        for (int from = 0; from < ranks; from++) {
            pennyWaitSignalDesc_t desc = {1, from, 1, 0};
            OK(pennyWaitSignal(1, &desc, comm, NULL));
            CHECK_INT(inbox[from * WORDS + 99], from * 1000 + round + 99);
            tell("window's signal", (uint64_t)from);
        }
    }
    part();
    OK(pennyCommWindowDeregister(comm, win));
    OK(pennyMemFree(wide));
}

/* Some ranks alone, of which none need be on the host of rank 0. */
static void a_smaller_communicator(void) {
    pennyComm_t whole = comm, some = NULL;
    OK(pennyCommSplit(whole, rank == 0 ? PENNY_SPLIT_NOCOLOR : 0, rank, &some, NULL));
    if (some != NULL) {
        uint64_t *word = NULL, one = 1, seen = 0;
        int members = 0, me = 0;
        OK(pennyCommCount(some, &members));
        OK(pennyCommUserRank(some, &me));
        OK(pennyShmemInit(some));
        OK(pennyShmemCalloc((void **)&word, 1, 8, some));
        OK(pennyShmemBarrierAll(some));
        for (int round = 1; round <= 10; round++) {
            OK(pennyFabricAdvance(comm, (uint64_t)(me + 1) * 10));
            OK(pennyShmemAtomicAdd(word, &one, pennyUint64, (me + 1) % members, some));
            OK(pennyShmemSignalWaitUntil(&seen, word, PENNY_CMP_GE, (uint64_t)round, some));
            tell("word of few", seen);
        }
        OK(pennyShmemBarrierAll(some));
        OK(pennyShmemFree(word, some));
        OK(pennyCommDestroy(some));
    }
    part();
}

int main(void) {
    struct timespec time;
    begin();
    clock_gettime(CLOCK_MONOTONIC, &time);
    seed = (unsigned)time.tv_nsec ^ (unsigned)rank;
    comm = join_machine(getenv("TEST_FABRIC"));
    next = (rank + 1) % ranks;
    prev = (rank + ranks - 1) % ranks;
    OK(pennyShmemInit(comm));
    RUN(puts_and_signals);
    RUN(words_that_all_ranks_change);
    RUN(semaphores_and_copies);
    RUN(windows);
    RUN(a_smaller_communicator);
    OK(pennyCommDestroy(comm));
    return 0;
}
