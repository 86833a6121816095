/* Programs on a declared machine that fix the order of their calls: however the host runs them, none is told of a deadlock, and all
   take the time of one thread that makes the calls in that order.

   TEST_FABRIC: the machine. TEST_ROUNDS: how often each short program runs. */
#include "machine.h"

#include <sched.h>

enum { MOST = 8, COUNT = 300, CALLS = 6 };

static const char *fabric;
static int rounds;
static unsigned seed;

static pennyConfig_t on_machine(int blocking) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    config.fabric = fabric;
    config.blocking = blocking;
    return config;
}

/* Runs begin at times of their own, the same on all ranks, which no run before them reaches. */
static uint64_t begin_run(pennyComm_t comm, int round) {
    uint64_t ps = 1000000000 * (uint64_t)(round + 1);
    OK(pennyFabricAdvanceTo(comm, ps));
    CHECK_INT(now_on(comm), ps);
    return ps;
}

/* Held up by the host, in a way that differs from run to run. */
static void dawdle(void *seed_of_thread) {
    unsigned *own = seed_of_thread;
    struct timespec a_while = {0, rand_r(own) % 200000};
    switch (rand_r(own) % 6) {
    case 0: nanosleep(&a_while, NULL); break;
    case 1: sched_yield(); break;
    default: break;
    }
}

/* Call number `i` of a program, on a stream or none. */
static void call(int i, float *in, float *out, pennyComm_t comm, pennyStream_t stream) {
    switch (i % 3) {
    case 0: OK(pennyAllReduce(in, out, COUNT << i, pennyFloat, pennySum, comm, stream)); break;
    case 1: OK(pennyBroadcast(in, out, COUNT, pennyFloat, 0, comm, stream)); break;
    default: OK(pennyBarrier(comm, stream)); break;
    }
}

static float in[MOST][COUNT << CALLS], out[MOST][COUNT << CALLS];

/* Every run takes as long as the first one. */
static void same(uint64_t *first, uint64_t took) {
    if (*first == 0) *first = took;
    CHECK(took > 0 || ranks == 1);
    CHECK_INT(took, *first);
}

/* A communicator's calls on two streams with functions between them, against the same calls without streams. */
static void streams_with_functions_take_the_time_of_their_order(void) {
    pennyComm_t comm = join_machine(fabric);
    pennyStream_t stream[2];
    uint64_t first = 0;
    for (int s = 0; s < 2; s++) OK(pennyStreamCreate(&stream[s]));
    for (int round = 0; round < rounds; round++) {
        uint64_t begun = begin_run(comm, round);
        for (int i = 0; i < CALLS; i++) {
            pennyStream_t on = round == 0 ? NULL : stream[i % 2];
            if (round > 0 && rand_r(&seed) % 2) OK(pennyStreamLaunchHostFunc(on, dawdle, &seed));
            call(i, in[0], out[0], comm, on);
            if (rand_r(&seed) % 4 == 0) OK(pennyStreamSynchronize(on));
            if (round > 0 && rand_r(&seed) % 4 == 0) {
                pennyEvent_t event;
                OK(pennyEventCreate(&event));
                OK(pennyEventRecord(event, stream[0]));
                OK(pennyStreamWaitEvent(stream[1], event));
                OK(pennyEventDestroy(event));
            }
        }
        for (int s = 0; s < 2; s++) OK(pennyStreamSynchronize(stream[s]));
        same(&first, now_on(comm) - begun);
    }
    for (int s = 0; s < 2; s++) OK(pennyStreamDestroy(stream[s]));
    OK(pennyCommDestroy(comm));
}

/* One thread makes `count` ranks by polling, and drives them by a stream for each, in groups or without. Where it waits for each group, no
   rank begins the next one before the last rank was done with that, so this takes a time of its own. */
static void drive(int count) {
    pennyComm_t comm[MOST];
    pennyStream_t stream[MOST];
    pennyUniqueId id;
    uint64_t first = 0, first_in_turn = 0;
    pennyConfig_t config = on_machine(0);
    OK(pennyGetUniqueId(&id));
    for (int r = 0; r < count; r++) {
        pennyResult_t begun = pennyCommInitRankConfig(&comm[r], count, id, r, &config);
        if (begun != pennySuccess) CHECK_INT(begun, pennyInProgress);
    }
    for (int r = 0; r < count; r++) {
        pennyResult_t state = pennyInProgress;
        while (state == pennyInProgress) {
            OK(pennyCommGetAsyncError(comm[r], &state));
            sched_yield();
        }
        CHECK_INT(state, pennySuccess);
        OK(pennyStreamCreate(&stream[r]));
    }
    for (int round = 0; round < rounds; round++) {
        uint64_t begun = 0;
        int in_turn = round % 3 == 0, grouped = round % 3 < 2;
        for (int r = 0; r < count; r++) begun = begin_run(comm[r], round);
        for (int i = 0; i < CALLS; i++) {
            if (grouped) OK(pennyGroupStart());
            for (int r = 0; r < count; r++) {
                call(i, in[r], out[r], comm[r], in_turn ? NULL : stream[r]);
                dawdle(&seed);
            }
            if (grouped) OK(pennyGroupEnd());
        }
        for (int r = 0; r < count; r++) OK(pennyStreamSynchronize(stream[r]));
        same(in_turn ? &first_in_turn : &first, now_on(comm[0]) - begun);
    }
    for (int r = 0; r < count; r++) OK(pennyStreamDestroy(stream[r]));
    for (int r = 0; r < count; r++) OK(pennyCommDestroy(comm[r]));
}

static void one_thread_drives_two_ranks(void) { drive(2); }
static void one_thread_drives_eight_ranks(void) { drive(8); }

/* Two threads of each rank with a communicator each, which take turns: the program fixes the order. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static int turn;
static pennyComm_t own[2];

static void *take_turns(void *arg) {
    int t = (int)(intptr_t)arg;
    unsigned mine = seed + (unsigned)t;
    for (int i = 0; i < CALLS; i++) {
        dawdle(&mine);
        pthread_mutex_lock(&lock);
        while (turn % 2 != t) pthread_cond_wait(&came, &lock);
        pthread_mutex_unlock(&lock);
        call(i, in[t], out[t], own[t], NULL);
        pthread_mutex_lock(&lock);
        turn++;
        pthread_cond_broadcast(&came);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void two_threads_with_a_communicator_each_take_the_time_of_one(void) {
    pennyComm_t comm = join_machine(fabric);
    uint64_t first = 0;
    for (int t = 0; t < 2; t++) OK(pennyCommDup(comm, &own[t]));
    for (int round = 0; round < rounds; round++) {
        uint64_t begun = begin_run(comm, round);
        turn = 0;
        if (round == 0) {
            for (int i = 0; i < CALLS; i++)
                for (int t = 0; t < 2; t++) call(i, in[t], out[t], own[t], NULL);
        } else {
            pthread_t other;
            CHECK(pthread_create(&other, NULL, take_turns, (void *)1) == 0);
            take_turns(0);
            CHECK(pthread_join(other, NULL) == 0);
        }
        same(&first, now_on(comm) - begun);
    }
    for (int t = 0; t < 2; t++) OK(pennyCommDestroy(own[t]));
    OK(pennyCommDestroy(comm));
}

/* A thread computes, for longer than anybody could guess, before its first call on the machine. */
static void *late(void *arg) {
    struct timespec a_while = {2, 600000000};
    int word = 7;
    (void)arg;
    nanosleep(&a_while, NULL);
    OK(pennySend(&word, 1, pennyInt, 1, own[1], NULL));
    return NULL;
}

static void a_thread_that_has_not_called_yet_is_waited_for(void) {
    pennyComm_t comm = join_machine(fabric);
    pthread_t other;
    int word = 0;
    for (int t = 0; t < 2; t++) OK(pennyCommDup(comm, &own[t]));
    if (rank == 0) {
        CHECK(pthread_create(&other, NULL, late, NULL) == 0);
        OK(pennyRecv(&word, 1, pennyInt, 1, own[0], NULL));
        CHECK(pthread_join(other, NULL) == 0);
    } else if (rank == 1) {
        OK(pennyRecv(&word, 1, pennyInt, 0, own[1], NULL));
        OK(pennySend(&word, 1, pennyInt, 0, own[0], NULL));
    }
    if (rank < 2) CHECK_INT(word, 7);
    OK(pennyBarrier(comm, NULL));
    for (int t = 0; t < 2; t++) OK(pennyCommDestroy(own[t]));
    OK(pennyCommDestroy(comm));
}

/* It never calls, and it is not blocked. */
static void *never_calls(void *ended) {
    while (__atomic_load_n((int *)ended, __ATOMIC_ACQUIRE) == 0) nap();
    return NULL;
}

/* Ranks that receive from each other in a ring: a deadlock that is told at once, or, where a thread might still end it, at the
   deadline of the first. */
static void a_real_deadlock_is_told(void) {
    for (int doubtful = 0; doubtful < 2; doubtful++) {
        pennyConfig_t config = on_machine(1);
        pennyComm_t comm = NULL;
        pthread_t other;
        int word = 0, ended = 0;
        if (doubtful && rank == 0) config.timeoutMs = 3000;
        OK(pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
        if (doubtful) CHECK(pthread_create(&other, NULL, never_calls, &ended) == 0);
        pennyResult_t result = pennyRecv(&word, 1, pennyInt, (rank + 1) % ranks, comm, NULL);
        const char *sentence = pennyGetLastError(NULL);
        if (!doubtful || rank == 0) {
            CHECK_INT(result, doubtful ? pennyTimeout : pennyInvalidUsage);
            if (strstr(sentence, "rank 0 in a receive from rank 1 waits for rank 1") == NULL) FAIL("%s", sentence);
            if (doubtful && strstr(sentence, "that has not called there yet") == NULL) FAIL("%s", sentence);
        }
        CHECK(result != pennySuccess);
        OK(pennyCommDestroy(comm));
        if (doubtful) {
            __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
            CHECK(pthread_join(other, NULL) == 0);
        }
    }
}

int main(void) {
    struct timespec time;
    begin();
    clock_gettime(CLOCK_MONOTONIC, &time);
    seed = (unsigned)time.tv_nsec ^ (unsigned)rank;
    fabric = getenv("TEST_FABRIC");
    rounds = number_of("TEST_ROUNDS");
    RUN_WANTED(streams_with_functions_take_the_time_of_their_order);
    RUN_WANTED(one_thread_drives_two_ranks);
    RUN_WANTED(one_thread_drives_eight_ranks);
    RUN_WANTED(two_threads_with_a_communicator_each_take_the_time_of_one);
    if (ranks > 1) RUN_WANTED(a_thread_that_has_not_called_yet_is_waited_for);
    if (ranks > 1) RUN_WANTED(a_real_deadlock_is_told);
    return 0;
}
