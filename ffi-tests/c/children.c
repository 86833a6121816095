/* src/ffi/communicator.rs: communicators that are made from another one. */
#include "check.h"

static const pennyComm_t made_up = (pennyComm_t)0x7fffffff12345;

static void groups_are_consecutive_orthogonal_or_all(void) {
    pennyComm_t parent = join();
    for (int size = 1; size <= ranks; size++) {
        for (int kind = pennyGroupConsecutive; kind <= pennyGroupOrthogonal; kind++) {
            pennyComm_t child = made_up;
            if (ranks % size != 0) {
                FAILS(pennyInvalidArgument, "divide", pennyCommGroup(parent, (pennyGroupKind_t)kind, size, &child));
                CHECK(child == made_up);
                continue;
            }
            int members[8], me = -1, count = -1, groups = ranks / size;
            OK(pennyCommGroup(parent, (pennyGroupKind_t)kind, size, &child));
            OK(pennyCommCount(child, &count));
            OK(pennyCommUserRank(child, &me));
            CHECK_INT(count, size);
            CHECK_INT(me, kind == pennyGroupConsecutive ? rank % size : rank / groups);
            OK(pennyAllGather(&rank, members, 1, pennyInt, child, NULL));
            for (int i = 0; i < size; i++) {
                CHECK_INT(members[i], kind == pennyGroupConsecutive ? rank / size * size + i : rank % groups + i * groups);
            }
            OK(pennyCommDestroy(child));
        }
    }
    for (int size = 0; size <= ranks; size += ranks) {
        pennyComm_t child;
        OK(pennyCommGroup(parent, pennyGroupAll, size, &child));
        CHECK_INT(sum_over(child), ranks * (ranks - 1) / 2);
        OK(pennyCommDestroy(child));
    }
    CHECK_INT(sum_over(parent), ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(parent));
}

static void a_split_orders_by_key_and_gives_null_without_a_color(void) {
    pennyComm_t parent = join(), child = made_up;
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    int me = -1, count = -1;
    config.timeoutMs = 30000;
    /* All but the last rank, backwards. */
    int last = ranks > 1 && rank == ranks - 1, others = ranks > 1 ? ranks - 1 : 1;
    OK(pennyCommSplit(parent, last ? PENNY_SPLIT_NOCOLOR : 3, -rank, &child, rank == 0 ? NULL : &config));
    if (last) {
        CHECK(child == NULL);
    } else {
        OK(pennyCommCount(child, &count));
        OK(pennyCommUserRank(child, &me));
        CHECK_INT(count, others);
        CHECK_INT(me, others - 1 - rank);
        CHECK_INT(sum_over(child), others * (others - 1) / 2);
        OK(pennyCommDestroy(child));
    }
    OK(pennyCommDestroy(parent));
}

static void a_duplicate_has_the_same_ranks_and_outlives_the_first(void) {
    pennyComm_t comm = join(), twin, grandchild;
    int me = -1, count = -1;
    OK(pennyCommDup(comm, &twin));
    OK(pennyCommDup(twin, &grandchild));
    OK(pennyCommUserRank(twin, &me));
    OK(pennyCommCount(twin, &count));
    CHECK(me == rank && count == ranks);
    OK(pennyCommDestroy(comm));
    CHECK_INT(sum_over(twin), ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(twin));
    for (int i = 0; i < 20; i++) CHECK_INT(sum_over(grandchild), ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(grandchild));
    FAILS(pennyInvalidArgument, "newcomm is NULL", pennyCommDup(comm, NULL));
}

static void children_without_number_come_and_go(void) {
    enum { LIVE = 300, FLOATS = 40000 };
    static pennyComm_t child[LIVE];
    static float mine[FLOATS], sum[FLOATS];
    pennyComm_t comm = join();
    for (int i = 0; i < LIVE; i++) OK(pennyCommDup(i % 2 == 0 || i == 0 ? comm : child[i - 1], &child[i]));
    for (int i = 0; i < LIVE; i++) CHECK_INT(sum_over(child[i]), ranks * (ranks - 1) / 2);
    for (int i = 0; i < FLOATS; i++) mine[i] = (float)(rank + i % 7);
    for (int i = 0; i < LIVE; i += 50) {
        OK(pennyAllReduce(mine, sum, FLOATS, pennyFloat, pennySum, child[i], NULL));
        for (int k = 0; k < FLOATS; k++) CHECK(sum[k] == (float)(ranks * (ranks - 1) / 2 + ranks * (k % 7)));
    }
    for (int i = 0; i < LIVE; i++) OK(pennyCommDestroy(child[i]));
    for (int i = 0; i < 2 * LIVE; i++) {
        OK(pennyCommDup(comm, &child[0]));
        OK(pennyCommDestroy(child[0]));
    }
    OK(pennyCommDestroy(comm));
}

/* Between hosts the word that a rank has left the parent may come before another's that it has joined the child. */
static void a_rank_leaves_a_parent_as_soon_as_it_has_the_child(void) {
    pennyComm_t comm, child;
    int i;
    OK(pennyCommInitRank(&comm, ranks, shared_id(), rank));
    for (i = 0; i < 150; i++) {
        if (i % 3 == 0) OK(pennyCommDup(comm, &child));
        if (i % 3 == 1) OK(pennyCommSplit(comm, 0, 0, &child, NULL));
        if (i % 3 == 2) OK(pennyCommShrink(comm, NULL, 0, &child, NULL, PENNY_SHRINK_DEFAULT));
        if (i % 4 == 3) {
            OK(pennyCommAbort(comm));
        } else {
            OK(pennyCommDestroy(comm));
        }
        comm = child;
        if (i % 2 == 1) OK(pennyBarrier(comm, NULL));
    }
    OK(pennyCommDestroy(comm));
}

static void wrong_settings_of_one_rank_are_told_to_all(void) {
    pennyComm_t parent = join(), child = NULL;
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    config.timeoutMs = 0;
    if (rank == ranks - 1) config.algo = "no_such";
    if (rank == ranks - 1) {
        FAILS(pennyInvalidArgument, "no_such", pennyCommSplit(parent, 0, 0, &child, &config));
    } else {
        FAILS(pennyInvalidUsage, "cannot join", pennyCommSplit(parent, 0, 0, &child, &config));
    }
    config.algo = NULL;
    if (rank == 0) config.fabric = "dgx-h100";
    if (rank == 0) {
        FAILS(pennyInvalidArgument, "on no declared machine", pennyCommSplit(parent, 0, 0, &child, &config));
    } else {
        FAILS(pennyInvalidUsage, "rank 0 cannot join", pennyCommSplit(parent, 0, 0, &child, &config));
    }
    CHECK_INT(sum_over(parent), ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(parent));
}

static void wrong_arguments_of_groups_and_splits_are_refused(void) {
    pennyComm_t parent = join(), child = made_up;
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    config.magic = 7;
    FAILS(pennyInvalidArgument, "kind is 3", pennyCommGroup(parent, (pennyGroupKind_t)3, 1, &child));
    FAILS(pennyInvalidArgument, "kind is -1", pennyCommGroup(parent, (pennyGroupKind_t)-1, 1, &child));
    FAILS(pennyInvalidArgument, "size is 0", pennyCommGroup(parent, pennyGroupConsecutive, 0, &child));
    FAILS(pennyInvalidArgument, "size is 9", pennyCommGroup(parent, pennyGroupAll, 9, &child));
    FAILS(pennyInvalidArgument, "newcomm is NULL", pennyCommGroup(parent, pennyGroupAll, 0, NULL));
    FAILS(pennyInvalidArgument, "comm", pennyCommGroup(made_up, pennyGroupAll, 0, &child));
    FAILS(pennyInvalidArgument, "comm", pennyCommSplit(NULL, 0, 0, &child, NULL));
    FAILS(pennyInvalidArgument, "newcomm is NULL", pennyCommSplit(parent, 0, 0, NULL, NULL));
    FAILS(pennyInvalidArgument, "config", pennyCommSplit(parent, 0, 0, &child, &config));
    CHECK(child == made_up);
    OK(pennyCommDestroy(parent));
}

int main(void) {
    begin();
    RUN(groups_are_consecutive_orthogonal_or_all);
    RUN(a_split_orders_by_key_and_gives_null_without_a_color);
    RUN(a_duplicate_has_the_same_ranks_and_outlives_the_first);
    RUN(children_without_number_come_and_go);
    RUN(a_rank_leaves_a_parent_as_soon_as_it_has_the_child);
    RUN(wrong_settings_of_one_rank_are_told_to_all);
    RUN(wrong_arguments_of_groups_and_splits_are_refused);
    return 0;
}
