/* Threads of one rank on a declared machine: each with its own communicator, or on the symmetric heap. No correct program is told
   of a deadlock, and a real one is told with who waits for whom. */
#include "machine_threads.h"

enum { COUNT = 64 };

static pennyComm_t own[MOST];

static void reduce_on(pennyComm_t comm, int salt) {
    int mine[COUNT], sum[COUNT];
    for (int i = 0; i < COUNT; i++) mine[i] = rank * salt + i, sum[i] = -1;
    OK(pennyAllReduce(mine, sum, COUNT, pennyInt, pennySum, comm, NULL));
    for (int i = 0; i < COUNT; i++) CHECK_INT(sum[i], ranks * (ranks - 1) / 2 * salt + ranks * i);
}

static void shift_on(pennyComm_t comm, int salt) {
    int out = rank + salt, in = -1, next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    OK(pennyGroupStart());
    OK(pennySend(&out, 1, pennyInt, next, comm, NULL));
    OK(pennyRecv(&in, 1, pennyInt, last, comm, NULL));
    OK(pennyGroupEnd());
    CHECK_INT(in, last + salt);
}

static void split_for_threads(void) {
    for (int t = 0; t < threads; t++) OK(pennyCommSplit(world, 0, rank, &own[t], NULL));
}

static void end_of_threads(void) {
    for (int t = 0; t < threads; t++) OK(pennyCommDestroy(own[t]));
}

static void *calls(void *arg) {
    int t = (int)(intptr_t)arg;
    unsigned seed = seed_of(t);
    for (int round = 0; round < rounds; round++) {
        dawdle(&seed);
        reduce_on(own[t], round + t);
        dawdle(&seed);
        shift_on(own[t], round);
        if (round % 8 == 0) OK(pennyBarrier(own[t], NULL));
    }
    return NULL;
}

static void threads_with_their_own_communicators(void) {
    for (threads = 2; threads <= 4; threads += 2) {
        world = join_machine(fabric);
        split_for_threads();
        for (int again = 0; again < 3; again++) {
            all_threads(calls);
            OK(pennyBarrier(world, NULL));
        }
        /* The caller is one of them. */
        pthread_t other;
        CHECK(pthread_create(&other, NULL, calls, (void *)(intptr_t)1) == 0);
        calls(0);
        CHECK(pthread_join(other, NULL) == 0);
        OK(pennyBarrier(world, NULL));
        end_of_threads();
        OK(pennyCommDestroy(world));
    }
}

/* One thread of this rank computes, and the others wait for what it will do: longer than anybody could guess. */
static void *late(void *arg) {
    int t = (int)(intptr_t)arg;
    struct timespec a_while = {1, 100000000};
    OK(pennyBarrier(own[t], NULL));
    if (t == 0 && rank == 0) nanosleep(&a_while, NULL);
    /* Rank 0's second thread waits for rank 1, whose first waits for rank 0's first. */
    if (rank == 1 && t == 1) {
        int word = 0;
        OK(pennyRecv(&word, 1, pennyInt, 0, own[2], NULL));
        OK(pennySend(&word, 1, pennyInt, 0, own[1], NULL));
        CHECK_INT(word, 7);
    }
    if (rank == 0) {
        int word = t == 0 ? 7 : 0;
        OK(t == 0 ? pennySend(&word, 1, pennyInt, 1, own[2], NULL) : pennyRecv(&word, 1, pennyInt, 1, own[1], NULL));
        CHECK_INT(word, 7);
    }
    return NULL;
}

static void a_thread_that_computes_for_long_is_waited_for(void) {
    threads = 3;
    world = join_machine(fabric);
    split_for_threads();
    threads = 2;
    all_threads(late);
    OK(pennyBarrier(world, NULL));
    threads = 3;
    end_of_threads();
    OK(pennyCommDestroy(world));
}

/* Threads that take turns: the program fixes the order of their calls. */
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_came = PTHREAD_COND_INITIALIZER;
static int turn;

static void turn_of(int t, int round) {
    OK(pennyFabricAdvance(world, 100 * (uint64_t)((rank + round) % 3)));
    if ((round + t) % 2 == 0) reduce_on(own[t], round);
    else shift_on(own[t], round);
}

static void *take_turns(void *arg) {
    int t = (int)(intptr_t)arg;
    for (int round = 0; round < rounds; round++) {
        pthread_mutex_lock(&turn_lock);
        while (turn % threads != t) pthread_cond_wait(&turn_came, &turn_lock);
        pthread_mutex_unlock(&turn_lock);
        turn_of(t, round);
        pthread_mutex_lock(&turn_lock);
        turn++;
        pthread_cond_broadcast(&turn_came);
        pthread_mutex_unlock(&turn_lock);
    }
    return NULL;
}

static void calls_in_a_fixed_order_take_the_time_of_a_single_thread(void) {
    for (threads = 2; threads <= 4; threads += 2) {
        uint64_t ended[2];
        for (int alone = 0; alone < 2; alone++) {
            world = join_machine(fabric);
            split_for_threads();
            OK(pennyBarrier(world, NULL));
            uint64_t begun = now_on(world);
            turn = 0;
            if (alone) {
                for (int round = 0; round < rounds; round++)
                    for (int t = 0; t < threads; t++) turn_of(t, round);
            } else {
                all_threads(take_turns);
            }
            ended[alone] = now_on(world) - begun;
            end_of_threads();
            OK(pennyCommDestroy(world));
        }
        CHECK(ended[0] > 0);
        CHECK_INT(ended[0], ended[1]);
    }
}

static uint64_t *signals;
static char *bytes;

static void *puts_and_signals(void *arg) {
    int t = (int)(intptr_t)arg, next = (rank + 1) % ranks;
    unsigned seed = seed_of(t);
    char mine[COUNT];
    for (int round = 1; round <= rounds; round++) {
        dawdle(&seed);
        memset(mine, round + t + rank, sizeof mine);
        OK(pennyShmemPutMemSignal(bytes + t * COUNT, mine, COUNT, &signals[t], (uint64_t)round, PENNY_SIGNAL_SET, next,
                                  world));
        dawdle(&seed);
        OK(pennyShmemSignalWaitUntil(NULL, &signals[t], PENNY_CMP_GE, (uint64_t)round, world));
        int last = (rank + ranks - 1) % ranks;
        CHECK_INT(bytes[t * COUNT + COUNT - 1], (char)(round + t + last));
        /* Taken: only then may the next one be put. */
        OK(pennyShmemSignalOp(&signals[MOST + t], 1, PENNY_SIGNAL_ADD, last, world));
        OK(pennyShmemSignalWaitUntil(NULL, &signals[MOST + t], PENNY_CMP_GE, (uint64_t)round, world));
    }
    return NULL;
}

/* Half of the threads put, the others call. */
static void *puts_beside_groups(void *arg) {
    int t = (int)(intptr_t)arg;
    if (t % 2 == 0) return puts_and_signals(arg);
    return calls(arg);
}

static void make_heap(void) {
    OK(pennyShmemInit(world));
    OK(pennyShmemCalloc((void **)&signals, 2 * MOST, sizeof *signals, world));
    OK(pennyShmemCalloc((void **)&bytes, MOST, COUNT, world));
}

static void threads_on_the_symmetric_heap(void) {
    for (threads = 1; threads <= 4; threads *= 2) {
        world = join_machine(fabric);
        split_for_threads();
        make_heap();
        all_threads(puts_and_signals);
        OK(pennyBarrier(world, NULL));
        memset(signals, 0, 2 * MOST * sizeof *signals);
        OK(pennyBarrier(world, NULL));
        all_threads(puts_beside_groups);
        OK(pennyBarrier(world, NULL));
        OK(pennyShmemFinalize(world));
        end_of_threads();
        OK(pennyCommDestroy(world));
    }
}

/* Every call fails with the sentence of one deadlock. */
static void *receive_in_vain(void *arg) {
    int t = (int)(intptr_t)arg, word;
    FAILS(pennyInvalidUsage, "deadlock", pennyRecv(&word, 1, pennyInt, (rank + 1) % ranks, own[t], NULL));
    if (strstr(pennyGetLastError(NULL), "thread ") == NULL) FAIL("no thread in: %s", pennyGetLastError(NULL));
    if (strstr(pennyGetLastError(NULL), "waits for") == NULL) FAIL("nobody waits in: %s", pennyGetLastError(NULL));
    return NULL;
}

static void threads_that_receive_in_a_ring_are_told(void) {
    if (ranks == 1) return;
    for (threads = 1; threads <= 4; threads *= 2) {
        world = join_machine(fabric);
        split_for_threads();
        all_threads(receive_in_vain);
        end_of_threads();
        OK(pennyCommDestroy(world));
    }
}

static void *await_in_vain(void *arg) {
    int t = (int)(intptr_t)arg;
    FAILS(pennyInvalidUsage, "deadlock", pennyShmemSignalWaitUntil(NULL, &signals[t], PENNY_CMP_GE, 1, world));
    return NULL;
}

static void threads_that_wait_for_signals_in_vain_are_told(void) {
    threads = 2;
    world = join_machine(fabric);
    make_heap();
    all_threads(await_in_vain);
    OK(pennyCommAbort(world));
}

int main(void) {
    begin_threads();
    RUN_WANTED(threads_with_their_own_communicators);
    if (ranks > 1) RUN_WANTED(a_thread_that_computes_for_long_is_waited_for);
    RUN_WANTED(calls_in_a_fixed_order_take_the_time_of_a_single_thread);
    RUN_WANTED(threads_on_the_symmetric_heap);
    RUN_WANTED(threads_that_receive_in_a_ring_are_told);
    RUN_WANTED(threads_that_wait_for_signals_in_vain_are_told);
    return 0;
}
