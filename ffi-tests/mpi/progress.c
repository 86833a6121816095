/* A large MPI message under way while Penny's calls wait. Rank 0 begins to send and goes into a collective call; rank 1 receives
 * first. Its receive ends only if rank 0 calls MPI meanwhile: pennySetProgress has Penny do that. Without "hook" as an argument the
 * two ranks wait for each other until Penny's deadline. */
#include <mpi.h>
#include <penny.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 8 << 20 };

static int calls;

static void progress(void *unused) {
    int flag;
    (void)unused;
    calls++;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void ok(pennyResult_t result) {
    if (result == pennySuccess) return;
    fprintf(stderr, "%s\n", pennyGetLastError(NULL));
    exit(1);
}

int main(int argc, char **argv) {
    int rank, ranks, provided, mine, sum = 0;
    char *message = malloc(BYTES);
    pennyUniqueId id;
    pennyComm_t comm;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0) ok(pennyGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (argc > 1 && strcmp(argv[1], "hook") == 0) ok(pennySetProgress(progress, NULL));
    ok(pennyCommInitRank(&comm, ranks, id, rank));
    mine = rank;
    for (int round = 0; round < 3; round++) {
        MPI_Request request = MPI_REQUEST_NULL;
        memset(message, rank == 0 ? round + 1 : 0, BYTES);
        if (rank == 0) MPI_Isend(message, BYTES, MPI_BYTE, 1, round, MPI_COMM_WORLD, &request);
        if (rank == 1) {
            MPI_Recv(message, BYTES, MPI_BYTE, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (message[0] != round + 1 || message[BYTES - 1] != round + 1) exit(2);
        }
        ok(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
        if (sum != ranks * (ranks - 1) / 2) exit(3);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    ok(pennyCommDestroy(comm));
    if (rank == 0) printf("rank 0 sent while it waited; the hook was called %s\n", calls > 0 ? "often" : "never");
    MPI_Finalize();
    free(message);
    return 0;
}
