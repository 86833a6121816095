/* Streams of a CUDA runtime that says which of Penny's streams they are. */
#include "check.h"
#include <penny.h>

static pennyStream_t default_stream, other;
static int asked = 0, is_captured = 0;

int pennyCudaStream(void *cudaStream, void **pennyStream);
int cudaStreamIsCapturing(void *stream, int *status);
int cudaGetDevice(int *device);

/* The runtime: NULL is a stream too, another is at an address of its own, and all else is none. */
int pennyCudaStream(void *cudaStream, void **pennyStream) {
    asked++;
    if (cudaStream != NULL && cudaStream != (void *)&other) return 400;
    *pennyStream = cudaStream == NULL ? (void *)default_stream : (void *)other;
    return 0;
}

int cudaStreamIsCapturing(void *stream, int *status) {
    *status = stream == (void *)&other && is_captured;
    return 0;
}

int cudaGetDevice(int *device) {
    *device = 3;
    return 0;
}

static void calls_are_queued_on_the_stream(void) {
    ncclComm_t comm;
    ncclUniqueId id;
    int in = 7, out[2] = {0, 0}, device = -1;
    CHECK(pennyStreamCreate(&default_stream) == pennySuccess && pennyStreamCreate(&other) == pennySuccess);
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 1, id, 0));
    OK(ncclCommCuDevice(comm, &device));
    CHECK_INT(device, 3);
    OK(ncclAllReduce(&in, &out[0], 1, ncclInt, ncclSum, comm, NULL));
    OK(ncclBroadcast(&in, &out[1], 1, ncclInt, 0, comm, (cudaStream_t)(void *)&other));
    CHECK_INT(asked, 2);
    CHECK(pennyStreamSynchronize(default_stream) == pennySuccess && pennyStreamSynchronize(other) == pennySuccess);
    CHECK_INT(out[0], 7);
    CHECK_INT(out[1], 7);
    FAILS(ncclInvalidArgument, "its error 400", ncclAllReduce(&in, out, 1, ncclInt, ncclSum, comm, (cudaStream_t)(void *)out));
    is_captured = 1;
    FAILS(ncclInvalidUsage, "being captured", ncclAllReduce(&in, out, 1, ncclInt, ncclSum, comm, (cudaStream_t)(void *)&other));
    OK(ncclAllReduce(&in, &out[0], 1, ncclInt, ncclSum, comm, NULL));
    OK(ncclCommDestroy(comm));
}

int main(void) {
    begin();
    RUN(calls_are_queued_on_the_stream);
    return 0;
}
