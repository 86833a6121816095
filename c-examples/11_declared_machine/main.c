/* A declared machine: sixteen ranks run here, and the clock tells what two nodes of eight H100 would have taken. */
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

enum { COUNT = 1 << 18 };

/* The latest of all ranks' clocks; they begin at 0. */
static double latest_us(pennyComm_t comm) {
    uint64_t ps;
    TRY(pennyFabricNow(comm, &ps));
    double mine = (double)ps * 1e-6, latest;
    TRY(pennyAllReduce(&mine, &latest, 1, pennyDouble, pennyMax, comm, NULL));
    return latest;
}

static void reduce(const char *algo) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyComm_t comm;
    int rank, ranks;

    /* Instead of these two fields: PENNY_FABRIC and PENNY_ALGO in the environment. */
    config.fabric = "dgx-h100:nodes=2";
    config.algo = algo;
    TRY(pennyCommInitFromEnv(&comm, &config));
    TRY(pennyCommUserRank(comm, &rank));
    TRY(pennyCommCount(comm, &ranks));

    float *data = malloc(COUNT * sizeof *data);
    for (int i = 0; i < COUNT; i++) data[i] = (float)(rank + i % 7);
    TRY(pennyAllReduce(data, data, COUNT, pennyFloat, pennySum, comm, NULL));
    double us = latest_us(comm);

    int wrong = 0;
    for (int i = 0; i < COUNT; i++) wrong += data[i] != (float)(ranks * (ranks - 1) / 2 + ranks * (i % 7));
    TRY(pennyAllReduce(&wrong, &wrong, 1, pennyInt, pennySum, comm, NULL));
    if (rank == 0) {
        printf("%-18s %d sums on each of %d ranks, %d wrong, %.3f us on the machine\n", algo, COUNT, ranks, wrong, us);
    }
    free(data);
    TRY(pennyCommDestroy(comm));
}

int main(void) {
    reduce("ring");
    reduce("alternating_rings");
    return 0;
}
