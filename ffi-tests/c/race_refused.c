/* PENNY_CHECK=race is for ranks of one host: ranks of several are told so, and the communicator is as it was. */
#include "check.h"

static void the_check_of_races_is_refused_on_every_rank(void) {
    pennyComm_t comm = join();
    for (int times = 0; times < 2; times++) {
        FAILS(pennyInvalidUsage, "PENNY_CHECK=race between ranks of several hosts is not there yet", pennyShmemInit(comm));
        CHECK(sum_over(comm) == (float)(ranks * (ranks - 1) / 2));
    }
    unsetenv("PENNY_CHECK");
    OK(pennyBarrier(comm, NULL));
    OK(pennyShmemInit(comm));
    OK(pennyCommDestroy(comm));
}

int main(void) {
    begin();
    RUN(the_check_of_races_is_refused_on_every_rank);
    return 0;
}
