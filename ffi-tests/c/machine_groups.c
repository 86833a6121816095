/* Calls of several ranks, in groups or with SINGLY one by one, on a stream each, on a declared machine. A process has its share of RANKS
   ranks, and THREADS threads, each of which calls for its share of these and waits for their streams, or with POLL asks again and again
   whether they are over; with BLOCKING it uses no streams, and waits in each group. With EVENTS each stream waits for the one before it after
   each group. Prints when each rank was done with each group. */
#include "machine.h"
#include <unistd.h>

enum { RANKS = 8, COUNT = 64 << 10, GROUPS = 6 };

static float memory[RANKS][COUNT], ms[RANKS][GROUPS];
static pennyComm_t comms[RANKS];
static pennyStream_t streams[RANKS];
static pennyEvent_t begun[RANKS], done[RANKS][GROUPS];
static int share;

static void mark(pennyEvent_t *event, int of) {
    OK(pennyEventCreate(event));
    OK(pennyEventRecord(*event, streams[of]));
}

/* The same number at all ranks, 0 without SEED. */
static unsigned drawn(unsigned group, unsigned which, unsigned below) {
    if (getenv("SEED") == NULL) return 0;
    unsigned x = (unsigned)atoi(getenv("SEED")) * 2654435761u + group * 40503u + which * 69069u;
    for (int round = 0; round < 3; round++) x = (x ^ x >> 15) * 2246822519u;
    return (x ^ x >> 13) % below;
}

static void pass(int of, int from, int to, int count) {
    if (of == from) OK(pennySend(memory[of], (size_t)count, pennyFloat, to, comms[of], streams[of]));
    if (of == to) OK(pennyRecv(memory[of], (size_t)count, pennyFloat, from, comms[of], streams[of]));
}

/* What a rank calls in a group. Rank 0 sends a block to each other rank, so the others are done one after the other; with SEED something
   that is drawn. */
static void make_calls(int of, int group) {
    /* An event of a stream without any call tells this host's time. */
    const unsigned kind = getenv("SEED") != NULL && group == 0 ? 4 : drawn((unsigned)group, 0, 7);
    const int root = (int)drawn((unsigned)group, 1, RANKS);
    const int count = getenv("SEED") == NULL ? COUNT : 1 << drawn((unsigned)group, 2, 17);
    const size_t elements = (size_t)count;
    void *const own = memory[of];
    for (int other = 0; other < RANKS; other++) {
        if (kind == 0 && other != root) pass(of, root, other, count);
        if (kind == 1 && other != root) pass(of, other, root, count);
        if (kind == 2) pass(of, other, (other + 1) % RANKS, count);
        const int to = (int)drawn((unsigned)group, 3 + (unsigned)other, RANKS);
        if (kind == 3 && to != other) pass(of, other, to, count);
    }
    if (kind == 4) OK(pennyAllReduce(own, own, elements, pennyFloat, pennySum, comms[of], streams[of]));
    if (kind == 5) OK(pennyBroadcast(own, own, elements, pennyFloat, root, comms[of], streams[of]));
    if (kind == 6) OK(pennyReduce(own, own, elements, pennyFloat, pennySum, root, comms[of], streams[of]));
}

/* Waits until the streams are over. */
static void await_streams(int first, int end) {
    for (int left = getenv("POLL") == NULL ? 0 : 1; left > 0;) {
        left = 0;
        for (int of = first; of < end; of++) {
            pennyResult_t told = of % 2 ? pennyStreamQuery(streams[of]) : pennyEventQuery(done[of][GROUPS - 1]);
            if (told == pennyInProgress) left++;
            else OK(told);
        }
    }
    for (int of = first; of < end; of++) OK(pennyStreamSynchronize(streams[of]));
}

/* A thread that never calls, and waits for something outside of the process, as those of MPI libraries do. */
static void *stand_by(void *nothing) {
    pause();
    return nothing;
}

/* Makes the calls of ranks whose streams are NULL. */
static void make_groups_in_place(int first, int end) {
    for (int group = 0; group < GROUPS; group++) {
        OK(pennyGroupStart());
        for (int of = first; of < end; of++) make_calls(of, group);
        OK(pennyGroupEnd());
        for (int of = first; of < end; of++) {
            uint64_t ps = 0;
            OK(pennyFabricNow(comms[of], &ps));
            ms[of][group] = (float)ps / 1e9f;
        }
    }
}

/* Makes the calls of `share` ranks from this one on. */
static void *drive(void *which) {
    const int first = *(int *)which, end = first + share;
    if (getenv("BLOCKING") != NULL) {
        make_groups_in_place(first, end);
        return NULL;
    }
    for (int of = first; of < end; of++) {
        OK(pennyStreamCreate(&streams[of]));
        mark(&begun[of], of);
    }
    for (int group = 0; group < GROUPS; group++) {
        if (getenv("SINGLY") == NULL) OK(pennyGroupStart());
        for (int of = first; of < end; of++) make_calls(of, group);
        if (getenv("SINGLY") == NULL) OK(pennyGroupEnd());
        for (int of = first; of < end; of++) {
            mark(&done[of][group], of);
            if (getenv("EVENTS") != NULL && of > first) OK(pennyStreamWaitEvent(streams[of], done[of - 1][group]));
        }
    }
    await_streams(first, end);
    for (int of = first; of < end; of++) {
        for (int group = 0; group < GROUPS; group++) {
            OK(pennyEventElapsedTime(&ms[of][group], begun[of], done[of][group]));
            OK(pennyEventDestroy(done[of][group]));
        }
        OK(pennyEventDestroy(begun[of]));
        OK(pennyStreamDestroy(streams[of]));
    }
    return NULL;
}

int main(void) {
    begin();
    const int threads = getenv("THREADS") == NULL ? 1 : atoi(getenv("THREADS"));
    const int here = RANKS / ranks, first = rank * here, end = first + here;
    const pennyUniqueId id = shared_id();
    char name[32];
    share = here / threads;
    OK(pennyGroupStart());
    for (int of = first; of < end; of++) OK(pennyCommInitRank(&comms[of], RANKS, id, of));
    OK(pennyGroupEnd());
    pthread_t thread[RANKS], stranger;
    if (pthread_create(&stranger, NULL, stand_by, NULL) != 0) FAIL("no thread");
    int from[RANKS];
    for (int i = 0; i < threads; i++) {
        from[i] = first + i * share;
        if (pthread_create(&thread[i], NULL, drive, &from[i]) != 0) FAIL("no thread");
    }
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    for (int of = first; of < end; of++) {
        snprintf(name, sizeof name, "times.%d", of);
        post_bytes(name, ms[of], sizeof ms[of]);
    }
    OK(pennyGroupStart());
    for (int of = first; of < end; of++) OK(pennyCommDestroy(comms[of]));
    OK(pennyGroupEnd());
    for (int of = 0; of < RANKS; of++) {
        float of_rank[GROUPS];
        snprintf(name, sizeof name, "times.%d", of);
        await_bytes(name, of_rank, sizeof of_rank);
        printf("rank %d, us:", of);
        for (int group = 0; group < GROUPS; group++) printf(" %.3f", of_rank[group] * 1000);
        printf("\n");
    }
    return 0;
}
