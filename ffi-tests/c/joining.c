/* src/comm/joining.rs: communicators whose blocking is 0 are joined while the program asks for their state. */
#include "check.h"
#include <sched.h>
#include <time.h>

enum { N = 4 };

/* The C library takes it out of the stack of each thread, those of the library, too. */
static _Thread_local volatile char of_each_thread[400 << 10];

static pennyConfig_t in_background(void) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
}

/* The call has begun to join; where all others are there already, that may be over. */
#define BEGUN(call)                                                                                                    \
    do {                                                                                                               \
        pennyResult_t result_ = (call);                                                                                \
        if (result_ != pennySuccess) CHECK_INT(result_, pennyInProgress);                                              \
    } while (0)

static pennyResult_t state_of(pennyComm_t comm) {
    pennyResult_t state = pennyNumResults;
    OK(pennyCommGetAsyncError(comm, &state));
    return state;
}

/* Polls until a communicator is made or has failed. */
static pennyResult_t poll_until_known(pennyComm_t comm) {
    pennyResult_t state;
    while ((state = state_of(comm)) == pennyInProgress) sched_yield();
    return state;
}

/* The sum over the ranks of this thread, by one group. */
static void check_sum(pennyComm_t *comm, int count) {
    int one[N], sum[N] = {0};
    OK(pennyGroupStart());
    for (int i = 0; i < count; i++) {
        one[i] = i + 1;
        OK(pennyAllReduce(&one[i], &sum[i], 1, pennyInt, pennySum, comm[i], NULL));
    }
    OK(pennyGroupEnd());
    for (int i = 0; i < count; i++) CHECK_INT(sum[i], count * (count + 1) / 2);
}

static void one_thread_joins_four_ranks_by_polling(void) {
    pennyComm_t comm[N];
    pennyUniqueId id;
    pennyConfig_t config = in_background();
    int word = 1;
    OK(pennyGetUniqueId(&id));
    for (int i = 0; i < N; i++) {
        BEGUN(pennyCommInitRankConfig(&comm[i], N, id, i, &config));
        if (i == N - 1) break;
        CHECK_INT(state_of(comm[0]), pennyInProgress);
        FAILS(pennyInvalidUsage, "still being joined", pennyAllReduce(&word, &word, 1, pennyInt, pennySum, comm[0], NULL));
        FAILS(pennyInvalidUsage, "still being joined", pennyCommDestroy(comm[0]));
    }
    for (int i = 0; i < N; i++) CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    check_sum(comm, N);
    for (int i = 0; i < N; i++) OK(pennyCommDestroy(comm[i]));
    FAILS(pennyInvalidArgument, "destroyed already", pennyCommDestroy(comm[0]));
}

static void a_group_begins_them_and_says_so(void) {
    pennyComm_t comm[2];
    pennyUniqueId id;
    pennyConfig_t config = in_background();
    OK(pennyGetUniqueId(&id));
    OK(pennyGroupStart());
    for (int i = 0; i < 2; i++) OK(pennyCommInitRankConfig(&comm[i], 2, id, i, &config));
    BEGUN(pennyGroupEnd());
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    check_sum(comm, 2);
    for (int i = 0; i < 2; i++) OK(pennyCommDestroy(comm[i]));
}

static void children_are_made_as_their_parent_was(void) {
    pennyComm_t comm[2], child[2];
    pennyUniqueId id;
    pennyConfig_t config = in_background();
    OK(pennyGetUniqueId(&id));
    for (int i = 0; i < 2; i++) BEGUN(pennyCommInitRankConfig(&comm[i], 2, id, i, &config));
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    CHECK_INT(pennyCommSplit(comm[0], 5, 0, &child[0], NULL), pennyInProgress);
    CHECK_INT(state_of(comm[0]), pennyInProgress);
    BEGUN(pennyCommSplit(comm[1], 5, 1, &child[1], NULL));
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(child[i]), pennySuccess);
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    check_sum(child, 2);
    check_sum(comm, 2);
    for (int i = 0; i < 2; i++) {
        OK(pennyCommDestroy(child[i]));
        OK(pennyCommDestroy(comm[i]));
    }
}

/* Two ranks of this thread, joined by polling. */
static void join_two(pennyComm_t comm[2], long timeout_ms) {
    pennyUniqueId id;
    pennyConfig_t config = in_background();
    config.timeoutMs = timeout_ms;
    OK(pennyGetUniqueId(&id));
    for (int i = 0; i < 2; i++) BEGUN(pennyCommInitRankConfig(&comm[i], 2, id, i, &config));
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(comm[i]), pennySuccess);
}

static void a_parent_takes_no_calls_meanwhile_and_a_rank_without_a_color_knows(void) {
    pennyComm_t comm[2], child = NULL, none = (pennyComm_t)&child;
    int word = 1;
    join_two(comm, 60000);
    CHECK_INT(pennyCommSplit(comm[1], PENNY_SPLIT_NOCOLOR, 0, &none, NULL), pennyInProgress);
    CHECK(none == NULL);
    CHECK_INT(state_of(comm[1]), pennyInProgress);
    FAILS(pennyInvalidUsage, "is being made from this one", pennyAllReduce(&word, &word, 1, pennyInt, pennySum, comm[1], NULL));
    FAILS(pennyInvalidUsage, "is being made from this one", pennyCommSplit(comm[1], 1, 0, &none, NULL));
    FAILS(pennyInvalidUsage, "is being made from this one", pennyCommDestroy(comm[1]));
    BEGUN(pennyCommSplit(comm[0], 5, 0, &child, NULL));
    CHECK_INT(poll_until_known(child), pennySuccess);
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    check_sum(comm, 2);
    OK(pennyCommDestroy(child));
    for (int i = 0; i < 2; i++) OK(pennyCommDestroy(comm[i]));
}

static void several_children_of_one_parent_join_in_their_order(void) {
    pennyComm_t comm[2], first[2], second[2];
    join_two(comm, 60000);
    for (int i = 0; i < 2; i++) {
        OK(pennyGroupStart());
        OK(pennyCommSplit(comm[i], 1, 0, &first[i], NULL));
        OK(pennyCommSplit(comm[i], 1, -i, &second[i], NULL));
        BEGUN(pennyGroupEnd());
    }
    for (int i = 0; i < 2; i++) {
        CHECK_INT(poll_until_known(second[i]), pennySuccess);
        CHECK_INT(poll_until_known(first[i]), pennySuccess);
        CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    }
    check_sum(second, 2);
    check_sum(first, 2);
    for (int i = 0; i < 2; i++) {
        int number = -1;
        OK(pennyCommUserRank(second[i], &number));
        CHECK_INT(number, 1 - i);
        OK(pennyCommDestroy(second[i]));
        OK(pennyCommDestroy(first[i]));
        OK(pennyCommDestroy(comm[i]));
    }
}

static void a_child_whose_other_rank_does_not_come_is_aborted(void) {
    pennyComm_t comm[2], child[2];
    /* No deadline: the abort alone ends it. */
    join_two(comm, 0);
    OK(pennyGroupStart());
    for (int i = 0; i < 2; i++) OK(pennyCommDup(comm[0], &child[i]));
    BEGUN(pennyGroupEnd());
    OK(pennyCommAbort(child[1]));
    OK(pennyCommAbort(child[0]));
    for (int i = 0; i < 2; i++) FAILS(pennyInvalidArgument, "comm", pennyCommDestroy(child[i]));
    CHECK(poll_until_known(comm[0]) != pennySuccess);
    BEGUN(pennyCommDup(comm[1], &child[1]));
    CHECK_INT(poll_until_known(child[1]), pennyRemoteError);
    FAILS(pennyRemoteError, "rank 0", pennyBarrier(child[1], NULL));
    OK(pennyCommDestroy(child[1]));
    for (int i = 0; i < 2; i++) OK(pennyCommDestroy(comm[i]));
}

static void a_rank_that_cannot_join_a_child_tells_the_others(void) {
    pennyComm_t comm[2], child[2];
    pennyConfig_t config = in_background();
    join_two(comm, 0);
    config.algo = "no_such";
    BEGUN(pennyCommSplit(comm[1], 1, 0, &child[1], &config));
    config.algo = NULL;
    BEGUN(pennyCommSplit(comm[0], 1, 0, &child[0], &config));
    CHECK_INT(poll_until_known(child[1]), pennyInvalidArgument);
    CHECK_INT(poll_until_known(child[0]), pennyInvalidUsage);
    FAILS(pennyInvalidUsage, "rank 1 cannot join", pennyBarrier(child[0], NULL));
    FAILS(pennyInvalidArgument, "no_such", pennyBarrier(child[1], NULL));
    for (int i = 0; i < 2; i++) {
        OK(pennyCommDestroy(child[i]));
        CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    }
    check_sum(comm, 2);
    for (int i = 0; i < 2; i++) OK(pennyCommDestroy(comm[i]));
}

static void a_wrong_setting_of_one_rank_is_told_to_the_others(void) {
    pennyComm_t comm, none;
    pennyUniqueId id;
    pennyConfig_t config = in_background(), wrong = PENNY_CONFIG_INITIALIZER, foreign = wrong;
    wrong.blocking = 2;
    foreign.magic = 7;
    OK(pennyGetUniqueId(&id));
    BEGUN(pennyCommInitRankConfig(&comm, 2, id, 0, &config));
    FAILS(pennyInvalidArgument, "config->blocking is 2", pennyCommInitRankConfig(&none, 2, id, 1, &wrong));
    CHECK_INT(poll_until_known(comm), pennyRemoteError);
    CHECK(strstr(pennyGetLastError(comm), "config->blocking is 2") != NULL);
    OK(pennyCommAbort(comm));
    OK(pennyGetUniqueId(&id));
    BEGUN(pennyCommInitRankConfig(&comm, 2, id, 0, &config));
    FAILS(pennyInvalidArgument, "config is no pennyConfig_t", pennyCommInitRankConfig(&none, 2, id, 1, &foreign));
    CHECK_INT(poll_until_known(comm), pennyRemoteError);
    OK(pennyCommAbort(comm));
}

static void processes_join_by_polling(void) {
    pennyComm_t comm;
    pennyConfig_t config = in_background();
    int mine = rank, sum = -1;
    BEGUN(pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
    CHECK_INT(poll_until_known(comm), pennySuccess);
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    CHECK_INT(sum, ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(comm));
    BEGUN(pennyCommInitFromEnv(&comm, &config));
    CHECK_INT(poll_until_known(comm), pennySuccess);
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    CHECK_INT(sum, ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(comm));
}

/* A team is usable when the call returns. */
static void teams_are_waited_for(void) {
    pennyComm_t comm, row, column, odd;
    pennyConfig_t config = in_background();
    int one = 1, sum = -1;
    BEGUN(pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
    CHECK_INT(poll_until_known(comm), pennySuccess);
    OK(pennyShmemTeamSplit2d(comm, 2, &row, &column));
    OK(pennyAllReduce(&one, &sum, 1, pennyInt, pennySum, row, NULL));
    CHECK_INT(sum, rank / 2 * 2 + 1 < ranks ? 2 : 1);
    OK(pennyCommDestroy(row));
    OK(pennyCommDestroy(column));
    OK(pennyShmemTeamSplitStrided(comm, 0, 2, (ranks + 1) / 2, &odd));
    CHECK((odd == NULL) == (rank % 2 == 1));
    if (odd != NULL) OK(pennyAllReduce(&one, &sum, 1, pennyInt, pennySum, odd, NULL));
    OK(pennyBarrier(comm, NULL));
    OK(pennyCommDestroy(odd));
    OK(pennyCommDestroy(comm));
}

static void a_missing_rank_is_told_by_the_state_and_by_every_call(void) {
    pennyComm_t comm;
    pennyUniqueId id;
    pennyConfig_t config = in_background();
    int word = 1;
    config.timeoutMs = 300;
    OK(pennyGetUniqueId(&id));
    CHECK_INT(pennyCommInitRankConfig(&comm, 2, id, 0, &config), pennyInProgress);
    CHECK_INT(poll_until_known(comm), pennyTimeout);
    FAILS(pennyTimeout, "rank 1", pennyAllReduce(&word, &word, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyCommDestroy(comm));
    FAILS(pennyInvalidArgument, "destroyed already", pennyCommDestroy(comm));
}

static void an_abort_ends_it_and_the_others_hear(void) {
    pennyComm_t comm[2];
    pennyUniqueId id;
    pennyConfig_t config = in_background();
    int word = 1;
    OK(pennyGetUniqueId(&id));
    for (int i = 0; i < 2; i++) BEGUN(pennyCommInitRankConfig(&comm[i], 3, id, i, &config));
    OK(pennyCommAbort(comm[0]));
    FAILS(pennyInvalidArgument, "destroyed already", pennyCommAbort(comm[0]));
    CHECK_INT(poll_until_known(comm[1]), pennyRemoteError);
    FAILS(pennyRemoteError, "rank 0", pennyBcast(&word, 1, pennyInt, 0, comm[1], NULL));
    OK(pennyCommAbort(comm[1]));
}

static void a_declared_machine_is_joined_too(void) {
    pennyComm_t comm[2];
    pennyUniqueId id;
    pennyConfig_t config = in_background();
    config.fabric = "dgx-h100";
    OK(pennyGetUniqueId(&id));
    for (int i = 0; i < 2; i++) BEGUN(pennyCommInitRankConfig(&comm[i], 2, id, i, &config));
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    check_sum(comm, 2);
    for (int i = 0; i < 2; i++) OK(pennyCommDestroy(comm[i]));
}

int main(void) {
    begin();
    of_each_thread[0] = 1;
    RUN(one_thread_joins_four_ranks_by_polling);
    RUN(a_group_begins_them_and_says_so);
    RUN(children_are_made_as_their_parent_was);
    RUN(a_parent_takes_no_calls_meanwhile_and_a_rank_without_a_color_knows);
    RUN(several_children_of_one_parent_join_in_their_order);
    RUN(a_child_whose_other_rank_does_not_come_is_aborted);
    RUN(a_rank_that_cannot_join_a_child_tells_the_others);
    RUN(a_wrong_setting_of_one_rank_is_told_to_the_others);
    RUN(processes_join_by_polling);
    RUN(teams_are_waited_for);
    RUN(a_missing_rank_is_told_by_the_state_and_by_every_call);
    RUN(an_abort_ends_it_and_the_others_hear);
    RUN(a_declared_machine_is_joined_too);
    return 0;
}
