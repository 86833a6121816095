/* Communicators of the ranks that remain, and of new ones. */
#include "check.h"

static int sum_of(ncclComm_t comm, int mine) {
    int sum = -1;
    OK(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL));
    return sum;
}

static ncclComm_t world(void) {
    ncclComm_t comm = NULL;
    OK(ncclCommInitRank(&comm, processes, shared_id(), process));
    return comm;
}

static void ranks_leave_one_out_that_calls_nothing(void) {
    ncclComm_t comm = world(), rest = NULL;
    int out = processes - 1, number;
    if (process != out) {
        OK(ncclCommShrink(comm, &out, 1, &rest, NULL, NCCL_SHRINK_DEFAULT));
        OK(ncclCommUserRank(rest, &number));
        CHECK_INT(number, process);
        CHECK_INT(sum_of(rest, 1), processes - 1);
        OK(ncclCommDestroy(rest));
    }
    CHECK_INT(sum_of(comm, 1), processes);
    FAILS(ncclInvalidArgument, "newcomm is NULL", ncclCommShrink(comm, &out, 1, NULL, NULL, NCCL_SHRINK_DEFAULT));
    FAILS(ncclInvalidArgument, "shrinkFlags is 4", ncclCommShrink(comm, &out, 1, &rest, NULL, 4));
    OK(ncclCommDestroy(comm));
}

static void a_revoked_communicator_can_be_shrunk(void) {
    ncclComm_t comm = world(), rest = NULL;
    ncclResult_t state;
    ncclUniqueId id;
    int one = 1;
    OK(ncclCommRevoke(NULL, NCCL_REVOKE_DEFAULT));
    if (process == 0) {
        OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
        OK(ncclCommGetAsyncError(comm, &state));
        CHECK_INT(state, ncclSuccess);
        FAILS(ncclInvalidUsage, "has revoked", ncclAllReduce(&one, &one, 1, ncclInt, ncclSum, comm, NULL));
    } else {
        do OK(ncclCommGetAsyncError(comm, &state));
        while (state == ncclSuccess);
        CHECK_INT(state, ncclRemoteError);
        FAILS(ncclRemoteError, "rank 0 revoked the comm", ncclAllReduce(&one, &one, 1, ncclInt, ncclSum, comm, NULL));
    }
    FAILS(ncclRemoteError, "revoked the communicator", ncclCommGetUniqueId(comm, &id));
    OK(ncclCommShrink(comm, NULL, 0, &rest, NULL, NCCL_SHRINK_ABORT));
    CHECK_INT(sum_of(rest, 1), processes);
    OK(ncclCommDestroy(rest));
    OK(ncclCommDestroy(comm));
}

/* The last process is new to the communicator of the others. */
static void a_new_rank_joins_those_of_a_communicator(void) {
    ncclComm_t comm = NULL, grown = NULL;
    ncclUniqueId id = shared_id(), further;
    int is_new = process == processes - 1;
    if (!is_new) OK(ncclCommInitRank(&comm, processes - 1, id, process));
    if (process == 0) {
        OK(ncclCommGetUniqueId(comm, &further));
        post_bytes("further", &further, sizeof further);
    } else if (is_new) {
        await_bytes("further", &further, sizeof further);
    }
    OK(ncclCommGrow(comm, processes, process == 0 || is_new ? &further : NULL, is_new ? process : -1, &grown, NULL));
    CHECK_INT(sum_of(grown, process + 1), processes * (processes + 1) / 2);
    if (!is_new) {
        ncclComm_t not_made = grown;
        OK(ncclGroupStart());
        FAILS(ncclInvalidUsage, "cannot be in a group", ncclCommGrow(comm, processes, NULL, -1, &not_made, NULL));
        FAILS(ncclInvalidUsage, "cannot be in a group", ncclGroupEnd());
        CHECK(not_made == NULL);
    }
    OK(ncclCommDestroy(grown));
    if (!is_new) OK(ncclCommDestroy(comm));
}

/* What is not made is NULL, also where a group has promised it. */
static void a_failed_group_leaves_no_handles(void) {
    ncclComm_t comm = world(), made = comm, split = comm;
    ncclUniqueId id;
    ncclWindow_t win = (ncclWindow_t)(void *)comm;
    int word = 0;
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    OK(ncclCommInitRank(&made, 1, id, 0));
    OK(ncclCommSplit(comm, 0, 0, &split, NULL));
    OK(ncclCommWindowRegister(comm, &word, sizeof word, &win, NCCL_WIN_DEFAULT));
    CHECK(made != NULL && split != NULL);
    FAILS(ncclInvalidArgument, "is out of range", ncclBroadcast(&word, &word, 1, ncclInt, -1, comm, NULL));
    FAILS(ncclInvalidArgument, "is out of range", ncclGroupEnd());
    CHECK(made == NULL && split == NULL && win == NULL);
    made = comm;
    FAILS(ncclInvalidArgument, "", ncclCommInitRank(&made, 1, id, 7));
    CHECK(made == NULL);
    CHECK_INT(sum_of(comm, 1), processes);
    OK(ncclCommDestroy(comm));
}

int main(void) {
    begin();
    RUN(ranks_leave_one_out_that_calls_nothing);
    RUN(a_revoked_communicator_can_be_shrunk);
    RUN(a_new_rank_joins_those_of_a_communicator);
    RUN(a_failed_group_leaves_no_handles);
    return 0;
}
