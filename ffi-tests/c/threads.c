/* src/ffi/config.rs: threads and parallelFor. Large calls on ranks of several threads. */
#include "check.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 500003, MOST = 3 };
static float in[COUNT], out[COUNT];
static int loops, refusals;

typedef struct {
    pennyLoopBody_t body;
    void *bodyArg;
    int i;
} piece_t;

static void *run_piece(void *of) {
    piece_t *piece = of;
    piece->body(piece->bodyArg, piece->i);
    return NULL;
}

/* Each index in a thread of its own. */
static void by_pthreads(void *arg, int n, pennyLoopBody_t body, void *bodyArg) {
    pthread_t threads[MOST];
    piece_t pieces[MOST];
    CHECK(arg == &loops && n > 1 && n <= MOST);
    loops++;
    for (int i = 0; i < n; i++) {
        pieces[i] = (piece_t){body, bodyArg, i};
        CHECK(pthread_create(&threads[i], NULL, run_piece, &pieces[i]) == 0);
    }
    for (int i = 0; i < n; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void that_calls_penny(void *arg, int n, pennyLoopBody_t body, void *bodyArg) {
    pennyComm_t *comm = arg;
    int count = 0;
    FAILS(pennyInvalidUsage, "parallelFor (pennyConfig_t) may not call Penny",
          pennyAllReduce(in, out, COUNT, pennyFloat, pennySum, *comm, NULL));
    FAILS(pennyInvalidUsage, "may not call Penny", pennyCommCount(*comm, &count));
    refusals++;
    for (int i = 0; i < n; i++) body(bodyArg, i);
}

static void that_forgets_one(void *arg, int n, pennyLoopBody_t body, void *bodyArg) {
    (void)arg;
    for (int i = 1; i < n; i++) body(bodyArg, i);
}

static pennyComm_t join_with(int threads, pennyParallelFor_t parallelFor, void *arg) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyComm_t comm = NULL;
    config.threads = threads;
    config.parallelFor = parallelFor;
    config.parallelForArg = arg;
    OK(pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
    return comm;
}

/* Sums and copies; the same on every number of threads. */
static void large_calls(pennyComm_t comm) {
    for (int i = 0; i < COUNT; i++) in[i] = (float)(i % 1000 + rank);
    memset(out, 0, sizeof out);
    OK(pennyAllReduce(in, out, COUNT, pennyFloat, pennySum, comm, NULL));
    for (int i = 0; i < COUNT; i++) {
        if (out[i] != (float)(ranks * (i % 1000) + ranks * (ranks - 1) / 2)) FAIL("element %d is %g", i, out[i]);
    }
    OK(pennyBroadcast(in, out, COUNT, pennyFloat, 0, comm, NULL));
    for (int i = 0; i < COUNT; i++) {
        if (out[i] != (float)(i % 1000)) FAIL("element %d is %g", i, out[i]);
    }
}

static void a_function_of_the_program_runs_the_pieces_of_large_calls_alone(void) {
    pennyComm_t comm = join_with(MOST, by_pthreads, &loops);
    float one = 1, sum = 0;
    loops = 0;
    OK(pennyAllReduce(&one, &sum, 1, pennyFloat, pennySum, comm, NULL));
    CHECK_INT(sum, ranks);
    CHECK_INT(loops, 0);
    large_calls(comm);
    CHECK(loops > 0);
    OK(pennyCommDestroy(comm));
    loops = 0;
    comm = join_with(1, by_pthreads, &loops);
    large_calls(comm);
    CHECK_INT(loops, 0);
    OK(pennyCommDestroy(comm));
}

static void a_function_that_calls_penny_is_refused_and_the_call_succeeds(void) {
    static pennyComm_t comm;
    refusals = 0;
    comm = join_with(2, that_calls_penny, &comm);
    large_calls(comm);
    CHECK(refusals > 0);
    OK(pennyCommDestroy(comm));
}

/* Threads of this process that help with copies. */
static int helpers(void) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int count = 0;
    CHECK(tasks != NULL);
    while ((task = readdir(tasks)) != NULL) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL) continue;
        if (fgets(name, sizeof name, file) != NULL) count += strncmp(name, "penny-copy", 10) == 0;
        fclose(file);
    }
    closedir(tasks);
    return count;
}

/* A thread has its name from its first moment on a core. The harness ends a wait without end. */
static void await_helpers(int count) {
    while (helpers() < count) nap();
    CHECK_INT(helpers(), count);
}

static void helpers_run_the_pieces_and_end_with_the_communicator(void) {
    pennyComm_t comm = join_with(MOST, NULL, NULL);
    CHECK_INT(helpers(), 0);
    large_calls(comm);
    await_helpers(MOST - 1);
    OK(pennyCommDestroy(comm));
    CHECK_INT(helpers(), 0);
}

static void a_forked_child_leaves_the_parents_helpers_alone_and_has_its_own(void) {
    pennyComm_t comm = join_with(2, NULL, NULL), mine;
    int status;
    large_calls(comm);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        FAILS(pennyInvalidUsage, "forked", pennyAllReduce(in, out, COUNT, pennyFloat, pennySum, comm, NULL));
        CHECK(setenv("PENNY_THREADS", "2", 1) == 0);
        OK(pennyCommInitAll(&mine, 1, NULL));
        OK(pennyAllReduce(in, out, COUNT, pennyFloat, pennySum, mine, NULL));
        await_helpers(1);
        OK(pennyCommDestroy(mine));
        CHECK_INT(helpers(), 0);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    large_calls(comm);
    OK(pennyCommDestroy(comm));
}

static void the_environment_says_how_many_threads_there_are(void) {
    pennyComm_t comm = NULL;
    CHECK(setenv("PENNY_THREADS", "none", 1) == 0);
    FAILS(pennyInvalidArgument, "PENNY_THREADS is `none`; it takes a number of threads", pennyCommInitAll(&comm, 1, NULL));
    CHECK(setenv("PENNY_THREADS", "2", 1) == 0);
    OK(pennyCommInitAll(&comm, 1, NULL));
    OK(pennyAllReduce(in, out, COUNT, pennyFloat, pennySum, comm, NULL));
    await_helpers(1);
    OK(pennyCommDestroy(comm));
    CHECK(unsetenv("PENNY_THREADS") == 0);
}

static void an_index_that_one_rank_forgets_fails_the_call_on_all(void) {
    int faulty = rank == ranks - 1;
    pennyComm_t comm = join_with(faulty ? 4 : 1, faulty ? that_forgets_one : NULL, NULL);
    if (faulty) {
        FAILS(pennyInvalidUsage, "indices; index 0 is missing; it must call body once for each i in 0..n",
              pennyAllReduce(in, out, COUNT, pennyFloat, pennySum, comm, NULL));
    } else {
        FAILS(pennyRemoteError, "gave up after an error in its call",
              pennyAllReduce(in, out, COUNT, pennyFloat, pennySum, comm, NULL));
    }
    /* An abort would be the first that a slow rank hears of. */
    char told[32];
    snprintf(told, sizeof told, "told%d", rank);
    post(told);
    for (int r = 0; r < ranks; r++) {
        snprintf(told, sizeof told, "told%d", r);
        await(told);
    }
    OK(pennyCommAbort(comm));
}

int main(void) {
    begin();
    RUN(a_function_of_the_program_runs_the_pieces_of_large_calls_alone);
    RUN(a_function_that_calls_penny_is_refused_and_the_call_succeeds);
    RUN(helpers_run_the_pieces_and_end_with_the_communicator);
    RUN(a_forked_child_leaves_the_parents_helpers_alone_and_has_its_own);
    RUN(the_environment_says_how_many_threads_there_are);
    RUN(an_index_that_one_rank_forgets_fails_the_call_on_all);
    return 0;
}
