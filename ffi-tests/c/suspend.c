/* src/comm/suspend.rs: communicators that give memory back while they are not used. */
#include "check.h"
#include <dirent.h>
#include <sys/stat.h>

enum { COUNT = 500000 };
static pennyComm_t comm;

/* Bytes of the files without a name that this process has open: those of shared memory. */
static int64_t bytes_of_shared_files(void) {
    struct dirent *entry;
    struct stat file;
    char path[300];
    int64_t bytes = 0;
    DIR *open = opendir("/proc/self/fd");
    CHECK(open != NULL);
    while ((entry = readdir(open)) != NULL) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (stat(path, &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 0) bytes += (int64_t)file.st_blocks * 512;
    }
    closedir(open);
    return bytes;
}

static uint64_t stat_of(pennyComm_t of, pennyCommMemStat_t which) {
    uint64_t value = UINT64_MAX;
    OK(pennyCommMemStats(of, which, &value));
    return value;
}

/* A sum of ordinary memory, which goes through the staging memory. */
static void a_large_sum_is_right(pennyComm_t of, int salt) {
    static int in[COUNT], out[COUNT];
    for (int i = 0; i < COUNT; i++) in[i] = rank + i + salt, out[i] = -1;
    OK(pennyAllReduce(in, out, COUNT, pennyInt, pennySum, of, NULL));
    for (int i = 0; i < COUNT; i++) CHECK_INT(out[i], ranks * (i + salt) + ranks * (ranks - 1) / 2);
}

static void is_suspended_and_resumed(pennyComm_t of) {
    int word = 1;
    a_large_sum_is_right(of, 3);
    /* Other memory is taken at its first use: by now all of it. */
    for (int i = 0; i < 300; i++) OK(pennyBarrier(of, NULL));
    OK(pennyBarrier(comm, NULL));
    int64_t before = bytes_of_shared_files();
    uint64_t staging = stat_of(of, pennyStatMemSuspend), rest = stat_of(of, pennyStatMemPersist);
    CHECK(staging >= 4096 && rest >= 4096);
    CHECK_INT(stat_of(of, pennyStatMemTotal), staging + rest);
    CHECK_INT(stat_of(of, pennyStatMemSuspended), 0);
    OK(pennyBarrier(comm, NULL));
    OK(pennyCommSuspend(of, PENNY_SUSPEND_MEM));
    CHECK_INT(stat_of(of, pennyStatMemSuspended), 1);
    CHECK_INT(stat_of(of, pennyStatMemSuspend), staging);
    FAILS(pennyInvalidUsage, "pennyCommResume", pennyAllReduce(&word, &word, 1, pennyInt, pennySum, of, NULL));
    FAILS(pennyInvalidUsage, "is suspended", pennySend(&word, 1, pennyInt, 0, of, NULL));
    FAILS(pennyInvalidUsage, "is suspended", pennyCommSuspend(of, PENNY_SUSPEND_MEM));
    if (of != comm) {
        OK(pennyBarrier(comm, NULL));
        CHECK(before - bytes_of_shared_files() >= (int64_t)staging * ranks);
        OK(pennyBarrier(comm, NULL));
    }
    OK(pennyCommResume(of));
    CHECK_INT(stat_of(of, pennyStatMemSuspended), 0);
    CHECK_INT(stat_of(of, pennyStatMemSuspend), staging);
    a_large_sum_is_right(of, 4);
    OK(pennyCommResume(of));
    OK(pennyBarrier(of, NULL));
}

static void memory_is_given_back_and_taken_again(void) {
    pennyComm_t child, other = join();
    OK(pennyCommDup(comm, &child));
    for (int round = 0; round < 3; round++) {
        is_suspended_and_resumed(child);
        is_suspended_and_resumed(other);
        is_suspended_and_resumed(comm);
    }
    OK(pennyCommSuspend(child, PENNY_SUSPEND_MEM));
    OK(pennyCommSuspend(other, PENNY_SUSPEND_MEM));
    OK(pennyCommDestroy(child));
    OK(pennyCommAbort(other));
}

static void messages_that_nobody_has_taken_stay(void) {
    enum { LENGTH = 1000 };
    int out[LENGTH], in[LENGTH], next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    if (ranks == 1) return;
    for (int i = 0; i < LENGTH; i++) out[i] = rank * LENGTH + i;
    OK(pennySend(out, LENGTH, pennyInt, next, comm, NULL));
    OK(pennyCommSuspend(comm, PENNY_SUSPEND_MEM));
    OK(pennyCommResume(comm));
    OK(pennyRecv(in, LENGTH, pennyInt, before, comm, NULL));
    for (int i = 0; i < LENGTH; i++) CHECK_INT(in[i], before * LENGTH + i);
}

static void ranks_of_one_thread_suspend_in_a_group(void) {
    enum { HERE = 3 };
    pennyComm_t here[HERE];
    int one = 1, sum[HERE];
    OK(pennyCommInitAll(here, HERE, NULL));
    for (int round = 0; round < 3; round++) {
        OK(pennyGroupStart());
        for (int r = 0; r < HERE; r++) OK(pennyCommSuspend(here[r], PENNY_SUSPEND_MEM));
        CHECK_INT(stat_of(here[0], pennyStatMemSuspended), 0);
        OK(pennyGroupEnd());
        for (int r = 0; r < HERE; r++) CHECK_INT(stat_of(here[r], pennyStatMemSuspended), 1);
        OK(pennyGroupStart());
        for (int r = 0; r < HERE; r++) {
            OK(pennyCommResume(here[r]));
            OK(pennyAllReduce(&one, &sum[r], 1, pennyInt, pennySum, here[r], NULL));
        }
        OK(pennyGroupEnd());
        for (int r = 0; r < HERE; r++) CHECK_INT(sum[r], HERE);
    }
    for (int r = 0; r < HERE; r++) OK(pennyCommDestroy(here[r]));
}

static void wrong_arguments_are_refused(void) {
    uint64_t value = 7;
    FAILS(pennyInvalidArgument, "flags is 0", pennyCommSuspend(comm, 0));
    FAILS(pennyInvalidArgument, "flags is 3", pennyCommSuspend(comm, 3));
    FAILS(pennyInvalidArgument, "comm is NULL", pennyCommSuspend(NULL, PENNY_SUSPEND_MEM));
    FAILS(pennyInvalidArgument, "comm is NULL", pennyCommResume(NULL));
    FAILS(pennyInvalidArgument, "stat is 4", pennyCommMemStats(comm, (pennyCommMemStat_t)4, &value));
    FAILS(pennyInvalidArgument, "value is NULL", pennyCommMemStats(comm, pennyStatMemTotal, NULL));
    CHECK_INT(value, 7);
    if (ranks == 1) return;
    /* One rank does something else: none is suspended. */
    if (rank == 0) {
        FAILS(pennyInvalidUsage, "all_gather", pennyBarrier(comm, NULL));
    } else {
        FAILS(pennyInvalidUsage, "barrier", pennyCommSuspend(comm, PENNY_SUSPEND_MEM));
    }
    CHECK_INT(stat_of(comm, pennyStatMemSuspended), 0);
    a_large_sum_is_right(comm, 5);
}

int main(void) {
    begin();
    comm = join();
    RUN(memory_is_given_back_and_taken_again);
    RUN(messages_that_nobody_has_taken_stay);
    RUN(ranks_of_one_thread_suspend_in_a_group);
    RUN(wrong_arguments_are_refused);
    OK(pennyCommDestroy(comm));
    return 0;
}
