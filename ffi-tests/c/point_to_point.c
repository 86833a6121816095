/* src/ffi/point_to_point.rs: transfers between two ranks. */
#include "check.h"

enum { LARGE = 300000 };
static pennyComm_t comm;
static int in[LARGE], out[LARGE];

static int value(int from, int to, size_t i) { return from * 1000000 + to * 10000 + (int)(i % 9973); }

static void a_message_goes_from_each_rank_to_each_other(void) {
    const size_t counts[] = {1, 5, 1000, LARGE};
    for (int k = 0; k < 4; k++) {
        for (int from = 0; from < ranks; from++) {
            for (int to = 0; to < ranks; to++) {
                if (from == to) continue;
                if (rank == from) {
                    for (size_t i = 0; i < counts[k]; i++) in[i] = value(from, to, i);
                    OK(pennySend(in, counts[k], pennyInt, to, comm, NULL));
                } else if (rank == to) {
                    OK(pennyRecv(out, counts[k], pennyInt, from, comm, NULL));
                    for (size_t i = 0; i < counts[k]; i++) CHECK_INT(out[i], value(from, to, i));
                }
            }
        }
    }
}

static void a_send_buffer_may_be_written_again_at_once(void) {
    if (ranks == 1) return;
    for (int i = 0; i < 100; i++) {
        int number = i;
        if (rank == 0) {
            OK(pennySend(&number, 1, pennyInt, 1, comm, NULL));
            number = -1;
        } else if (rank == 1) {
            if (i % 10 == 0) nap();
            OK(pennyRecv(&number, 1, pennyInt, 0, comm, NULL));
            CHECK_INT(number, i);
        }
    }
    OK(pennyBarrier(comm, NULL));
}

static void a_ring_of_messages_passes_in_groups(void) {
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    for (size_t count = 1; count <= LARGE; count *= 10) {
        for (size_t i = 0; i < count; i++) in[i] = value(rank, next, i);
        OK(pennyGroupStart());
        OK(pennySend(in, count, pennyInt, next, comm, NULL));
        OK(pennyRecv(out, count, pennyInt, previous, comm, NULL));
        OK(pennyGroupEnd());
        for (size_t i = 0; i < count; i++) CHECK_INT(out[i], value(previous, rank, i));
    }
}

/* Two ranks that answer each other write where they have read: pieces of all messages in between stay whole, too. */
static void messages_of_changing_sizes_are_answered(void) {
    static const size_t counts[] = {LARGE, 40000, 262146, 7, 131072, 65537, 33000, LARGE - 1, 300};
    for (int round = 0; round < 90 && rank < 2 && ranks > 1; round++) {
        size_t count = counts[round * 4 % 9];
        /* One message answers one, in later rounds up to five in a row. */
        int first = round / 10 % 2, messages = 1 + round / 30 * (round % 3);
        for (int m = 0; m < messages + 1; m++) {
            int from = m < messages ? first : 1 - first;
            for (size_t i = 0; i < count; i++) in[i] = value(from, round, i) + m;
            if (rank == from) {
                OK(pennySend(in, count, pennyInt, 1 - rank, comm, NULL));
            } else {
                OK(pennyRecv(out, count, pennyInt, from, comm, NULL));
                CHECK(memcmp(in, out, count * sizeof *in) == 0);
            }
        }
    }
    OK(pennyBarrier(comm, NULL));
}

static void to_oneself_both_halves_go_in_one_group(void) {
    FAILS(pennyInvalidUsage, "group", pennySend(in, 1, pennyInt, rank, comm, NULL));
    FAILS(pennyInvalidUsage, "group", pennyRecv(out, 1, pennyInt, rank, comm, NULL));
    for (size_t count = 1; count <= LARGE; count *= 60) {
        for (size_t i = 0; i < count; i++) in[i] = value(rank, rank, i), out[i] = -1;
        OK(pennyGroupStart());
        OK(pennyRecv(out, count, pennyInt, rank, comm, NULL));
        OK(pennySend(in, count, pennyInt, rank, comm, NULL));
        OK(pennyGroupEnd());
        for (size_t i = 0; i < count; i++) CHECK_INT(out[i], value(rank, rank, i));
    }
    OK(pennyGroupStart());
    OK(pennySend(in, 1, pennyInt, rank, comm, NULL));
    CHECK(pennyGroupEnd() == pennyInvalidUsage);
    OK(pennyBarrier(comm, NULL));
}

static void nothing_at_all_is_sent_too(void) {
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    OK(pennyGroupStart());
    OK(pennySend(NULL, 0, pennyInt, next, comm, NULL));
    OK(pennyRecv(NULL, 0, pennyInt, previous, comm, NULL));
    OK(pennySend(&rank, 1, pennyInt, next, comm, NULL));
    OK(pennyRecv(out, 1, pennyInt, previous, comm, NULL));
    OK(pennyGroupEnd());
    CHECK_INT(out[0], previous);
}

static void wrong_arguments_are_refused_by_name(void) {
    const int no_peer[] = {-1, ranks, INT_MAX, INT_MIN};
    for (int i = 0; i < 4; i++) {
        FAILS(pennyInvalidArgument, "peer", pennySend(in, 1, pennyInt, no_peer[i], comm, NULL));
        FAILS(pennyInvalidArgument, "peer", pennyRecv(out, 1, pennyInt, no_peer[i], comm, NULL));
    }
    int other = (rank + 1) % ranks;
    FAILS(pennyInvalidArgument, "sendbuff", pennySend(NULL, 1, pennyInt, other, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyRecv(NULL, 1, pennyInt, other, comm, NULL));
    FAILS(pennyInvalidArgument, "count", pennySend(in, SIZE_MAX, pennyInt, other, comm, NULL));
    FAILS(pennyInvalidArgument, "datatype", pennySend(in, 1, (pennyDataType_t)77, other, comm, NULL));
    FAILS(pennyInvalidArgument, "not a live stream", pennyRecv(out, 1, pennyInt, other, comm, (pennyStream_t)(uintptr_t)8));
    FAILS(pennyInvalidArgument, "comm", pennySend(in, 1, pennyInt, other, NULL, NULL));
}

/* Ranks 0 and 1 disagree on the length: the receiver is told and nothing hangs. */
static void halves_that_do_not_match_are_found(void) {
    if (ranks == 1) return;
    if (rank == 0) {
        pennyResult_t result = pennySend(in, 4, pennyInt, 1, comm, NULL);
        CHECK(result == pennySuccess || result == pennyInvalidUsage);
    } else if (rank == 1) {
        FAILS(pennyInvalidUsage, "rank 0", pennyRecv(out, 5, pennyInt, 0, comm, NULL));
    }
}

/* Rank 0 takes one message of each rank, in the order in which they come, and knows their lengths only from asking. */
static void messages_are_asked_for_before_they_are_received(void) {
    int flag = -1, taken = 0;
    size_t count = 7;
    pennyDataType_t type = pennyDouble;
    if (rank == 0 && ranks > 1) {
        OK(pennyProbe(1, comm, &flag, &count, &type));
        CHECK_INT(flag, 0);
        CHECK(count == 7 && type == pennyDouble);
    }
    OK(pennyBarrier(comm, NULL));
    if (rank > 0) {
        in[0] = in[rank] = rank;
        OK(pennySend(in, (size_t)rank + 1, pennyInt, 0, comm, NULL));
    }
    while (rank == 0 && taken < ranks - 1) {
        for (int peer = 1; peer < ranks; peer++) {
            OK(pennyProbe(peer, comm, &flag, &count, &type));
            if (!flag) continue;
            CHECK(count == (size_t)peer + 1 && type == pennyInt);
            OK(pennyRecv(out, count, type, peer, comm, NULL));
            CHECK_INT(out[peer], peer);
            OK(pennyProbe(peer, comm, &flag, &count, &type));
            CHECK_INT(flag, 0);
            taken++;
        }
    }
    OK(pennyBarrier(comm, NULL));
}

static void asking_for_messages_refuses_what_cannot_be(void) {
    int flag;
    size_t count;
    pennyDataType_t type;
    FAILS(pennyInvalidArgument, "peer", pennyProbe(-1, comm, &flag, &count, &type));
    FAILS(pennyInvalidArgument, "peer", pennyProbe(ranks, comm, &flag, &count, &type));
    FAILS(pennyInvalidArgument, "this rank", pennyProbe(rank, comm, &flag, &count, &type));
    FAILS(pennyInvalidArgument, "flag", pennyProbe(0, comm, NULL, &count, &type));
    FAILS(pennyInvalidArgument, "count", pennyProbe(0, comm, &flag, NULL, &type));
    FAILS(pennyInvalidArgument, "datatype", pennyProbe(0, comm, &flag, &count, NULL));
    FAILS(pennyInvalidArgument, "comm", pennyProbe(0, NULL, &flag, &count, &type));
}

/* The last message of a rank that has left is still there; after it none can come, and a rank that asks is told so. */
static void a_message_of_a_rank_that_has_left_is_there_and_then_no_other(void) {
    int flag = 0;
    size_t count;
    pennyDataType_t type;
    pennyComm_t leaving = join();
    if (ranks == 2 && rank == 1) OK(pennySend(in, 3, pennyInt, 0, leaving, NULL));
    if (ranks == 2 && rank == 0) {
        while (!flag) OK(pennyProbe(1, leaving, &flag, &count, &type));
        nap();
        OK(pennyProbe(1, leaving, &flag, &count, &type));
        CHECK_INT(flag, 1);
        OK(pennyRecv(out, count, type, 1, leaving, NULL));
        pennyResult_t result = pennySuccess;
        while (result == pennySuccess) result = pennyProbe(1, leaving, &flag, &count, &type);
        CHECK_INT(result, pennyRemoteError);
        CHECK(strstr(pennyGetLastError(leaving), "rank 1"));
    }
    OK(pennyCommDestroy(leaving));
}

int main(void) {
    begin();
    comm = join();
    RUN(a_message_goes_from_each_rank_to_each_other);
    RUN(a_send_buffer_may_be_written_again_at_once);
    RUN(a_ring_of_messages_passes_in_groups);
    RUN(messages_of_changing_sizes_are_answered);
    RUN(to_oneself_both_halves_go_in_one_group);
    RUN(nothing_at_all_is_sent_too);
    RUN(wrong_arguments_are_refused_by_name);
    RUN(messages_are_asked_for_before_they_are_received);
    RUN(asking_for_messages_refuses_what_cannot_be);
    RUN(a_message_of_a_rank_that_has_left_is_there_and_then_no_other);
    RUN(halves_that_do_not_match_are_found);
    OK(pennyCommDestroy(comm));
    return 0;
}
