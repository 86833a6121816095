/* Reductions: every rank brings a vector, every rank gets the same combination of all of them. */
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

enum { COUNT = 4 };

static void print(const char *what, const float *values) {
    printf("%-8s", what);
    for (int i = 0; i < COUNT; i++) printf(" %5.1f", values[i]);
    printf("\n");
}

int main(void) {
    pennyComm_t comm;
    int rank;
    float mine[COUNT], all[COUNT];

    TRY(pennyCommInitFromEnv(&comm, NULL));
    TRY(pennyCommUserRank(comm, &rank));
    for (int i = 0; i < COUNT; i++) mine[i] = (float)(10 * rank + i);

    TRY(pennyAllReduce(mine, all, COUNT, pennyFloat, pennySum, comm, NULL));
    if (rank == 0) print("sum", all);
    TRY(pennyAllReduce(mine, all, COUNT, pennyFloat, pennyAvg, comm, NULL));
    if (rank == 0) print("average", all);

    /* In place: the input is overwritten with the result. */
    TRY(pennyAllReduce(mine, mine, COUNT, pennyFloat, pennyMax, comm, NULL));
    if (rank == 0) print("largest", mine);

    TRY(pennyCommDestroy(comm));
    return 0;
}
