/* Two ranks die one after the other, on different hosts where there are several; after each the others go on without them. */
#include "check.h"
#include <unistd.h>

/* A communicator without those that have died, where the calls of `comm` fail because of the last of them. */
static pennyComm_t without(pennyComm_t comm, int dead, int here) {
    pennyComm_t rest;
    int word = 1, sum;
    if (rank == dead) {
        puts("others_go_on_after_each_of_two_deaths");
        fflush(stdout);
        _exit(0);
    }
    FAILS(pennyRemoteError, "died", pennyAllReduce(&word, &sum, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyCommShrink(comm, &here, 1, &rest, NULL, PENNY_SHRINK_DEFAULT));
    return rest;
}

static void others_go_on_after_each_of_two_deaths(void) {
    enum { MANY = 30000 };
    static int in[MANY], out[MANY];
    const int first = 1, second = ranks - 1, all = ranks * (ranks + 1) / 2;
    pennyComm_t comm = join();
    /* Nobody dies while others join. */
    OK(pennyBarrier(comm, NULL));
    pennyComm_t rest = without(comm, first, first);
    int sum = 0, mine = rank + 1;
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, rest, NULL));
    CHECK_INT(sum, all - first - 1);
    pennyComm_t last = without(rest, second, second - 1);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < MANY; i++) in[i] = (rank + 1) * (i % 7 + round);
        OK(pennyAllReduce(in, out, round % 2 ? MANY : 3, pennyInt, pennySum, last, NULL));
        for (int i = 0; i < (round % 2 ? MANY : 3); i++) CHECK_INT(out[i], (all - first - second - 2) * (i % 7 + round));
    }
    OK(pennyCommDestroy(last));
    OK(pennyCommAbort(rest));
    OK(pennyCommAbort(comm));
}

int main(void) {
    begin();
    RUN(others_go_on_after_each_of_two_deaths);
    return 0;
}
