/* A library before this one takes calls by the first name and makes them by the second. */
#include "check.h"

static int taken = 0;

ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    taken++;
    return pncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
}

static void calls_pass_through(void) {
    ncclComm_t comm;
    int in = 3, out = 0;
    OK(pncclCommInitAll(&comm, 1, NULL));
    OK(ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, comm, NULL));
    CHECK_INT(out, 3);
    CHECK_INT(taken, 1);
    FAILS(ncclInvalidArgument, "datatype", ncclAllReduce(&in, &out, 1, ncclNumTypes, ncclSum, comm, NULL));
    OK(pncclCommDestroy(comm));
}

int main(void) {
    begin();
    RUN(calls_pass_through);
    return 0;
}
