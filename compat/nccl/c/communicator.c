/* How communicators are made, split and ended. */
#include "check.h"

static ncclComm_t world(void) {
    ncclComm_t comm = NULL;
    OK(ncclCommInitRank(&comm, processes, shared_id(), process));
    return comm;
}

static int sum_of(ncclComm_t comm, int mine) {
    int sum = -1;
    OK(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL));
    return sum;
}

static void several_ids_are_one_communicator(void) {
    ncclComm_t comm = NULL;
    ncclUniqueId ids[2] = {shared_id(), shared_id()};
    int given = processes > 1 ? 2 : 1;
    OK(ncclCommInitRankScalable(&comm, processes, process, given, ids, NULL));
    CHECK_INT(sum_of(comm, 1), processes);
    FAILS(ncclInvalidArgument, "nId is 0", ncclCommInitRankScalable(&comm, processes, process, 0, ids, NULL));
    FAILS(ncclInvalidArgument, "nId is", ncclCommInitRankScalable(&comm, processes, process, processes + 1, ids, NULL));
    FAILS(ncclInvalidArgument, "commIds is NULL", ncclCommInitRankScalable(&comm, processes, process, 1, NULL, NULL));
    OK(ncclCommDestroy(comm));
}

static void ranks_of_a_color_are_a_communicator(void) {
    ncclComm_t comm = world(), part = NULL, none = comm;
    /* The order is turned round. */
    OK(ncclCommSplit(comm, process % 2, -process, &part, NULL));
    int count, rank, of = (processes + 1 - process % 2) / 2;
    OK(ncclCommCount(part, &count));
    OK(ncclCommUserRank(part, &rank));
    CHECK_INT(count, of);
    CHECK_INT(rank, of - 1 - process / 2);
    CHECK_INT(sum_of(part, 1), of);
    OK(ncclCommSplit(comm, process == 0 ? NCCL_SPLIT_NOCOLOR : 7, 0, &none, NULL));
    CHECK((none == NULL) == (process == 0));
    if (none != NULL) CHECK_INT(sum_of(none, 1), processes - 1);
    FAILS(ncclInvalidArgument, "color is -2", ncclCommSplit(comm, -2, 0, &none, NULL));
    FAILS(ncclInvalidArgument, "newcomm is NULL", ncclCommSplit(comm, 0, 0, NULL, NULL));
    OK(ncclCommDestroy(none));
    OK(ncclCommDestroy(comm));
    CHECK_INT(sum_of(part, 1), of);
    OK(ncclCommDestroy(part));
}

/* The other processes join when process 0 has its answer: it cannot be complete before. */
static void join_and_poll(ncclConfig_t *config) {
    static int number = 0;
    char name[32];
    snprintf(name, sizeof name, "answered%d", number++);
    ncclComm_t comm = NULL;
    ncclUniqueId id = shared_id();
    if (process > 0) await_bytes(name, NULL, 0);
    ncclResult_t state = ncclCommInitRankConfig(&comm, processes, id, process, config);
    CHECK(state == ncclInProgress || (state == ncclSuccess && (process > 0 || processes == 1)));
    if (process == 0) post_bytes(name, "", 0);
    do {
        OK(ncclCommGetAsyncError(comm, &state));
        nap();
    } while (state == ncclInProgress);
    OK(state);
    CHECK_INT(sum_of(comm, 1), processes);
    OK(ncclCommDestroy(comm));
}

static void a_program_may_poll(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    join_and_poll(&config);
}

static void the_variable_is_stronger_than_the_program(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    join_and_poll(&config);
    setenv("NCCL_COMM_BLOCKING", "1", 1);
    config.blocking = 0;
    ncclComm_t comm = NULL;
    OK(ncclCommInitRankConfig(&comm, processes, shared_id(), process, &config));
    unsetenv("NCCL_COMM_BLOCKING");
    OK(ncclCommDestroy(comm));
}

static void an_end_of_nothing_succeeds(void) {
    OK(ncclCommFinalize(NULL));
    OK(ncclCommDestroy(NULL));
    OK(ncclCommAbort(NULL));
    OK(ncclMemFree(NULL));
    ncclComm_t comm = world();
    OK(ncclCommFinalize(comm));
    OK(ncclCommDestroy(comm));
    FAILS(ncclInvalidArgument, "destroyed", ncclCommDestroy(comm));
    int count = -1;
    FAILS(ncclInvalidArgument, "destroyed", ncclCommCount(comm, &count));
    CHECK_INT(count, -1);
}

static void devices_are_those_of_the_list(void) {
    ncclComm_t comms[3];
    int list[3] = {6, 4, 2}, device;
    OK(ncclCommInitAll(comms, 3, list));
    for (int i = 0; i < 3; i++) {
        OK(ncclCommCuDevice(comms[i], &device));
        CHECK_INT(device, list[i]);
        OK(ncclCommDestroy(comms[i]));
    }
    FAILS(ncclInvalidArgument, "ndev is 0", ncclCommInitAll(comms, 0, NULL));
    FAILS(ncclInvalidArgument, "comm is NULL", ncclCommInitAll(NULL, 1, NULL));
}

/* A rank that cannot join fails the group, and no other waits for it. */
static void a_group_with_a_rank_that_is_refused_fails(void) {
    ncclComm_t comms[2];
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    OK(ncclCommInitRank(&comms[0], 2, id, 0));
    FAILS(ncclInvalidArgument, "rank 2 is out of range: ranks are 0 to 1", ncclCommInitRank(&comms[1], 2, id, 2));
    FAILS(ncclInvalidArgument, "rank 2 is out of range: ranks are 0 to 1", ncclGroupEnd());
    FAILS(ncclInvalidUsage, "ncclGroupStart", ncclGroupEnd());
}

int main(void) {
    begin();
    RUN(several_ids_are_one_communicator);
    RUN(ranks_of_a_color_are_a_communicator);
    RUN(a_program_may_poll);
    RUN(the_variable_is_stronger_than_the_program);
    RUN(an_end_of_nothing_succeeds);
    RUN(devices_are_those_of_the_list);
    RUN(a_group_with_a_rank_that_is_refused_fails);
    return 0;
}
