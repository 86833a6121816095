/* Collectives that a program makes by turns: few, of which the library remembers each, and more than it remembers. */
#include "check.h"

enum { LARGEST = 5000, KINDS = 30, TURNS = 1200 };
static pennyComm_t comm;
static int in[LARGEST], out[8 * LARGEST];

static int value(int r, int turn, size_t i) { return (r + 1) * 1000 + turn % 100 + (int)i % 500; }

static int sum_at(int turn, size_t i) {
    int sum = 0;
    for (int r = 0; r < ranks; r++) sum += value(r, turn, i);
    return sum;
}

/* Makes the call of a kind, on a stream if there is one, and checks what it gives. */
static void make(int kind, int turn, pennyStream_t stream) {
    static const size_t counts[] = {1, 2, 33, 128, 1000, LARGEST};
    size_t count = counts[kind % 6], blocks = 1;
    int in_place = turn % 5 == 0, root = turn / 7 % ranks, is_output = 1, *recv = in_place ? in : out;
    for (size_t i = 0; i < count; i++) in[i] = value(rank, turn, i);
    for (size_t i = 0; i < count * (size_t)ranks; i++) out[i] = -1;
    switch (kind / 6) {
    case 0:
        OK(pennyAllReduce(in, recv, count, pennyInt, pennySum, comm, stream));
        break;
    case 1:
        OK(pennyAllReduce(in, recv, count, pennyInt, pennyMax, comm, stream));
        break;
    case 2:
        blocks = (size_t)ranks, recv = out;
        OK(pennyAllGather(in, out, count, pennyInt, comm, stream));
        break;
    case 3:
        is_output = rank == root, recv = out;
        OK(pennyReduce(in, out, count, pennyInt, pennySum, root, comm, stream));
        break;
    default:
        OK(pennyBroadcast(in, recv, count, pennyInt, root, comm, stream));
    }
    OK(pennyStreamSynchronize(stream));
    for (size_t b = 0; is_output && b < blocks; b++) {
        for (size_t i = 0; i < count; i++) {
            int from[] = {sum_at(turn, i), value(ranks - 1, turn, i), value((int)b, turn, i), sum_at(turn, i), value(root, turn, i)};
            CHECK_INT(recv[b * count + i], from[kind / 6]);
        }
    }
}

/* Makes calls of a window of kinds, which moves on. All ranks throw the same dice. */
static void by_turns(int window, pennyStream_t stream) {
    unsigned dice = (unsigned)window;
    for (int turn = 0; turn < TURNS; turn++) {
        dice = dice * 1103515245u + 12345u;
        make((turn / 60 + (int)(dice >> 16) % window * 7) % KINDS, turn, stream);
        if (turn % 151 == 150) {
            FAILS(pennyInvalidArgument, "root 99", pennyBroadcast(in, out, 2, pennyInt, 99, comm, NULL));
        }
        if (turn % 211 == 210 && ranks > 1) {
            FAILS(pennyInvalidUsage, "rank", pennyAllReduce(in, out, rank ? 2 : 3, pennyInt, pennySum, comm, NULL));
        }
    }
}

static void a_few_calls_by_turns_have_their_own_arguments(void) { by_turns(3, NULL); }

static void more_calls_than_are_remembered_have_theirs(void) { by_turns(KINDS, NULL); }

static void calls_by_turns_on_a_stream_have_theirs(void) {
    pennyStream_t stream;
    OK(pennyStreamCreate(&stream));
    by_turns(3, stream);
    by_turns(KINDS, stream);
    OK(pennyStreamDestroy(stream));
}

int main(void) {
    begin();
    CHECK(ranks <= 8);
    comm = join();
    RUN(a_few_calls_by_turns_have_their_own_arguments);
    RUN(more_calls_than_are_remembered_have_theirs);
    RUN(calls_by_turns_on_a_stream_have_theirs);
    OK(pennyCommDestroy(comm));
    return 0;
}
