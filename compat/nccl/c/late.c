/* A rank that never comes. */
#include "check.h"

static void the_deadline_passes(void) {
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    OK(ncclGetUniqueId(&id));
    FAILS(EXPECTED, "rank 1", ncclCommInitRank(&comm, 2, id, 0));
}

int main(void) {
    begin();
    setenv("PENNY_TIMEOUT", "1", 1);
    RUN(the_deadline_passes);
    return 0;
}
