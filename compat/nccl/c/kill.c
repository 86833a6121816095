/*
 * A process is killed while its ranks are in collectives on streams. The others see it by ncclCommGetAsyncError and ncclGetLastError,
 * shrink the communicator and go on. TEST_KILLS times, each time another rank; the report has the times, which no check looks at.
 *
 *     parent: fork 4 ranks, wait until they are at work, kill one; the others tell it their times in shared memory
 */
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, COUNT = 5000, AFTERWARDS = 100, KILLS = 1000 };

/* What the processes of one kill share. */
typedef struct {
    ncclUniqueId id;
    int has_id, rounds[RANKS];
    double killed_at, told_after[RANKS], shrunk_in[RANKS];
} shared;

static shared *all;
static int rank, victim;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int load(const int *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
static void store(int *at, int value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }

static ncclComm_t joined(void) {
    ncclComm_t comm;
    if (rank == 0) {
        OK(ncclGetUniqueId(&all->id));
        store(&all->has_id, 1);
    }
    while (!load(&all->has_id)) nap();
    OK(ncclCommInitRank(&comm, RANKS, all->id, rank));
    return comm;
}

/* A sum on the stream while the communicator is asked for errors. Its state: ncclSuccess if the sum is there. */
static ncclResult_t sum(ncclComm_t comm, cudaStream_t stream, int *in, int *out, int expected) {
    ncclResult_t state = ncclAllReduce(in, out, COUNT, ncclInt, ncclSum, comm, stream);
    while (state == ncclSuccess || state == ncclInProgress) {
        cudaError_t query = cudaStreamQuery(stream);
        OK(ncclCommGetAsyncError(comm, &state));
        if (query == cudaSuccess && state == ncclSuccess) {
            for (int i = 0; i < COUNT; i++) CHECK_INT(out[i], expected + RANKS * i);
            return ncclSuccess;
        }
        CHECK(query == cudaSuccess || query == cudaErrorNotReady || state != ncclSuccess);
    }
    return state;
}

static void survive(void) {
    ncclComm_t comm = joined(), rest;
    cudaStream_t stream;
    int *in, *out, count = 0, mine = -1;
    CHECK(cudaSetDevice(rank) == cudaSuccess && cudaStreamCreate(&stream) == cudaSuccess);
    CHECK(cudaMalloc((void **)&in, COUNT * sizeof *in) == cudaSuccess && cudaMalloc((void **)&out, COUNT * sizeof *out) == cudaSuccess);
    for (int i = 0; i < COUNT; i++) in[i] = rank + i;
    ncclResult_t state = ncclSuccess;
    for (int round = 1; state == ncclSuccess; round++) {
        state = sum(comm, stream, in, out, RANKS * (RANKS - 1) / 2);
        store(&all->rounds[rank], round);
    }
    /* From here on there is a time: the kill came before. */
    const char *said = ncclGetLastError(comm);
    char name[16];
    snprintf(name, sizeof name, "rank %d", victim);
    if (state != ncclRemoteError || strstr(said, name) == NULL) FAIL("state %d: \"%s\" does not name %s", (int)state, said, name);
    double told = now();
    all->told_after[rank] = told - all->killed_at;
    OK(ncclCommShrink(comm, &victim, 1, &rest, NULL, NCCL_SHRINK_ABORT));
    all->shrunk_in[rank] = now() - told;
    OK(ncclCommAbort(comm));
    (void)cudaStreamSynchronize(stream);
    (void)cudaGetLastError();
    OK(ncclCommCount(rest, &count));
    OK(ncclCommUserRank(rest, &mine));
    CHECK_INT(count, RANKS - 1);
    CHECK_INT(mine, rank - (rank > victim));
    for (int i = 0; i < AFTERWARDS; i++) {
        for (int at = 0; at < COUNT; at++) in[at] = mine + i + at;
        OK(ncclAllReduce(in, out, COUNT, ncclInt, ncclSum, rest, stream));
        CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
        for (int at = 0; at < COUNT; at++) CHECK_INT(out[at], 3 + 3 * (i + at));
    }
    OK(ncclCommDestroy(rest));
    CHECK(cudaFree(in) == cudaSuccess && cudaFree(out) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess);
}

/* One kill: the victim is at work with the others when it is killed. */
static void kill_one(int number) {
    pid_t ranks_of[RANKS];
    int status;
    memset(all, 0, sizeof *all);
    victim = number % RANKS;
    fflush(stdout);
    for (rank = 0; rank < RANKS; rank++) {
        ranks_of[rank] = fork();
        CHECK(ranks_of[rank] >= 0);
        if (ranks_of[rank] == 0) {
            survive();
            exit(0);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        while (load(&all->rounds[r]) < 20 + number * 7 % 40) {
            nap();
            if (waitpid(ranks_of[r], &status, WNOHANG) != 0) FAIL("rank %d has ended before the kill", r);
        }
    }
    all->killed_at = now();
    CHECK(kill(ranks_of[victim], SIGKILL) == 0);
    for (int r = 0; r < RANKS; r++) {
        CHECK(waitpid(ranks_of[r], &status, 0) == ranks_of[r]);
        if (r == victim) CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (r != victim && status != 0) FAIL("rank %d ended with %#x after the death of rank %d", r, (unsigned)status, victim);
    }
}

static int by_value(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

/* Lines of a name, a value, a target and a verdict. */
static void report(const char *what, double *times, int count, double target) {
    qsort(times, (size_t)count, sizeof *times, by_value);
    printf("%s_p50_ms %.2f - PASS\n", what, times[count / 2]);
    printf("%s_p99_ms %.2f - PASS\n", what, times[count * 99 / 100]);
    printf("%s_max_ms %.2f %.0f %s\n", what, times[count - 1], target, times[count - 1] <= target ? "PASS" : "FAIL");
}

int main(void) {
    static double told[KILLS * RANKS], shrunk[KILLS * RANKS];
    int kills = number_of("TEST_KILLS", 1), count = 0;
    CHECK(kills > 0 && kills <= KILLS);
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    for (int k = 0; k < kills; k++) {
        kill_one(k);
        for (int r = 0; r < RANKS; r++) {
            if (r == victim) continue;
            told[count] = all->told_after[r];
            shrunk[count++] = all->shrunk_in[r];
        }
    }
    printf("%d kills among %d ranks\n", kills, RANKS);
    report("kill_to_async_error", told, count, 50);
    report("shrink", shrunk, count, 100);
    return 0;
}
