/* The host profile: all ranks choose by rank 0's, whatever the others would read. What the library says goes to standard output.
 * TEST_CACHE is a folder with a folder of caches for each rank; TEST_PROFILE_<rank> is that rank's PENNY_HOST_PROFILE. */
#include "check.h"

#include <unistd.h>

static void of_this_rank(const char *variable, const char *format) {
    char name[64];
    snprintf(name, sizeof name, format, rank);
    const char *value = getenv(name);
    if (value != NULL) CHECK(setenv(variable, value, 1) == 0);
}

static void sums_are_right(pennyComm_t comm, size_t count) {
    int members;
    OK(pennyCommCount(comm, &members));
    int *data = malloc(count * sizeof *data), *sum = malloc(count * sizeof *sum);
    CHECK(data != NULL && sum != NULL);
    for (size_t i = 0; i < count; i++) data[i] = (int)i;
    OK(pennyAllReduce(data, sum, count, pennyInt, pennySum, comm, NULL));
    for (size_t i = 0; i < count; i++) CHECK_INT(sum[i], members * (int)i);
    OK(pennyBroadcast(data, sum, count, pennyInt, 0, comm, NULL));
    for (size_t i = 0; i < count; i++) CHECK_INT(sum[i], (int)i);
    free(data);
    free(sum);
}

int main(void) {
    const size_t counts[] = {2, 2048, 100000};
    char caches[512];
    pennyComm_t comm, half, copy;
    begin();
    CHECK(dup2(STDOUT_FILENO, STDERR_FILENO) >= 0);
    if (getenv("TEST_CACHE") == NULL) {
        CHECK(unsetenv("XDG_CACHE_HOME") == 0 && unsetenv("HOME") == 0);
    } else {
        snprintf(caches, sizeof caches, "%s/%d", getenv("TEST_CACHE"), rank);
        CHECK(setenv("XDG_CACHE_HOME", caches, 1) == 0);
    }
    of_this_rank("PENNY_HOST_PROFILE", "TEST_PROFILE_%d");
    comm = join();
    for (int i = 0; i < 3; i++) sums_are_right(comm, counts[i]);
    /* What the file says has changed meanwhile, and children take after their parent. */
    CHECK(setenv("PENNY_HOST_PROFILE", rank % 2 == 0 ? "none" : "/nowhere", 1) == 0);
    OK(pennyCommSplit(comm, rank % 2, rank, &half, NULL));
    OK(pennyCommDup(comm, &copy));
    for (int i = 0; i < 3; i++) sums_are_right(half, counts[i]);
    for (int i = 0; i < 3; i++) sums_are_right(copy, counts[i]);
    OK(pennyCommDestroy(half));
    OK(pennyCommDestroy(copy));
    OK(pennyCommDestroy(comm));
    /* Another of its own: a file that is no profile was warned of before. */
    OK(unsetenv("PENNY_HOST_PROFILE") == 0 ? pennySuccess : pennySystemError);
    of_this_rank("PENNY_HOST_PROFILE", "TEST_PROFILE_%d");
    comm = join();
    sums_are_right(comm, 2);
    OK(pennyCommDestroy(comm));
    return 0;
}
