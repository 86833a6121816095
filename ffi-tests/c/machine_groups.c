/* Groups of calls of all ranks of a process, on a stream each, on a declared machine. Each process calls for its share of RANKS ranks, and
   prints when each rank was done with each group. */
#include "machine.h"

enum { RANKS = 8, COUNT = 64 << 10, GROUPS = 3 };

static float memory[RANKS][COUNT];
static pennyComm_t comms[RANKS];
static pennyStream_t streams[RANKS];
static pennyEvent_t begun[RANKS], done[RANKS][GROUPS];

static void mark(pennyEvent_t *event, int of) {
    OK(pennyEventCreate(event));
    OK(pennyEventRecord(*event, streams[of]));
}

/* Rank 0 sends a block to each other rank, so the others are done one after the other. */
static void send_to_each_other_rank(int of) {
    if (of > 0) OK(pennyRecv(memory[of], COUNT, pennyFloat, 0, comms[of], streams[of]));
    for (int to = 1; of == 0 && to < RANKS; to++)
        OK(pennySend(memory[of], COUNT, pennyFloat, to, comms[of], streams[of]));
}

int main(void) {
    begin();
    const int share = RANKS / ranks, first = rank * share, end = first + share;
    const pennyUniqueId id = shared_id();
    OK(pennyGroupStart());
    for (int of = first; of < end; of++) OK(pennyCommInitRank(&comms[of], RANKS, id, of));
    OK(pennyGroupEnd());
    for (int of = first; of < end; of++) {
        OK(pennyStreamCreate(&streams[of]));
        mark(&begun[of], of);
    }
    for (int group = 0; group < GROUPS; group++) {
        OK(pennyGroupStart());
        for (int of = first; of < end; of++) send_to_each_other_rank(of);
        OK(pennyGroupEnd());
        for (int of = first; of < end; of++) mark(&done[of][group], of);
    }
    for (int of = first; of < end; of++) {
        char name[32];
        float ms[GROUPS];
        OK(pennyStreamSynchronize(streams[of]));
        for (int group = 0; group < GROUPS; group++) {
            OK(pennyEventElapsedTime(&ms[group], begun[of], done[of][group]));
            OK(pennyEventDestroy(done[of][group]));
        }
        OK(pennyEventDestroy(begun[of]));
        OK(pennyStreamDestroy(streams[of]));
        snprintf(name, sizeof name, "times.%d", of);
        post_bytes(name, ms, sizeof ms);
    }
    OK(pennyGroupStart());
    for (int of = first; of < end; of++) OK(pennyCommDestroy(comms[of]));
    OK(pennyGroupEnd());
    for (int of = 0; of < RANKS; of++) {
        char name[32];
        float ms[GROUPS];
        snprintf(name, sizeof name, "times.%d", of);
        await_bytes(name, ms, sizeof ms);
        printf("rank %d: %.3f %.3f %.3f us\n", of, ms[0] * 1000, ms[1] * 1000, ms[2] * 1000);
    }
    return 0;
}
