/* A benchmark that knows nothing of Penny's clock: the processes of an MPI program share the ranks of a declared machine, and meet in MPI
 * before and after they look at the clock. Process 0 prints how long the gathers of each phase took. How many processes there are makes no
 * difference, although those whose ranks are done early wait in MPI, and no rank is ever taken for one that is away. */
#include <mpi.h>
#include <penny.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 8, COUNT = 512, GROUPS = 10, PHASES = 4 };

static float memory[RANKS][RANKS * COUNT];
static pennyComm_t comms[RANKS];
static pennyStream_t streams[RANKS];

static void ok(pennyResult_t result) {
    if (result == pennySuccess) return;
    fprintf(stderr, "%s\n", pennyGetLastError(NULL));
    exit(1);
}

static void gather(int first, int end) {
    ok(pennyGroupStart());
    for (int of = first; of < end; of++) {
        ok(pennySend(memory[of], COUNT, pennyFloat, 0, comms[of], streams[of]));
        for (int from = 0; of == 0 && from < RANKS; from++)
            ok(pennyRecv(memory[of] + from * COUNT, COUNT, pennyFloat, from, comms[of], streams[of]));
    }
    ok(pennyGroupEnd());
}

static void await_streams(int first, int end) {
    for (int left = 1; left > 0;) {
        left = 0;
        for (int of = first; of < end; of++) {
            pennyResult_t told = pennyStreamQuery(streams[of]);
            if (told == pennyInProgress) left++;
            else ok(told);
        }
    }
}

int main(int argc, char **argv) {
    int process, processes;
    pennyUniqueId id;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    const int first = process * RANKS / processes, end = (process + 1) * RANKS / processes;
    if (process == 0) ok(pennyGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    ok(pennyGroupStart());
    for (int of = first; of < end; of++) ok(pennyCommInitRank(&comms[of], RANKS, id, of));
    ok(pennyGroupEnd());
    for (int of = first; of < end; of++) ok(pennyStreamCreate(&streams[of]));
    for (int phase = 0; phase < PHASES; phase++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begun = MPI_Wtime();
        for (int group = 0; group < GROUPS; group++) gather(first, end);
        await_streams(first, end);
        double mine = (MPI_Wtime() - begun) * 1e6, longest = 0;
        MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (process == 0) printf("phase %d: %.3f us\n", phase, longest);
    }
    ok(pennyGroupStart());
    for (int of = first; of < end; of++) ok(pennyCommDestroy(comms[of]));
    ok(pennyGroupEnd());
    for (int of = first; of < end; of++) ok(pennyStreamDestroy(streams[of]));
    MPI_Finalize();
    return 0;
}
