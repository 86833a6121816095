/* Streams of a CUDA runtime that says which of Penny's streams they are. */
#include "check.h"
#include <penny.h>

static pennyStream_t default_stream, other;
static int asked = 0, is_captured = 0;

int pennyCudaStream(void *cudaStream, void **pennyStream);
unsigned long long pennyCudaCaptureId(void *stream);
int pennyCudaCapture(void *stream, const char *(*replay)(void *, void *), void *argument, void (*forget)(void *));
int cudaGetDevice(int *device);

/* The runtime: NULL is a stream too, another is at an address of its own, and all else is none. */
int pennyCudaStream(void *cudaStream, void **pennyStream) {
    asked++;
    if (cudaStream != NULL && cudaStream != (void *)&other) return 400;
    *pennyStream = cudaStream == NULL ? (void *)default_stream : (void *)other;
    return 0;
}

unsigned long long pennyCudaCaptureId(void *stream) { return stream == (void *)&other && is_captured ? 7 : 0; }

/* A graph of at most three steps. */
static struct {
    const char *(*replay)(void *, void *);
    void (*forget)(void *);
    void *argument;
} steps[3];
static int recorded = 0;

int pennyCudaCapture(void *stream, const char *(*replay)(void *, void *), void *argument, void (*forget)(void *)) {
    CHECK(stream == (void *)&other && recorded < 3);
    if (!is_captured) return 0;
    steps[recorded].replay = replay;
    steps[recorded].forget = forget;
    steps[recorded++].argument = argument;
    return 1;
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
    OK(ncclCommDestroy(comm));
}

static void calls_on_a_captured_stream_are_made_at_each_launch(void) {
    ncclComm_t comm;
    ncclUniqueId id;
    cudaStream_t captured = (cudaStream_t)(void *)&other;
    int in = 7, out[3] = {0, 0, 0};
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 1, id, 0));
    is_captured = 1;
    OK(ncclAllReduce(&in, &out[0], 1, ncclInt, ncclSum, comm, captured));
    CHECK_INT(recorded, 1);
    OK(ncclGroupStart());
    OK(ncclSend(&out[0], 1, ncclInt, 0, comm, captured));
    OK(ncclRecv(&out[1], 1, ncclInt, 0, comm, captured));
    CHECK_INT(recorded, 1);
    OK(ncclGroupEnd());
    CHECK_INT(recorded, 2);
    FAILS(ncclInvalidArgument, "nDesc is 0", ncclWaitSignal(0, NULL, comm, captured));
    ncclWaitSignalDesc_t signals = {1, 0, 0, 0};
    OK(ncclGroupStart());
    OK(ncclSignal(0, 0, 0, 0, comm, captured));
    OK(ncclWaitSignal(1, &signals, comm, captured));
    OK(ncclGroupEnd());
    CHECK_INT(recorded, 3);
    OK(ncclAllReduce(&in, &out[2], 1, ncclInt, ncclSum, comm, NULL));
    is_captured = 0;
    CHECK(pennyStreamSynchronize(default_stream) == pennySuccess && pennyStreamSynchronize(other) == pennySuccess);
    CHECK(out[0] == 0 && out[1] == 0 && out[2] == 7);
    for (in = 1; in <= 3; in++) {
        for (int step = 0; step < recorded; step++) CHECK(steps[step].replay(steps[step].argument, other) == NULL);
        CHECK(pennyStreamSynchronize(other) == pennySuccess);
        CHECK_INT(out[0], in);
        CHECK_INT(out[1], in);
    }
    for (int step = 0; step < recorded; step++) steps[step].forget(steps[step].argument);
    OK(ncclGroupStart());
    is_captured = 1;
    OK(ncclAllReduce(&in, &out[0], 1, ncclInt, ncclSum, comm, captured));
    is_captured = 0;
    recorded = 0;
    FAILS(ncclInvalidUsage, "not captured any more", ncclGroupEnd());
    OK(ncclCommDestroy(comm));
}

int main(void) {
    begin();
    RUN(calls_are_queued_on_the_stream);
    RUN(calls_on_a_captured_stream_are_made_at_each_launch);
    return 0;
}
