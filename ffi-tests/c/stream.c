/* src/ffi/stream.rs: calls on streams, events, functions that streams call. */
#include "check.h"

#include <semaphore.h>
#include <unistd.h>

enum { COUNT = 3000 };
static pennyComm_t comm;
static pennyStream_t stream;
static int total; /* 1 + 2 + ... + ranks */

/* What keeps a stream back until it is let go. */
static sem_t go;
static void wait_for_go(void *unused) {
    (void)unused;
    while (sem_wait(&go) != 0) {}
}

/* What a function of the stream tells the program. */
static sem_t told;
static void tell(void *unused) {
    (void)unused;
    CHECK(sem_post(&told) == 0);
}

static void fill(int *data, int value) {
    for (int i = 0; i < COUNT; i++) data[i] = value;
}

static void all_are(const int *data, int value) {
    for (int i = 0; i < COUNT; i++) CHECK_INT(data[i], value);
}

static void calls_return_before_they_are_made(void) {
    static int in[COUNT], out[COUNT];
    pennyEvent_t event;
    fill(in, rank + 1);
    fill(out, -1);
    OK(pennyEventCreate(&event));
    OK(pennyEventQuery(event));
    OK(pennyStreamLaunchHostFunc(stream, wait_for_go, NULL));
    OK(pennyAllReduce(in, out, COUNT, pennyInt, pennySum, comm, stream));
    OK(pennyEventRecord(event, stream));
    CHECK_INT(pennyStreamQuery(stream), pennyInProgress);
    CHECK_INT(pennyEventQuery(event), pennyInProgress);
    all_are(out, -1);
    CHECK(sem_post(&go) == 0);
    OK(pennyEventSynchronize(event));
    all_are(out, total);
    OK(pennyStreamSynchronize(stream));
    OK(pennyStreamQuery(stream));
    OK(pennyEventDestroy(event));
    FAILS(pennyInvalidArgument, "not a live event", pennyEventQuery(event));
}

static void a_call_without_a_stream_comes_after_those_with_one(void) {
    static int data[COUNT];
    fill(data, 1);
    for (int i = 0; i < 5; i++) OK(pennyAllReduce(data, data, COUNT, pennyInt, pennyMax, comm, stream));
    OK(pennyBroadcast(data, data, COUNT, pennyInt, 0, comm, stream));
    OK(pennyAllReduce(data, data, COUNT, pennyInt, pennySum, comm, NULL));
    all_are(data, ranks);
}

/* The program waits for large calls until the stream's thread leaves them to it; then it sleeps until a function of the stream calls. */
static void large_calls_for_which_nobody_waits_are_made(void) {
    enum { LARGE = 600000 };
    static int in[LARGE], out[LARGE];
    for (int i = 0; i < LARGE; i++) in[i] = rank + i;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++) {
            OK(pennyAllReduce(in, out, LARGE, pennyInt, pennySum, comm, stream));
            OK(pennyStreamSynchronize(stream));
        }
        memset(out, 0, sizeof out);
        for (int i = 0; i < 2; i++) OK(pennyAllReduce(in, out, LARGE, pennyInt, pennySum, comm, stream));
        OK(pennyStreamLaunchHostFunc(stream, tell, NULL));
        while (sem_wait(&told) != 0) {}
        for (int i = 0; i < LARGE; i++) CHECK_INT(out[i], total - ranks + ranks * i);
    }
    OK(pennyStreamSynchronize(stream));
}

/* Each collective, and a transfer round the ring in a group, on two streams of which one waits for the other. */
static void everything_that_takes_a_stream_does_the_same_there(void) {
    static int in[64][8], out[64][8], got[8], own[8];
    pennyStream_t other;
    pennyEvent_t done;
    int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks, perm[64];
    OK(pennyStreamCreate(&other));
    OK(pennyEventCreate(&done));
    for (int to = 0; to < ranks; to++) {
        perm[to] = (to + 1) % ranks;
        for (int i = 0; i < 8; i++) in[to][i] = 100 * rank + to;
    }
    OK(pennyAlltoAll(in, out, 8, pennyInt, comm, stream));
    OK(pennyEventRecord(done, stream));
    OK(pennyStreamWaitEvent(other, done));
    OK(pennyReduceScatter(out, own, 8, pennyInt, pennySum, comm, other));
    OK(pennyPermute(own, got, 8, pennyInt, perm, comm, other));
    OK(pennyBarrier(comm, other));
    OK(pennyStreamSynchronize(other));
    for (int from = 0; from < ranks; from++) CHECK_INT(out[from][7], 100 * from + rank);
    /* own[i] of rank r = the sum over ranks q of out[r] there = 100 r + q */
    CHECK_INT(own[3], 100 * rank * ranks + ranks * (ranks - 1) / 2);
    CHECK_INT(got[3], 100 * prev * ranks + ranks * (ranks - 1) / 2);
    OK(pennyGroupStart());
    OK(pennySend(own, 8, pennyInt, next, comm, stream));
    OK(pennyRecv(got, 8, pennyInt, prev, comm, other));
    OK(pennyAllGather(in, out, 8, pennyInt, comm, stream));
    OK(pennyGroupEnd());
    OK(pennyStreamDestroy(other));
    CHECK_INT(out[prev][0], 100 * prev);
    OK(pennyStreamSynchronize(stream));
    OK(pennyEventDestroy(done));
}

/* What of the group is not over when it is closed, because a rank is late or the vectors are large, is queued. */
static void collectives_of_a_group_run_in_their_order_on_a_stream(void) {
    static int x[COUNT], y[COUNT], z[COUNT];
    for (int round = 0; round < 12; round++) {
        size_t count = round % 2 ? COUNT : 3;
        for (int i = 0; i < COUNT; i++) x[i] = rank + i + round, y[i] = z[i] = -1;
        OK(pennyAllReduce(x, y, count, pennyInt, pennySum, comm, stream));
        if (round % 4 > 1 && rank == round % ranks) usleep(3000);
        OK(pennyGroupStart());
        OK(pennyAllReduce(y, z, count, pennyInt, pennySum, comm, stream));
        OK(pennyAllGather(x, x, 0, pennyInt, comm, stream));
        OK(pennyAllReduce(z, y, count, pennyInt, pennySum, comm, stream));
        OK(pennyAllReduce(y, z, count, pennyInt, pennyMax, comm, stream));
        OK(pennyGroupEnd());
        OK(pennyStreamSynchronize(stream));
        for (int i = 0; i < COUNT; i++) {
            int sum = ranks * (ranks - 1) / 2 + ranks * (i + round);
            int expected = (size_t)i < count ? sum * ranks * ranks : -1;
            CHECK(y[i] == expected && z[i] == expected);
        }
    }
}

static void failures_are_told_by_events_and_at_synchronisation(void) {
    static int data[COUNT];
    pennyEvent_t first, second;
    pennyResult_t state;
    if (ranks == 1) return;
    OK(pennyEventCreate(&first));
    OK(pennyEventCreate(&second));
    OK(pennyAllReduce(data, data, 5 + (size_t)rank, pennyInt, pennySum, comm, stream));
    OK(pennyEventRecord(first, stream));
    OK(pennyAllReduce(data, data, 5, pennyInt, pennySum, comm, stream));
    OK(pennyEventRecord(second, stream));
    OK(pennyEventSynchronize(second));
    FAILS(pennyInvalidUsage, "all_reduce on a stream: ranks disagree", pennyEventQuery(first));
    OK(pennyCommGetAsyncError(comm, &state));
    CHECK_INT(state, pennyInvalidUsage);
    CHECK(strstr(pennyGetLastError(comm), "all_reduce on a stream: ranks disagree") != NULL);
    OK(pennyCommGetAsyncError(comm, &state));
    CHECK_INT(state, pennyInvalidUsage);
    FAILS(pennyInvalidUsage, "ranks disagree", pennyStreamSynchronize(stream));
    OK(pennyStreamSynchronize(stream));
    OK(pennyEventDestroy(first));
    OK(pennyEventDestroy(second));
}

/* The others of the group are made, as on the other ranks. */
static void a_failure_in_a_group_ends_only_its_call(void) {
    int mine = rank, largest = -1, sum = -1;
    pennyStream_t side;
    if (ranks == 1) return;
    OK(pennyStreamCreate(&side));
    for (int round = 0; round < 3; round++) {
        OK(pennyAllReduce(&mine, &largest, 1, pennyInt, pennyMax, comm, side));
        OK(pennyStreamSynchronize(side));
        largest = sum = -1;
        OK(pennyGroupStart());
        OK(pennyAllReduce(&mine, &largest, 1, pennyInt, pennyMax, comm, side));
        OK(pennyAllReduce(&mine, &mine, 1, rank ? pennyInt : pennyFloat, pennyMax, comm, side));
        OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, side));
        OK(pennyGroupEnd());
        FAILS(pennyInvalidUsage, "on a stream: ranks disagree", pennyStreamSynchronize(side));
        CHECK(largest == ranks - 1 && sum == ranks * (ranks - 1) / 2);
    }
    OK(pennyStreamDestroy(side));
}

static void times_are_told_between_events_that_are_over(void) {
    pennyEvent_t start, end;
    float ms = -1;
    OK(pennyEventCreate(&start));
    OK(pennyEventCreate(&end));
    FAILS(pennyInvalidUsage, "start was never recorded", pennyEventElapsedTime(&ms, start, end));
    OK(pennyEventRecord(start, stream));
    OK(pennyStreamLaunchHostFunc(stream, wait_for_go, NULL));
    OK(pennyEventRecord(end, stream));
    OK(pennyEventSynchronize(start));
    CHECK_INT(pennyEventElapsedTime(&ms, start, end), pennyInProgress);
    CHECK(ms == -1 && sem_post(&go) == 0);
    OK(pennyStreamWaitEvent(NULL, end));
    OK(pennyEventElapsedTime(&ms, start, end));
    CHECK(ms >= 0);
    OK(pennyEventDestroy(start));
    OK(pennyEventDestroy(end));
}

/* The last rank queues its call when the others have begun theirs: it is over then. Between hosts the two communicators have
   connections of their own, so the barrier may come before what the others sent for their call: there it is over later. On a declared
   machine a call is made when it is queued, so the others would wait for it. */
static void a_small_call_whose_peers_have_come_is_made_when_it_is_queued(void) {
    pennyComm_t side;
    if (getenv("PENNY_FABRIC")) return;
    OK(pennyCommDup(comm, &side));
    for (int round = 0; round < 6; round++) {
        int in = (rank + 1) * (round + 1), out = -1, last = rank == ranks - 1, grouped = round > 2;
        if (last) OK(pennyBarrier(side, NULL));
        if (grouped) OK(pennyGroupStart());
        OK(pennyAllReduce(&in, &out, 1, pennyInt, pennySum, comm, stream));
        if (grouped) OK(pennyAllGather(&in, &in, 0, pennyInt, comm, stream));
        if (grouped) OK(pennyGroupEnd());
        if (last && getenv("PENNY_HOST_ID") == NULL) CHECK_INT(out, total * (round + 1));
        if (!last) OK(pennyBarrier(side, NULL));
        OK(pennyStreamSynchronize(stream));
        CHECK_INT(out, total * (round + 1));
    }
    OK(pennyCommDestroy(side));
}

static void set(void *flag) { *(int *)flag = 1; }

static void null_is_the_callers_own_stream(void) {
    pennyEvent_t event;
    int called = 0;
    OK(pennyStreamSynchronize(NULL));
    OK(pennyStreamQuery(NULL));
    OK(pennyStreamDestroy(NULL));
    OK(pennyStreamLaunchHostFunc(NULL, set, &called));
    CHECK(called);
    OK(pennyEventCreate(&event));
    OK(pennyEventRecord(event, NULL));
    OK(pennyEventQuery(event));
    OK(pennyStreamWaitEvent(NULL, event));
    OK(pennyEventDestroy(event));
}

static void wrong_arguments_are_refused_at_once(void) {
    int word = 0;
    pennyStream_t invented = (pennyStream_t)(uintptr_t)12345, gone;
    OK(pennyStreamCreate(&gone));
    OK(pennyStreamDestroy(gone));
    FAILS(pennyInvalidArgument, "not a live stream", pennyStreamDestroy(gone));
    FAILS(pennyInvalidArgument, "not a live stream", pennyBarrier(comm, gone));
    FAILS(pennyInvalidArgument, "not a live stream", pennyStreamSynchronize(invented));
    FAILS(pennyInvalidArgument, "stream is NULL", pennyStreamCreate(NULL));
    FAILS(pennyInvalidArgument, "event is NULL", pennyEventCreate(NULL));
    FAILS(pennyInvalidArgument, "event is NULL", pennyEventRecord(NULL, stream));
    FAILS(pennyInvalidArgument, "hostFn is NULL", pennyStreamLaunchHostFunc(stream, NULL, NULL));
    FAILS(pennyInvalidArgument, "root 99", pennyBroadcast(&word, &word, 1, pennyInt, 99, comm, stream));
    OK(pennyStreamSynchronize(stream));
}

int main(void) {
    CHECK(sem_init(&go, 0, 0) == 0 && sem_init(&told, 0, 0) == 0);
    begin();
    comm = join();
    for (int r = 0; r < ranks; r++) total += r + 1;
    OK(pennyStreamCreate(&stream));
    RUN(calls_return_before_they_are_made);
    RUN(a_call_without_a_stream_comes_after_those_with_one);
    RUN(large_calls_for_which_nobody_waits_are_made);
    RUN(everything_that_takes_a_stream_does_the_same_there);
    RUN(collectives_of_a_group_run_in_their_order_on_a_stream);
    RUN(failures_are_told_by_events_and_at_synchronisation);
    RUN(a_failure_in_a_group_ends_only_its_call);
    RUN(times_are_told_between_events_that_are_over);
    RUN(a_small_call_whose_peers_have_come_is_made_when_it_is_queued);
    RUN(null_is_the_callers_own_stream);
    RUN(wrong_arguments_are_refused_at_once);
    /* What is still queued is made before the communicator ends. */
    int last = rank + 1;
    OK(pennyAllReduce(&last, &last, 1, pennyInt, pennySum, comm, stream));
    OK(pennyCommDestroy(comm));
    CHECK_INT(last, total);
    OK(pennyStreamDestroy(stream));
    return 0;
}
