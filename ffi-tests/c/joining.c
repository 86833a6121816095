/* src/comm/joining.rs: communicators whose blocking is 0 are joined while the program asks for their state. */
#include "check.h"
#include <sched.h>
#include <time.h>

enum { N = 4 };

static pennyConfig_t in_background(void) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
}

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
        CHECK_INT(pennyCommInitRankConfig(&comm[i], N, id, i, &config), pennyInProgress);
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
    CHECK_INT(pennyGroupEnd(), pennyInProgress);
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    check_sum(comm, 2);
    for (int i = 0; i < 2; i++) OK(pennyCommDestroy(comm[i]));
}

static void children_are_made_as_their_parent_was(void) {
    pennyComm_t comm[2], child[2];
    pennyUniqueId id;
    pennyConfig_t config = in_background();
    OK(pennyGetUniqueId(&id));
    for (int i = 0; i < 2; i++) CHECK_INT(pennyCommInitRankConfig(&comm[i], 2, id, i, &config), pennyInProgress);
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    CHECK_INT(pennyCommSplit(comm[0], 5, 0, &child[0], NULL), pennyInProgress);
    CHECK_INT(state_of(comm[0]), pennyInProgress);
    CHECK_INT(pennyCommSplit(comm[1], 5, 1, &child[1], NULL), pennyInProgress);
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(child[i]), pennySuccess);
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    check_sum(child, 2);
    check_sum(comm, 2);
    for (int i = 0; i < 2; i++) {
        OK(pennyCommDestroy(child[i]));
        OK(pennyCommDestroy(comm[i]));
    }
}

static void processes_join_by_polling(void) {
    pennyComm_t comm;
    pennyConfig_t config = in_background();
    int mine = rank, sum = -1;
    CHECK_INT(pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config), pennyInProgress);
    CHECK_INT(poll_until_known(comm), pennySuccess);
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    CHECK_INT(sum, ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(comm));
    CHECK_INT(pennyCommInitFromEnv(&comm, &config), pennyInProgress);
    CHECK_INT(poll_until_known(comm), pennySuccess);
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    CHECK_INT(sum, ranks * (ranks - 1) / 2);
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
    for (int i = 0; i < 2; i++) CHECK_INT(pennyCommInitRankConfig(&comm[i], 3, id, i, &config), pennyInProgress);
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
    for (int i = 0; i < 2; i++) CHECK_INT(pennyCommInitRankConfig(&comm[i], 2, id, i, &config), pennyInProgress);
    for (int i = 0; i < 2; i++) CHECK_INT(poll_until_known(comm[i]), pennySuccess);
    check_sum(comm, 2);
    for (int i = 0; i < 2; i++) OK(pennyCommDestroy(comm[i]));
}

int main(void) {
    begin();
    RUN(one_thread_joins_four_ranks_by_polling);
    RUN(a_group_begins_them_and_says_so);
    RUN(children_are_made_as_their_parent_was);
    RUN(processes_join_by_polling);
    RUN(a_missing_rank_is_told_by_the_state_and_by_every_call);
    RUN(an_abort_ends_it_and_the_others_hear);
    RUN(a_declared_machine_is_joined_too);
    return 0;
}
