/* Beside MPI: the ranks of an MPI program sum over Penny within a host and over MPI between hosts, and a message of MPI is under way
 * while Penny's calls wait. */
#include <mpi.h>
#include <penny_mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Stops all ranks with the sentence of a failed call: that of penny.h, or of penny_mpi.h. */
#define TRY(call) TRY_OF(call, pennyGetLastError(NULL))
#define TRY_MPI(call) TRY_OF(call, pennyMPIGetLastError())
#define TRY_OF(call, sentence)                  \
    do {                                        \
        if ((call) != pennySuccess) {           \
            fprintf(stderr, "%s\n", sentence);  \
            MPI_Abort(MPI_COMM_WORLD, 1);       \
        }                                       \
    } while (0)

enum { COUNT = 1 << 20 };

static void check(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "wrong: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The sum over all ranks of all hosts: within each host by Penny, between the first ranks of the hosts by MPI, and back. */
static void sum_over_hosts(double *data, int rank, int ranks) {
    pennyComm_t comm;
    MPI_Comm host, leaders;
    int here;

    TRY_MPI(pennyCommInitMPIHost(&comm, &host, MPI_COMM_WORLD, NULL));
    MPI_Comm_rank(host, &here);
    MPI_Comm_split(MPI_COMM_WORLD, here == 0 ? 0 : MPI_UNDEFINED, rank, &leaders);

    for (int i = 0; i < COUNT; i++) data[i] = rank + i % 7;
    TRY(pennyReduce(data, data, COUNT, pennyDouble, pennySum, 0, comm, NULL));
    if (here == 0) {
        MPI_Allreduce(MPI_IN_PLACE, data, COUNT, MPI_DOUBLE, MPI_SUM, leaders);
        MPI_Comm_free(&leaders);
    }
    TRY(pennyBroadcast(data, data, COUNT, pennyDouble, 0, comm, NULL));
    for (int i = 0; i < COUNT; i++) check(data[i] == ranks * (ranks - 1) / 2 + (double)ranks * (i % 7), "the sum over hosts");

    MPI_Comm_free(&host);
    TRY(pennyCommDestroy(comm));
}

/* Each of two halves of the ranks has a communicator of its own, made from MPI's. */
static void sum_in_halves(int rank, int ranks) {
    pennyComm_t comm;
    MPI_Comm half;
    int mine = 1, members, sum;

    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks / 2, rank, &half);
    MPI_Comm_size(half, &members);
    TRY_MPI(pennyCommInitMPI(&comm, half, NULL));
    MPI_Comm_free(&half); /* Penny does not keep it */
    TRY(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    check(sum == members, "the sum of a half");
    TRY(pennyCommDestroy(comm));
}

/* Rank 0 begins to send 8 MB and goes on; the last rank receives first. Rank 0's part of the message needs calls of MPI, and the
 * hook makes them while rank 0 waits in pennyAllReduce. */
static void sum_while_a_message_is_under_way(double *data, int rank, int ranks) {
    pennyComm_t comm;
    MPI_Request request = MPI_REQUEST_NULL;
    int mine = rank, sum;

    TRY_MPI(pennyCommInitMPI(&comm, MPI_COMM_WORLD, NULL));
    TRY(pennySetProgress(pennyMPIProgress, NULL));
    for (int i = 0; i < COUNT; i++) data[i] = rank == 0 ? i : -1;
    if (rank == 0 && ranks > 1) MPI_Isend(data, COUNT, MPI_DOUBLE, ranks - 1, 0, MPI_COMM_WORLD, &request);
    if (rank == ranks - 1 && ranks > 1) MPI_Recv(data, COUNT, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    TRY(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(sum == ranks * (ranks - 1) / 2, "the sum beside the message");
    check(rank != ranks - 1 || data[COUNT - 1] == COUNT - 1, "the message");
    TRY(pennySetProgress(NULL, NULL));
    TRY(pennyCommDestroy(comm));
}

int main(int argc, char **argv) {
    double *data = malloc(COUNT * sizeof *data);
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    sum_over_hosts(data, rank, ranks);
    sum_in_halves(rank, ranks);
    sum_while_a_message_is_under_way(data, rank, ranks);
    if (rank == 0) printf("%d ranks: the sums over hosts, in halves and beside a message are right\n", ranks);
    MPI_Finalize();
    free(data);
    return 0;
}
