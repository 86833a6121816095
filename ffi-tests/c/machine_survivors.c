/* A rank of a simulated cluster dies in its own program; the others' clocks go on in a communicator of their own. */
#include "check.h"
#include <unistd.h>

static pennyComm_t comm;

static void sum_is(pennyComm_t of, int mine, int expected) {
    int all = -1;
    OK(pennyAllReduce(&mine, &all, 1, pennyInt, pennySum, of, NULL));
    CHECK_INT(all, expected);
}

static void survivors_go_on_in_the_clusters_time(void) {
    pennyComm_t rest;
    int last = ranks - 1, word = 1, sum;
    uint64_t before, first, second;
    if (rank == last) {
        puts("survivors_go_on_in_the_clusters_time");
        fflush(stdout);
        _exit(0);
    }
    FAILS(pennyRemoteError, "died", pennyAllReduce(&word, &sum, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyCommShrink(comm, &last, 1, &rest, NULL, PENNY_SHRINK_DEFAULT));
    OK(pennyCommAbort(comm));
    sum_is(rest, rank + 1, ranks * last / 2);
    OK(pennyFabricNow(rest, &before));
    sum_is(rest, rank + 1, ranks * last / 2);
    OK(pennyFabricNow(rest, &first));
    CHECK(first > before);
    for (int i = 0; i < 98; i++) sum_is(rest, rank + 1, ranks * last / 2);
    OK(pennyFabricNow(rest, &second));
    CHECK(second - first == 98 * (first - before));
    OK(pennyCommDestroy(rest));
}

int main(void) {
    begin();
    comm = join();
    sum_is(comm, rank + 1, ranks * (ranks + 1) / 2);
    RUN(survivors_go_on_in_the_clusters_time);
    return 0;
}
