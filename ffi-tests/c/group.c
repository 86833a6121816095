/* src/ffi/group.rs: calls that are made together. */
#include "check.h"

enum { COUNT = 5000 };
static pennyComm_t comm;

static int sum_of_ranks(void) { return ranks * (ranks - 1) / 2; }

static void an_empty_group_is_no_work(void) {
    OK(pennyGroupStart());
    OK(pennyGroupEnd());
}

static void an_end_without_a_start_is_refused(void) {
    FAILS(pennyInvalidUsage, "pennyGroupStart", pennyGroupEnd());
    CHECK(strstr(pennyGetLastError(comm), "pennyGroupEnd: ") != NULL);
}

static void groups_nest_and_the_outermost_runs(void) {
    int mine = rank, sum = -1;
    OK(pennyGroupStart());
    OK(pennyGroupStart());
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyGroupEnd());
    CHECK_INT(sum, -1);
    OK(pennyGroupEnd());
    CHECK_INT(sum, sum_of_ranks());
    FAILS(pennyInvalidUsage, "", pennyGroupEnd());
}

static void collectives_of_a_group_run_in_their_order(void) {
    static int x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = rank + i, y[i] = -1;
    OK(pennyGroupStart());
    OK(pennyAllReduce(x, y, COUNT, pennyInt, pennySum, comm, NULL));
    OK(pennyBcast(y, COUNT, pennyInt, ranks - 1, comm, NULL));
    OK(pennyAllReduce(y, y, COUNT, pennyInt, pennyMax, comm, NULL));
    OK(pennyGroupEnd());
    for (int i = 0; i < COUNT; i++) CHECK_INT(y[i], sum_of_ranks() + ranks * i);
}

static void everyone_sends_to_everyone_at_once(void) {
    enum { MOST = 8 };
    static int from[MOST][COUNT], to[MOST][COUNT];
    CHECK(ranks <= MOST);
    for (int round = 0; round < 3; round++) {
        for (int r = 0; r < ranks; r++) {
            for (int i = 0; i < COUNT; i++) to[r][i] = rank * 1000000 + r * 10000 + i + round, from[r][i] = -1;
        }
        OK(pennyGroupStart());
        for (int r = 0; r < ranks; r++) {
            OK(pennySend(to[r], COUNT, pennyInt, r, comm, NULL));
            OK(pennyRecv(from[r], COUNT, pennyInt, r, comm, NULL));
        }
        OK(pennyGroupEnd());
        for (int r = 0; r < ranks; r++) {
            for (int i = 0; i < COUNT; i++) CHECK_INT(from[r][i], r * 1000000 + rank * 10000 + i + round);
        }
    }
}

static void calls_to_one_peer_keep_their_order(void) {
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, out[10], in[10];
    OK(pennyGroupStart());
    for (int i = 0; i < 10; i++) out[i] = 100 * rank + i, in[i] = -1;
    for (int i = 0; i < 10; i++) OK(pennySend(&out[i], 1, pennyInt, next, comm, NULL));
    for (int i = 0; i < 10; i++) OK(pennyRecv(&in[i], 1, pennyInt, previous, comm, NULL));
    OK(pennyGroupEnd());
    for (int i = 0; i < 10; i++) CHECK_INT(in[i], 100 * previous + i);
}

static void a_bad_argument_is_told_twice_and_nothing_runs(void) {
    int mine = rank, sum = -1;
    OK(pennyGroupStart());
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "root", pennyBcast(&mine, 1, pennyInt, ranks, comm, NULL));
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    CHECK(pennyGroupEnd() == pennyInvalidArgument);
    CHECK(strstr(pennyGetLastError(comm), "pennyGroupEnd: ") == pennyGetLastError(comm));
    CHECK(strstr(pennyGetLastError(comm), "root") != NULL);
    CHECK_INT(sum, -1);

    /* The same for what is refused before the communicator is even asked. */
    OK(pennyGroupStart());
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "datatype", pennyBcast(&mine, 1, (pennyDataType_t)99, 0, comm, NULL));
    CHECK(pennyGroupEnd() == pennyInvalidArgument);
    CHECK_INT(sum, -1);

    /* The next group is a new one. */
    OK(pennyGroupStart());
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyGroupEnd());
    CHECK_INT(sum, sum_of_ranks());
}

static void a_question_refused_inside_a_group_does_not_spoil_it(void) {
    int mine = rank, sum = -1;
    OK(pennyGroupStart());
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "count", pennyCommCount(comm, NULL));
    OK(pennyGroupEnd());
    CHECK_INT(sum, sum_of_ranks());
}

static void a_group_may_span_communicators(void) {
    pennyComm_t other = join();
    int mine = rank, one = -1, two = -1;
    OK(pennyGroupStart());
    OK(pennyAllReduce(&mine, &one, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyAllReduce(&mine, &two, 1, pennyInt, pennyMax, other, NULL));
    OK(pennyGroupEnd());
    CHECK_INT(one, sum_of_ranks());
    CHECK_INT(two, ranks - 1);
    OK(pennyCommDestroy(other));
}

static void a_communicator_is_not_ended_before_its_calls_of_the_group(void) {
    pennyComm_t other = join();
    int mine = rank, sum = -1;
    OK(pennyGroupStart());
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, other, NULL));
    FAILS(pennyInvalidUsage, "open group", pennyCommFinalize(other));
    FAILS(pennyInvalidUsage, "open group", pennyCommDestroy(other));
    OK(pennyGroupEnd());
    CHECK_INT(sum, sum_of_ranks());
    OK(pennyGroupStart());
    OK(pennyCommDestroy(other));
    OK(pennyGroupEnd());
}

static void *outside(void *unused) {
    (void)unused;
    CHECK(pennyGroupEnd() == pennyInvalidUsage);
    return NULL;
}

static void a_group_belongs_to_its_thread(void) {
    pthread_t thread;
    OK(pennyGroupStart());
    CHECK(pthread_create(&thread, NULL, outside, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(pennyGroupEnd());
}

/* All steps of an all-gather in one group: each inner group sends what those before it have received. */
static void inner_groups_that_use_each_others_data_keep_their_order(void) {
    if ((ranks & (ranks - 1)) != 0) return;
    int32_t all[64] = {0};
    all[rank] = 1000 + rank;
    OK(pennyGroupStart());
    for (int mask = 1; mask < ranks; mask <<= 1) {
        int peer = rank ^ mask;
        OK(pennyGroupStart());
        OK(pennySend(all + (rank & -mask), (size_t)mask, pennyInt32, peer, comm, NULL));
        OK(pennyRecv(all + (peer & -mask), (size_t)mask, pennyInt32, peer, comm, NULL));
        OK(pennyGroupEnd());
    }
    OK(pennyGroupEnd());
    for (int r = 0; r < ranks; r++) CHECK(all[r] == 1000 + r);
}

int main(void) {
    begin();
    comm = join();
    RUN(inner_groups_that_use_each_others_data_keep_their_order);
    RUN(an_empty_group_is_no_work);
    RUN(an_end_without_a_start_is_refused);
    RUN(groups_nest_and_the_outermost_runs);
    RUN(collectives_of_a_group_run_in_their_order);
    RUN(everyone_sends_to_everyone_at_once);
    RUN(calls_to_one_peer_keep_their_order);
    RUN(a_bad_argument_is_told_twice_and_nothing_runs);
    RUN(a_question_refused_inside_a_group_does_not_spoil_it);
    RUN(a_group_may_span_communicators);
    RUN(a_communicator_is_not_ended_before_its_calls_of_the_group);
    RUN(a_group_belongs_to_its_thread);
    OK(pennyCommDestroy(comm));
    return 0;
}
