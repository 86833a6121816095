/* A default stream is that of the communicator's device, whichever device the thread uses at the call. One process with Penny's CUDA
   runtime, PENNY_DEVICES=4. */
#include "check.h"
#include <cuda_runtime.h>

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != cudaSuccess) FAIL("%s: %s", #call, pennyCudaGetLastMessage());                                   \
    } while (0)

enum { N = 1 << 16, LATE = 20 };

static cudaStream_t const defaults[] = {NULL, cudaStreamLegacy, cudaStreamPerThread};

static void fill_late(void *at) {
    struct timespec time = {0, LATE * 1000000L};
    nanosleep(&time, NULL);
    for (int i = 0; i < N; i++) ((float *)at)[i] = 2;
}

/* The thread uses device 0 whenever it calls NCCL, and what each rank sends is written late by the default stream of its device. */
static void default_streams_are_those_of_the_communicators_devices(void) {
    float *x[4];
    int device = -1;
    for (int i = 0; i < 4; i++) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaMalloc((void **)&x[i], N * sizeof(float)));
    }
    for (size_t s = 0; s < sizeof defaults / sizeof *defaults; s++) {
        for (int i = 0; i < 4; i++) {
            CUDA(cudaSetDevice(i));
            memset(x[i], 0, N * sizeof(float));
            CUDA(cudaLaunchHostFunc(defaults[s], fill_late, x[i]));
        }
        CUDA(cudaSetDevice(0));
        ALL(ncclAllReduce(x[i], x[i], N, ncclFloat, ncclSum, comms[i], defaults[s]));
        CUDA(cudaGetDevice(&device));
        CHECK_INT(device, 0);
        for (int i = 0; i < 4; i++) {
            CUDA(cudaSetDevice(i));
            CUDA(cudaStreamSynchronize(defaults[s]));
            CHECK(x[i][0] == 8 && x[i][N - 1] == 8);
        }
    }
    for (int i = 0; i < 4; i++) CUDA(cudaFree(x[i]));
}

/* A call after which a device was set does not leave the thread on another. */
static void copies_behind_a_call_see_its_result(void) {
    float *x[4], y = 0;
    for (int i = 0; i < 4; i++) CUDA(cudaMalloc((void **)&x[i], N * sizeof(float)));
    for (int i = 0; i < 4; i++) {
        CUDA(cudaSetDevice(i));
        memset(x[i], 0, N * sizeof(float));
        CUDA(cudaLaunchHostFunc(NULL, fill_late, x[i]));
    }
    CUDA(cudaSetDevice(2));
    ALL(ncclAllReduce(x[i], x[i], N, ncclFloat, ncclSum, comms[i], NULL));
    for (int i = 3; i >= 0; i--) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaMemcpy(&y, x[i] + N - 1, sizeof y, cudaMemcpyDefault));
        CHECK(y == 8);
    }
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++) CUDA(cudaFree(x[i]));
    CUDA(cudaSetDevice(0));
}

/* The default stream of a thread can be captured: that of the communicator's device, too. */
static void a_captured_default_stream_is_that_of_the_device(void) {
    float *x[4];
    cudaGraph_t graphs[4];
    cudaGraphExec_t execs[4];
    for (int i = 0; i < 4; i++) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaMalloc((void **)&x[i], sizeof(float)));
        x[i][0] = 1;
        CUDA(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed));
    }
    CUDA(cudaSetDevice(1));
    ALL(ncclAllReduce(x[i], x[i], 1, ncclFloat, ncclSum, comms[i], cudaStreamPerThread));
    for (int i = 0; i < 4; i++) {
        size_t nodes = 0;
        CUDA(cudaSetDevice(i));
        CUDA(cudaStreamEndCapture(cudaStreamPerThread, &graphs[i]));
        CUDA(cudaGraphGetNodes(graphs[i], NULL, &nodes));
        CHECK_INT(nodes, 1);
        CUDA(cudaGraphInstantiate(&execs[i], graphs[i], 0));
        CHECK(x[i][0] == 1);
    }
    for (int i = 0; i < 4; i++) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaGraphLaunch(execs[i], cudaStreamPerThread));
    }
    for (int i = 0; i < 4; i++) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaDeviceSynchronize());
        CHECK(x[i][0] == 4);
        CUDA(cudaGraphExecDestroy(execs[i]));
        CUDA(cudaGraphDestroy(graphs[i]));
        CUDA(cudaFree(x[i]));
    }
    CUDA(cudaSetDevice(0));
}

/* Half a transfer to oneself is refused by the call, or by the end of its group, which queues nothing then. */
static void half_a_transfer_to_oneself_is_refused_at_once(void) {
    int in[2] = {1, 2}, out[2] = {0, 0};
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    FAILS(ncclInvalidUsage, "rank 1 has 1 sends to itself and 0 receives", ncclSend(in, 1, ncclInt, 1, comms[1], stream));
    FAILS(ncclInvalidUsage, "0 sends to itself and 1 receives", ncclRecv(out, 1, ncclInt, 2, comms[2], NULL));
    OK(ncclGroupStart());
    OK(ncclSend(in, 1, ncclInt, 3, comms[3], stream));
    OK(ncclSend(in, 1, ncclInt, 1, comms[0], stream));
    OK(ncclRecv(out, 1, ncclInt, 0, comms[1], stream));
    FAILS(ncclInvalidUsage, "rank 3 has 1 sends to itself and 0 receives", ncclGroupEnd());
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) OK(ncclSend(in + i, 1, ncclInt, 3, comms[3], stream));
    OK(ncclRecv(out, 1, ncclInt, 3, comms[3], stream));
    FAILS(ncclInvalidUsage, "2 sends to itself and 1 receives", ncclGroupEnd());
    CUDA(cudaDeviceSynchronize());
    CHECK_INT(out[0], 0);
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) OK(ncclSend(in + i, 1, ncclInt, 3, comms[3], stream));
    for (int i = 0; i < 2; i++) OK(ncclRecv(out + i, 1, ncclInt, 3, comms[3], stream));
    OK(ncclGroupEnd());
    CUDA(cudaStreamSynchronize(stream));
    CHECK(out[0] == 1 && out[1] == 2);
    CUDA(cudaStreamDestroy(stream));
}

/* As many ranks as there are devices, each on one of its own. */
static void devices_are_checked(void) {
    ncclComm_t made[6] = {NULL};
    const int beyond[2] = {0, 99}, below[2] = {-1, 0}, twice[3] = {1, 2, 1}, good[3] = {3, 0, 2};
    int device = -1;
    FAILS(ncclInvalidArgument, "device 99", ncclCommInitAll(made, 2, beyond));
    FAILS(ncclInvalidArgument, "device -1", ncclCommInitAll(made, 2, below));
    FAILS(ncclInvalidUsage, "device 1", ncclCommInitAll(made, 3, twice));
    FAILS(ncclInvalidArgument, "ndev is 5, and there are 4", ncclCommInitAll(made, 5, NULL));
    FAILS(ncclInvalidArgument, "ndev is 5, and there are 4", ncclCommInitAll(made, 5, good));
    for (int i = 0; i < 6; i++) CHECK(made[i] == NULL);
    OK(ncclCommInitAll(made, 3, good));
    OK(ncclCommCuDevice(made[0], &device));
    CHECK_INT(device, 3);
    for (int i = 0; i < 3; i++) OK(ncclCommDestroy(made[i]));
}

static void memory_of_the_cuda_runtime_is_a_window(void) {
    ncclWindow_t windows[4] = {NULL};
    int *x[4];
    void *at = NULL;
    for (int i = 0; i < 4; i++) CUDA(cudaMalloc((void **)&x[i], 4096));
    ALL(ncclCommWindowRegister(comms[i], x[i], 4096, &windows[i], NCCL_WIN_DEFAULT));
    for (int i = 0; i < 4; i++) {
        CHECK(windows[i] != NULL);
        OK(ncclWinGetUserPtr(comms[i], windows[i], &at));
        CHECK(at == x[i]);
    }
    for (int i = 0; i < 4; i++) OK(ncclCommWindowDeregister(comms[i], windows[i]));
    for (int i = 0; i < 4; i++) CUDA(cudaFree(x[i]));
}

int main(void) {
    begin();
    join();
    RUN(memory_of_the_cuda_runtime_is_a_window);
    RUN(half_a_transfer_to_oneself_is_refused_at_once);
    RUN(devices_are_checked);
    RUN(default_streams_are_those_of_the_communicators_devices);
    RUN(copies_behind_a_call_see_its_result);
    RUN(a_captured_default_stream_is_that_of_the_device);
    leave();
    return 0;
}
