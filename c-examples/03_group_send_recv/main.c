/* Transfers: a token goes once around the ring of ranks, all hops of a round at the same time. */
#include <penny.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(call)                                              \
    do {                                                       \
        if ((call) != pennySuccess) {                          \
            fprintf(stderr, "%s\n", pennyGetLastError(NULL)); \
            exit(1);                                           \
        }                                                      \
    } while (0)

int main(void) {
    pennyComm_t comm;
    int rank, ranks;

    TRY(pennyCommInitFromEnv(&comm, NULL));
    TRY(pennyCommUserRank(comm, &rank));
    TRY(pennyCommCount(comm, &ranks));
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;

    int token = rank;
    printf("rank %d:", rank);
    for (int round = 0; round < ranks; round++) {
        int arrived;
        /* One by one, every rank would send first and wait for a receiver. In one group both halves go at once. */
        TRY(pennyGroupStart());
        TRY(pennySend(&token, 1, pennyInt, next, comm, NULL));
        TRY(pennyRecv(&arrived, 1, pennyInt, previous, comm, NULL));
        TRY(pennyGroupEnd());
        token = arrived;
        printf(" %d", token);
    }
    printf("\n");

    TRY(pennyCommDestroy(comm));
    return token == rank ? 0 : 1; /* it has come home */
}
