/* Meeting: every process of the launch joins one communicator, learns its rank, and parts. */
#include <penny.h>
#include <stdio.h>
#include <stdlib.h>

/* Stops this rank with the sentence of a failed call. The other ranks notice and stop as well. */
#define TRY(call)                                              \
    do {                                                       \
        if ((call) != pennySuccess) {                          \
            fprintf(stderr, "%s\n", pennyGetLastError(NULL)); \
            exit(1);                                           \
        }                                                      \
    } while (0)

int main(void) {
    pennyComm_t comm;
    int version, rank, ranks;

    /* The header that this was compiled with, and the library that it runs with. */
    TRY(pennyGetVersion(&version));
    if (version / 100 != PENNY_VERSION_CODE / 100) {
        fprintf(stderr, "compiled for penny %d, running with %d\n", PENNY_VERSION_CODE, version);
        return 1;
    }

    /* Rank and size come from the launcher: no address, no file, no id is needed. */
    TRY(pennyCommInitFromEnv(&comm, NULL));
    TRY(pennyCommUserRank(comm, &rank));
    TRY(pennyCommCount(comm, &ranks));
    printf("rank %d of %d is here\n", rank, ranks);

    TRY(pennyBarrier(comm, NULL)); /* no rank leaves before all ranks have come */
    TRY(pennyCommDestroy(comm));
    return 0;
}
