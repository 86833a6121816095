/* src/ffi/communicator.rs: communicators of the ranks that remain, and of new ones. */
#include "check.h"

static pennyComm_t comm;

static void sum_is(pennyComm_t of, int mine, int expected) {
    int all = -1;
    OK(pennyAllReduce(&mine, &all, 1, pennyInt, pennySum, of, NULL));
    CHECK_INT(all, expected);
}

static int sum_of_all(void) { return ranks * (ranks + 1) / 2; }

/* The excluded rank calls nothing, and all go on in comm. */
static void ranks_leave_one_out_that_calls_nothing(void) {
    for (int out = 0; out < ranks; out++) {
        pennyComm_t rest;
        int number, count;
        if (rank != out && ranks > 1) {
            OK(pennyCommShrink(comm, &out, 1, &rest, NULL, PENNY_SHRINK_DEFAULT));
            OK(pennyCommUserRank(rest, &number));
            OK(pennyCommCount(rest, &count));
            CHECK_INT(number, rank - (rank > out));
            CHECK_INT(count, ranks - 1);
            for (int round = 0; round < 100; round++) sum_is(rest, rank + 1, sum_of_all() - out - 1);
            OK(pennyCommDestroy(rest));
        }
        sum_is(comm, rank + 1, sum_of_all());
    }
}

/* Nobody is excluded: as pennyCommDup. */
static void a_list_without_ranks_leaves_all(void) {
    pennyComm_t same;
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    config.commName = "same";
    OK(pennyCommShrink(comm, NULL, 0, &same, &config, PENNY_SHRINK_DEFAULT));
    sum_is(same, rank + 1, sum_of_all());
    FAILS(pennyInvalidArgument, "communicator same: root 99", pennyBroadcast(NULL, NULL, 1, pennyInt, 99, same, NULL));
    OK(pennyCommDestroy(same));
}

/* Ranks run ahead: one begins the next while another has just seen that all have come to the last. */
static void shrinks_in_succession_do_not_meet(void) {
    for (int i = 0; i < 200; i++) {
        pennyComm_t rest;
        int out = ranks - 1, excludes = ranks > 2 && i % 3 == 0;
        if (excludes && rank == out) continue;
        OK(pennyCommShrink(comm, &out, excludes, &rest, NULL, PENNY_SHRINK_DEFAULT));
        if (i % 2) sum_is(rest, rank + 1, sum_of_all() - (excludes ? ranks : 0));
        OK(pennyCommDestroy(rest));
    }
}

/* Several ranks of one thread. */
static void ranks_of_one_thread_shrink_in_a_group(void) {
    enum { HERE = 4 };
    pennyComm_t all[HERE], rest[HERE] = {NULL};
    int in[HERE], out[HERE], gone[2] = {3, 1};
    OK(pennyCommInitAll(all, HERE, NULL));
    OK(pennyGroupStart());
    for (int r = 0; r < HERE; r += 2) OK(pennyCommShrink(all[r], gone, 2, &rest[r], NULL, PENNY_SHRINK_DEFAULT));
    OK(pennyGroupEnd());
    OK(pennyGroupStart());
    for (int r = 0; r < HERE; r += 2) {
        in[r] = 10 + r;
        OK(pennyAllReduce(&in[r], &out[r], 1, pennyInt, pennySum, rest[r], NULL));
    }
    OK(pennyGroupEnd());
    CHECK_INT(out[0], 22);
    CHECK_INT(out[2], 22);
    for (int r = 0; r < HERE; r += 2) OK(pennyCommDestroy(rest[r]));
    for (int r = 0; r < HERE; r++) OK(pennyCommDestroy(all[r]));
}

static void *waits_in_vain(void *of) {
    int word = 0;
    FAILS(pennyRemoteError, "aborted the communicator",
          pennyRecv(&word, 1, pennyInt, (rank + 1) % ranks, *(pennyComm_t *)of, NULL));
    return NULL;
}

/* A call is under way on every rank, which nobody will complete. */
static void a_shrink_that_aborts_ends_the_calls_of_its_parent(void) {
    pennyComm_t parent, rest;
    pthread_t thread;
    int out = ranks - 1;
    if (ranks < 3) return;
    OK(pennyCommDup(comm, &parent));
    OK(pennyBarrier(parent, NULL));
    CHECK(pthread_create(&thread, NULL, waits_in_vain, &parent) == 0);
    for (int i = 0; i < 20; i++) nap();
    if (rank != out) {
        OK(pennyCommShrink(parent, &out, 1, &rest, NULL, PENNY_SHRINK_ABORT));
        sum_is(rest, rank + 1, sum_of_all() - ranks);
        OK(pennyCommDestroy(rest));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    FAILS(pennyRemoteError, "aborted the communicator", pennyBarrier(parent, NULL));
    OK(pennyCommDestroy(parent));
}

static void a_revoked_communicator_can_be_shrunk(void) {
    pennyComm_t parent, rest;
    pennyResult_t state;
    pennyUniqueId id;
    OK(pennyCommDup(comm, &parent));
    /* A rank of another host may still be making it. Between hosts the revocation may overtake rank 0's part of the barrier. */
    state = pennyBarrier(parent, NULL);
    CHECK(state == pennySuccess || (state == pennyRemoteError && rank != 0 && getenv("PENNY_HOST_ID") != NULL));
    if (rank == 0) OK(pennyCommRevoke(parent, PENNY_REVOKE_DEFAULT));
    do OK(pennyCommGetAsyncError(parent, &state));
    while (state == pennySuccess);
    CHECK_INT(state, pennyRemoteError);
    CHECK(strstr(pennyGetLastError(parent), rank == 0 ? "rank 0 (this rank) revoked" : "rank 0 revoked") != NULL);
    FAILS(pennyRemoteError, rank == 0 ? "rank 0 (this rank) revoked" : "rank 0 revoked", pennyBarrier(parent, NULL));
    FAILS(pennyRemoteError, "revoked the communicator; make a new one (pennyCommShrink or pennyCommSplit makes one of its ranks)",
          pennyCommGetUniqueId(parent, &id));
    OK(pennyCommRevoke(parent, PENNY_REVOKE_DEFAULT));
    FAILS(pennyRemoteError, rank == 0 ? "rank 0 (this rank) revoked" : "rank 0 revoked", pennyBarrier(parent, NULL));
    OK(pennyCommRevoke(NULL, PENNY_REVOKE_DEFAULT));
    OK(pennyCommShrink(parent, NULL, 0, &rest, NULL, PENNY_SHRINK_DEFAULT));
    sum_is(rest, rank + 1, sum_of_all());
    OK(pennyCommDestroy(rest));
    OK(pennyCommDestroy(parent));
}

struct newcomer {
    pennyUniqueId id;
    int ranks, rank;
    /* For one that cannot join: how, and why. */
    pennyResult_t fails;
    const char *why;
};

static void *joins(void *what) {
    struct newcomer *new = what;
    pennyComm_t grown;
    OK(pennyCommGrow(NULL, new->ranks, &new->id, new->rank, &grown, NULL));
    sum_is(grown, new->rank + 1, new->ranks * (new->ranks + 1) / 2);
    OK(pennyCommDestroy(grown));
    return NULL;
}

/* A thread of rank 0 is the new rank, so that nobody has to send the id. */
static void a_new_rank_joins_those_of_a_communicator(void) {
    pennyComm_t grown;
    pthread_t thread;
    struct newcomer new = {.ranks = ranks + 1, .rank = ranks};
    int number;
    if (rank == 0) {
        OK(pennyCommGetUniqueId(comm, &new.id));
        CHECK(pthread_create(&thread, NULL, joins, &new) == 0);
    }
    OK(pennyCommGrow(comm, ranks + 1, rank == 0 ? &new.id : NULL, -1, &grown, NULL));
    OK(pennyCommUserRank(grown, &number));
    CHECK_INT(number, rank);
    sum_is(grown, rank + 1, (ranks + 1) * (ranks + 2) / 2);
    if (rank == 0) CHECK(pthread_join(thread, NULL) == 0);
    OK(pennyCommDestroy(grown));
}

static void a_growth_that_ranks_disagree_on_is_refused_on_all(void) {
    pennyComm_t grown;
    pennyUniqueId id;
    FAILS(pennyInvalidUsage, "uniqueId is NULL on all ranks", pennyCommGrow(comm, ranks + 1, NULL, -1, &grown, NULL));
    if (ranks > 1) {
        OK(pennyCommGetUniqueId(comm, &id));
        FAILS(pennyInvalidUsage, "ranks 0 and 1 both pass", pennyCommGrow(comm, ranks + 1, &id, -1, &grown, NULL));
        FAILS(pennyInvalidUsage, "disagree on nRanks", pennyCommGrow(comm, ranks + rank, NULL, -1, &grown, NULL));
    }
    FAILS(pennyInvalidArgument, "nRanks is 0", pennyCommGrow(comm, 0, NULL, -1, &grown, NULL));
    FAILS(pennyInvalidArgument, "passes -1", pennyCommGrow(comm, ranks + 1, NULL, 0, &grown, NULL));
    FAILS(pennyInvalidArgument, "uniqueId is NULL; a new rank", pennyCommGrow(NULL, 2, NULL, 1, &grown, NULL));
    OK(pennyGroupStart());
    FAILS(pennyInvalidUsage, "cannot be in a group", pennyCommGrow(comm, ranks + 1, NULL, -1, &grown, NULL));
    FAILS(pennyInvalidUsage, "cannot be in a group", pennyGroupEnd());
    sum_is(comm, rank + 1, sum_of_all());
}

static void *hears_why(void *what) {
    struct newcomer *new = what;
    pennyComm_t grown;
    FAILS(new->fails, new->why, pennyCommGrow(NULL, new->ranks, &new->id, new->rank, &grown, NULL));
    return NULL;
}

/* The new rank waits where the id leads, and hears why there is no growth. */
static void a_growth_that_fails_is_told_to_the_new_ranks(void) {
    pennyComm_t grown;
    pthread_t thread;
    struct newcomer new = {.ranks = ranks + 1, .rank = ranks, .fails = pennyRemoteError};
    for (int round = 0; round < 2; round++) {
        if (round == 0 && ranks == 1) continue;
        new.why = round == 0 ? "disagree on nRanks" : "nRanks is 2000";
        if (rank == 0) {
            OK(pennyCommGetUniqueId(comm, &new.id));
            CHECK(pthread_create(&thread, NULL, hears_why, &new) == 0);
            for (int i = 0; i < 10; i++) nap();
        }
        if (round == 0) {
            int count = ranks + 1 + (rank == ranks - 1);
            FAILS(pennyInvalidUsage, new.why, pennyCommGrow(comm, count, rank == 0 ? &new.id : NULL, -1, &grown, NULL));
        } else if (rank == 0) {
            FAILS(pennyInvalidArgument, new.why, pennyCommGrow(comm, 2000, &new.id, -1, &grown, NULL));
        }
        if (rank == 0) CHECK(pthread_join(thread, NULL) == 0);
        sum_is(comm, rank + 1, sum_of_all());
    }
}

/* Two new ranks have one number. */
static void new_ranks_of_one_number_are_told(void) {
    pennyComm_t grown;
    pthread_t threads[2];
    struct newcomer new = {.ranks = ranks + 2, .rank = ranks, .fails = pennyInvalidUsage, .why = "two callers"};
    if (rank == 0) {
        OK(pennyCommGetUniqueId(comm, &new.id));
        for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, hears_why, &new) == 0);
    }
    FAILS(pennyInvalidUsage, "two callers", pennyCommGrow(comm, ranks + 2, rank == 0 ? &new.id : NULL, -1, &grown, NULL));
    if (rank == 0) {
        for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

/* What a group has promised and not made is NULL. */
static void a_failed_group_leaves_no_handles(void) {
    pennyComm_t made = comm, split = comm, child;
    pennyUniqueId id;
    int out = 0, word = rank, sum = -1;
    OK(pennyGetUniqueId(&id));
    OK(pennyGroupStart());
    OK(pennyCommInitRank(&made, 1, id, 0));
    OK(pennyCommDup(comm, &split));
    CHECK(made != comm && split != comm && made != NULL && split != NULL);
    FAILS(pennyInvalidArgument, "is out of range", pennyBcast(&out, 1, pennyInt, -1, comm, NULL));
    FAILS(pennyInvalidArgument, "is out of range", pennyGroupEnd());
    CHECK(made == NULL && split == NULL);
    OK(pennyGroupStart());
    OK(pennyCommDup(comm, &child));
    OK(pennyAllReduce(&word, &sum, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyGroupEnd());
    CHECK(child != NULL && sum == ranks * (ranks - 1) / 2);
    sum_is(child, rank + 1, sum_of_all());
    OK(pennyCommDestroy(child));
}

static void wrong_arguments_are_refused(void) {
    pennyComm_t rest = NULL;
    int twice[2] = {(rank + 1) % ranks, (rank + 1) % ranks}, self = rank, far = ranks, below = -1;
    FAILS(pennyInvalidArgument, "shrinkFlags is 2", pennyCommShrink(comm, NULL, 0, &rest, NULL, 2));
    FAILS(pennyInvalidArgument, "excludeRanksCount is -1", pennyCommShrink(comm, &self, -1, &rest, NULL, 0));
    FAILS(pennyInvalidArgument, "newcomm is NULL", pennyCommShrink(comm, NULL, 0, NULL, NULL, 0));
    FAILS(pennyInvalidArgument, "revokeFlags is 1", pennyCommRevoke(comm, 1));
    if (ranks > 2) {
        FAILS(pennyInvalidArgument, "is the caller", pennyCommShrink(comm, &self, 1, &rest, NULL, 0));
        FAILS(pennyInvalidArgument, "is out of range", pennyCommShrink(comm, &far, 1, &rest, NULL, 0));
        FAILS(pennyInvalidArgument, "is out of range", pennyCommShrink(comm, &below, 1, &rest, NULL, 0));
        FAILS(pennyInvalidArgument, "twice", pennyCommShrink(comm, twice, 2, &rest, NULL, 0));
        FAILS(pennyInvalidArgument, "excludeRanksList is NULL", pennyCommShrink(comm, NULL, 1, &rest, NULL, 0));
    }
    CHECK(rest == NULL);
}

/* Ranks 0 and 1 exclude each other's choice: each is told, and both can go on. */
static void ranks_that_exclude_others_are_told(void) {
    pennyComm_t rest;
    int out = 2 + rank;
    if (ranks < 4) return;
    if (rank < 2) {
        pennyResult_t result = pennyCommShrink(comm, &out, 1, &rest, NULL, PENNY_SHRINK_DEFAULT);
        CHECK_INT(result, pennyInvalidUsage);
        check_sentence(pennyGetLastError(NULL), "pennyCommShrink(", "name one rank each, and differ", __LINE__);
    }
    sum_is(comm, rank + 1, sum_of_all());
}

int main(void) {
    begin();
    comm = join();
    RUN(ranks_leave_one_out_that_calls_nothing);
    RUN(a_list_without_ranks_leaves_all);
    RUN(shrinks_in_succession_do_not_meet);
    RUN(ranks_of_one_thread_shrink_in_a_group);
    RUN(a_shrink_that_aborts_ends_the_calls_of_its_parent);
    RUN(a_revoked_communicator_can_be_shrunk);
    RUN(a_new_rank_joins_those_of_a_communicator);
    RUN(a_growth_that_ranks_disagree_on_is_refused_on_all);
    RUN(a_growth_that_fails_is_told_to_the_new_ranks);
    RUN(new_ranks_of_one_number_are_told);
    RUN(a_failed_group_leaves_no_handles);
    RUN(wrong_arguments_are_refused);
    RUN(ranks_that_exclude_others_are_told);
    OK(pennyCommDestroy(comm));
    return 0;
}
