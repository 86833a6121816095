/* Beside MPI: the ranks of an MPI program sum by Penny within a host and by MPI between hosts, and a message of MPI is under way
 * while a call of Penny waits. */
#include <mpi.h>
#include <penny_mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Stops all ranks with the sentence of a failed call: that of penny.h, or of penny_mpi.h. */
#define TRY(call) TRY_OF(call, pennyGetLastError(NULL))
#define TRY_MPI(call) TRY_OF(call, pennyMPIGetLastError())
#define TRY_OF(call, sentence)                 \
    do {                                       \
        if ((call) != pennySuccess) {          \
            fprintf(stderr, "%s\n", sentence); \
            MPI_Abort(MPI_COMM_WORLD, 1);      \
        }                                      \
    } while (0)

enum { COUNT = 1 << 20 };

static void check(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "wrong: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The sum over all ranks of all hosts: within each host by Penny, between the first ranks of the hosts by MPI, and back. Returns the
 * number of hosts, on rank 0. */
static int sum_over_hosts(double *data, pennyComm_t comm, MPI_Comm host) {
    MPI_Comm leaders;
    int rank, ranks, here, hosts = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(host, &here);
    MPI_Comm_split(MPI_COMM_WORLD, here == 0 ? 0 : MPI_UNDEFINED, rank, &leaders);

    for (int i = 0; i < COUNT; i++) data[i] = rank + i % 7;
    TRY(pennyReduce(data, data, COUNT, pennyDouble, pennySum, 0, comm, NULL));
    if (here == 0) {
        MPI_Allreduce(MPI_IN_PLACE, data, COUNT, MPI_DOUBLE, MPI_SUM, leaders);
        MPI_Comm_size(leaders, &hosts);
        MPI_Comm_free(&leaders);
    }
    TRY(pennyBroadcast(data, data, COUNT, pennyDouble, 0, comm, NULL));
    for (int i = 0; i < COUNT; i++) check(data[i] == ranks * (ranks - 1) / 2 + (double)ranks * (i % 7), "the sum over hosts");
    return hosts;
}

/* Each half of a host's ranks gets a communicator of its own, made from one of MPI's. */
static void sum_in_halves(MPI_Comm host) {
    pennyComm_t comm;
    MPI_Comm half;
    int here, of, mine = 1, members, sum;

    MPI_Comm_rank(host, &here);
    MPI_Comm_size(host, &of);
    MPI_Comm_split(host, here < of / 2, here, &half);
    MPI_Comm_size(half, &members);
    TRY_MPI(pennyCommInitMPI(&comm, half, NULL));
    MPI_Comm_free(&half); /* Penny does not keep it */
    TRY(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    check(sum == members, "the sum of a half");
    TRY(pennyCommDestroy(comm));
}

/* A host's first rank begins to send 8 MB and goes on; the last rank receives first. The sender's part needs calls of MPI, and the
 * hook makes them while the sender waits in pennyAllReduce. */
static void sum_while_a_message_is_under_way(double *data, pennyComm_t comm, MPI_Comm host) {
    MPI_Request request = MPI_REQUEST_NULL;
    int here, of, mine = 1, sum;

    MPI_Comm_rank(host, &here);
    MPI_Comm_size(host, &of);
    TRY(pennySetProgress(pennyMPIProgress, NULL));
    for (int i = 0; i < COUNT; i++) data[i] = here == 0 ? i : -1;
    if (of > 1 && here == 0) MPI_Isend(data, COUNT, MPI_DOUBLE, of - 1, 0, host, &request);
    if (of > 1 && here == of - 1) MPI_Recv(data, COUNT, MPI_DOUBLE, 0, 0, host, MPI_STATUS_IGNORE);
    TRY(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    TRY(pennySetProgress(NULL, NULL));
    check(sum == of, "the sum beside the message");
    check(here != of - 1 || data[COUNT - 1] == COUNT - 1, "the message");
}

int main(int argc, char **argv) {
    double *data = malloc(COUNT * sizeof *data);
    pennyComm_t comm;
    MPI_Comm host;
    int rank, ranks, hosts;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    /* The ranks of this host, as a communicator of Penny and as one of MPI. Where all are on one host, pennyCommInitMPI does. */
    TRY_MPI(pennyCommInitMPIHost(&comm, &host, MPI_COMM_WORLD, NULL));

    hosts = sum_over_hosts(data, comm, host);
    sum_in_halves(host);
    sum_while_a_message_is_under_way(data, comm, host);
    if (rank == 0) printf("ranks: %d, hosts: %d; the sums over all, in halves and beside a message are right\n", ranks, hosts);

    TRY(pennyCommDestroy(comm));
    MPI_Comm_free(&host);
    MPI_Finalize();
    free(data);
    return 0;
}
