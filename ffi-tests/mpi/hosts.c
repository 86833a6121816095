/* Ranks of an MPI program on several hosts, by PENNY_HOST_ID: pennyCommInitMPI joins all of them, and the launcher is left to MPI. */
#include <mpi.h>
#include <penny_mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

#define CHECK(condition)                                                                                                \
    do {                                                                                                                \
        if (!(condition)) {                                                                                             \
            fprintf(stderr, "hosts.c:%d: rank %d of %d: %s: %s; %s\n", __LINE__, rank, ranks, #condition,               \
                    pennyMPIGetLastError(), pennyGetLastError(NULL));                                                   \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                               \
        }                                                                                                               \
    } while (0)

enum { LARGEST = 1 << 20 };

/* Sums of several sizes over all ranks, then messages in a ring. */
static void passes(pennyComm_t comm) {
    int *data = malloc(LARGEST * sizeof *data), there;
    CHECK(data != NULL);
    for (int count = 1; count <= LARGEST; count *= 64) {
        for (int i = 0; i < count; i++) data[i] = rank + i % 5;
        CHECK(pennyAllReduce(data, data, (size_t)count, pennyInt, pennySum, comm, NULL) == pennySuccess);
        for (int i = 0; i < count; i++) CHECK(data[i] == ranks * (ranks - 1) / 2 + ranks * (i % 5));
    }
    CHECK(pennyGroupStart() == pennySuccess);
    CHECK(pennySend(&rank, 1, pennyInt, (rank + 1) % ranks, comm, NULL) == pennySuccess);
    CHECK(pennyRecv(&there, 1, pennyInt, (rank + ranks - 1) % ranks, comm, NULL) == pennySuccess);
    CHECK(pennyGroupEnd() == pennySuccess);
    CHECK(there == (rank + ranks - 1) % ranks);
    free(data);
}

int main(int argc, char **argv) {
    MPI_Comm half;
    pennyComm_t comm = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    /* MPI holds the conversation with the launcher. */
    CHECK(pennyCommInitFromEnv(&comm, NULL) == pennyInvalidUsage);
    CHECK(strstr(pennyGetLastError(NULL), "pennyCommInitMPI (penny_mpi.h)") != NULL);
    for (int round = 0; round < 2; round++) {
        CHECK(pennyCommInitMPI(&comm, MPI_COMM_WORLD, NULL) == pennySuccess);
        passes(comm);
        CHECK(pennyCommDestroy(comm) == pennySuccess);
    }
    /* Some ranks of each host, in another order. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    CHECK(pennyCommInitMPI(&comm, half, NULL) == pennySuccess);
    CHECK(pennyBarrier(comm, NULL) == pennySuccess);
    CHECK(pennyCommDestroy(comm) == pennySuccess);
    MPI_Comm_free(&half);
    if (rank == 0) printf("%d ranks of several hosts have met\n", ranks);
    MPI_Finalize();
    return 0;
}
