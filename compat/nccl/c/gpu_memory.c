/* A CUDA runtime that is not Penny's, some of whose memory lies on a GPU. */
#include "check.h"

/* As in CUDA 11 and 12. */
struct attributes {
    int type, device;
    void *devicePointer, *hostPointer;
};

static int on_gpu[4], on_host[4];

int cudaPointerGetAttributes(struct attributes *attributes, const void *pointer);

int cudaPointerGetAttributes(struct attributes *attributes, const void *pointer) {
    memset(attributes, 0, sizeof *attributes);
    attributes->type = pointer >= (void *)on_gpu && pointer < (void *)(on_gpu + 4) ? 2 : 0;
    attributes->device = 1;
    return 0;
}

static void buffers_on_a_gpu_are_refused(void) {
    ncclComm_t comm;
    ncclRedOp_t op;
    void *handle;
    OK(ncclCommInitAll(&comm, 1, NULL));
    OK(ncclAllReduce(on_host, on_host, 2, ncclInt, ncclSum, comm, NULL));
    FAILS(ncclInvalidArgument, "sendbuff is memory of GPU 1", ncclAllReduce(on_gpu, on_host, 2, ncclInt, ncclSum, comm, NULL));
    FAILS(ncclInvalidArgument, "recvbuff is memory of GPU 1", ncclAllReduce(on_host, on_gpu, 2, ncclInt, ncclSum, comm, NULL));
    FAILS(ncclInvalidArgument, "buff is memory of GPU 1", ncclCommRegister(comm, on_gpu, sizeof on_gpu, &handle));
    FAILS(ncclInvalidArgument, "scalar is memory of GPU 1",
          ncclRedOpCreatePreMulSum(&op, on_gpu, ncclInt, ncclScalarDevice, comm));
    OK(ncclCommDestroy(comm));
}

int main(void) {
    begin();
    RUN(buffers_on_a_gpu_are_refused);
    return 0;
}
