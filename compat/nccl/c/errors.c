/* Failures: of arguments, between ranks, and their sentences. Two processes. */
#include "check.h"

static ncclComm_t comm;
static int in[4] = {1, 2, 3, 4}, out[4];

static void ranks_that_disagree_are_told(void) {
    FAILS(ncclInvalidUsage, "count", ncclAllReduce(in, out, (size_t)(1 + process), ncclInt, ncclSum, comm, NULL));
    FAILS(ncclInvalidUsage, "int32", ncclAllReduce(in, out, 1, process == 0 ? ncclInt32 : ncclUint32, ncclSum, comm, NULL));
    FAILS(ncclInvalidUsage, "max", ncclAllReduce(in, out, 1, ncclInt, process == 0 ? ncclMax : ncclMin, comm, NULL));
    FAILS(ncclInvalidUsage, "root", ncclReduce(in, out, 1, ncclInt, ncclSum, process, comm, NULL));
    FAILS(ncclInvalidUsage, "root", ncclBroadcast(in, out, 1, ncclInt, 1 - process, comm, NULL));
    OK(ncclAllReduce(in, out, 1, ncclInt, ncclSum, comm, NULL));
    CHECK_INT(out[0], 2);
}

static void arguments_are_checked(void) {
    FAILS(ncclInvalidArgument, "root 2 is out of range: ranks are 0 to 1", ncclReduce(in, out, 1, ncclInt, ncclSum, 2, comm, NULL));
    FAILS(ncclInvalidArgument, "root -1", ncclBroadcast(in, out, 1, ncclInt, -1, comm, NULL));
    FAILS(ncclInvalidArgument, "peer", ncclSend(in, 1, ncclInt, 5, comm, NULL));
    FAILS(ncclInvalidArgument, "comm is NULL", ncclAllReduce(in, out, 1, ncclInt, ncclSum, NULL, NULL));
    FAILS(ncclInvalidArgument, "sendbuff is NULL", ncclAllReduce(NULL, out, 1, ncclInt, ncclSum, comm, NULL));
    FAILS(ncclInvalidArgument, "datatype is 12", ncclAllReduce(in, out, 1, ncclNumTypes, ncclSum, comm, NULL));
    /* Types and reductions that Penny has and NCCL does not. */
    FAILS(ncclInvalidArgument, "datatype is 65", ncclAllGather(in, out, 1, (ncclDataType_t)65, comm, NULL));
    FAILS(ncclInvalidArgument, "op is 66", ncclAllReduce(in, out, 1, ncclInt, (ncclRedOp_t)66, comm, NULL));
    FAILS(ncclInvalidArgument, "op is 5", ncclReduceScatter(in, out, 1, ncclInt, ncclNumOps, comm, NULL));
    FAILS(ncclInvalidArgument, "op is -1", ncclAllReduce(in, out, 1, ncclInt, (ncclRedOp_t)-1, comm, NULL));
    FAILS(ncclInvalidArgument, "overlap", ncclAllReduce(in, in + 1, 2, ncclInt, ncclSum, comm, NULL));
    FAILS(ncclInvalidArgument, "Penny's libcudart", ncclAllReduce(in, out, 1, ncclInt, ncclSum, comm, (cudaStream_t)(void *)in));
    FAILS(ncclInvalidUsage, "group", ncclSend(in, 1, ncclInt, process, comm, NULL));
    FAILS(ncclInvalidArgument, "count is NULL", ncclCommCount(comm, NULL));
    FAILS(ncclInvalidArgument, "asyncError is NULL", ncclCommGetAsyncError(comm, NULL));
    FAILS(ncclInvalidArgument, "uniqueId is NULL", ncclGetUniqueId(NULL));
    FAILS(ncclInvalidArgument, "version is NULL", ncclGetVersion(NULL));
    FAILS(ncclInvalidArgument, "datatype is 12",
          ncclRedOpCreatePreMulSum((ncclRedOp_t *)in, in, ncclNumTypes, ncclScalarDevice, comm));
    FAILS(ncclInvalidArgument, "win", ncclCommWindowRegister(comm, in, sizeof in, NULL, 0));
}

/* A group runs nothing of what is in it when one of its calls was refused, by this library or by Penny. */
static void a_group_with_a_refused_call_fails(void) {
    for (int i = 0; i < 2; i++) {
        out[0] = -1;
        OK(ncclGroupStart());
        OK(ncclAllReduce(in, out, 1, ncclInt, ncclSum, comm, NULL));
        OK(ncclGroupStart());
        if (i == 0) FAILS(ncclInvalidArgument, "datatype is 99", ncclAllReduce(in, out, 1, (ncclDataType_t)99, ncclSum, comm, NULL));
        if (i == 1) FAILS(ncclInvalidArgument, "root 9", ncclBcast(in, 1, ncclInt, 9, comm, NULL));
        OK(ncclGroupEnd());
        FAILS(ncclInvalidArgument, i == 0 ? "datatype is 99" : "root 9", ncclGroupEnd());
        CHECK_INT(out[0], -1);
    }
    OK(ncclGroupStart());
    OK(ncclAllReduce(in, out, 1, ncclInt, ncclSum, comm, NULL));
    OK(ncclGroupEnd());
    CHECK_INT(out[0], 2);
    FAILS(ncclInvalidUsage, "ncclGroupStart", ncclGroupEnd());
}

/* The time of a group is known on a declared machine only. */
static void a_time_needs_a_declared_machine(void) {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
    OK(ncclGroupStart());
    OK(ncclAllReduce(in, out, 1, ncclInt, ncclSum, comm, NULL));
    FAILS(ncclInvalidUsage, "PENNY_FABRIC", ncclGroupSimulateEnd(&info));
    FAILS(ncclInvalidUsage, "ncclGroupStart", ncclGroupEnd());
    info.magic++;
    FAILS(ncclInvalidArgument, "NCCL_SIM_INFO_INITIALIZER", ncclGroupSimulateEnd(&info));
}

/* A program does not close a group a second time: later calls would become part of it. */
static void every_end_of_a_group_closes_it(void) {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    info.magic++;
    out[0] = -1;
    OK(ncclGroupStart());
    OK(ncclAllReduce(in, out, 1, ncclInt, ncclSum, comm, NULL));
    FAILS(ncclInvalidArgument, "NCCL_SIM_INFO_INITIALIZER", ncclGroupSimulateEnd(&info));
    CHECK_INT(out[0], -1);
    /* Without a place for the time the group is run, as NCCL does. */
    OK(ncclGroupStart());
    OK(ncclAllReduce(in, out, 1, ncclInt, ncclSum, comm, NULL));
    OK(ncclGroupSimulateEnd(NULL));
    CHECK_INT(out[0], 2);
    FAILS(ncclInvalidUsage, "ncclGroupStart", ncclGroupSimulateEnd(NULL));
}

static void *fail_elsewhere(void *unused) {
    (void)unused;
    CHECK(ncclAllReduce(in, out, 1, (ncclDataType_t)77, ncclSum, comm, NULL) == ncclInvalidArgument);
    return NULL;
}

static void the_last_error_is_the_process_s(void) {
    FAILS(ncclInvalidArgument, "datatype is 76", ncclAllReduce(in, out, 1, (ncclDataType_t)76, ncclSum, comm, NULL));
    const char *before = ncclGetLastError(NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(strstr(before, "datatype is 76") != NULL);
    CHECK(strstr(ncclGetLastError(comm), "datatype is 77") != NULL);
    for (int result = -1; result < 10; result++) CHECK(strlen(ncclGetErrorString((ncclResult_t)result)) > 5);
}

static void an_abort_ends_the_other_ranks_calls(void) {
    if (process == 0) {
        /* Not before the other one is done with what comes before. */
        await_bytes("ready", NULL, 0);
        OK(ncclCommAbort(comm));
    } else {
        post_bytes("ready", "", 0);
        FAILS(ncclRemoteError, "rank 0", ncclAllReduce(in, out, 4, ncclInt, ncclSum, comm, NULL));
        ncclResult_t state = ncclSuccess;
        OK(ncclCommGetAsyncError(comm, &state));
        CHECK_INT(state, ncclRemoteError);
        OK(ncclCommAbort(comm));
    }
}

int main(void) {
    begin();
    CHECK(strcmp(ncclGetLastError(NULL), "") == 0);
    OK(ncclCommInitRank(&comm, processes, shared_id(), process));
    RUN(ranks_that_disagree_are_told);
    RUN(arguments_are_checked);
    RUN(a_group_with_a_refused_call_fails);
    RUN(a_time_needs_a_declared_machine);
    RUN(every_end_of_a_group_closes_it);
    RUN(the_last_error_is_the_process_s);
    RUN(an_abort_ends_the_other_ranks_calls);
    return 0;
}
