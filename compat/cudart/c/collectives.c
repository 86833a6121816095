/* Collectives of Penny on streams of CUDA, found as a library beside both finds them. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <penny.h>

#define PENNY(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != pennySuccess) FAIL("%s", pennyGetLastError(NULL));                                               \
    } while (0)

static int (*stream_of)(void *, void **);
static int (*capture)(void *, const char *(*)(void *, void *), void *, void (*)(void *));
static pennyComm_t comm;
static int rank, ranks;
static float *x, *y;

enum { N = 100000 };

static pennyStream_t on(cudaStream_t stream) {
    void *penny = NULL;
    CHECK_INT(stream_of(stream, &penny), 0);
    return (pennyStream_t)penny;
}

static void fill(void *at) {
    for (int i = 0; i < N; i++) ((float *)at)[i] = (float)(rank + 1);
}

static void collectives_and_copies_keep_their_order(void) {
    cudaStream_t streams[3] = {NULL, cudaStreamPerThread, NULL};
    float *host = malloc(N * sizeof *host), sum = (float)(ranks * (ranks + 1) / 2);
    OK(cudaStreamCreate(&streams[2]));
    for (int s = 0; s < 3; s++) {
        for (int i = 0; i < 10; i++) {
            OK(cudaLaunchHostFunc(streams[s], fill, x));
            PENNY(pennyAllReduce(x, y, N, pennyFloat, pennySum, comm, on(streams[s])));
            OK(cudaMemcpyAsync(host, y, N * sizeof *y, cudaMemcpyDeviceToHost, streams[s]));
            OK(cudaMemsetAsync(y, 0, N * sizeof *y, streams[s]));
            OK(cudaStreamSynchronize(streams[s]));
            CHECK(host[0] == sum && host[N - 1] == sum && all_are(y, 0, N * sizeof *y));
        }
    }
    OK(cudaStreamDestroy(streams[2]));
    free(host);
}

static void the_default_stream_follows_collectives(void) {
    cudaStream_t stream;
    float last = 0, sum = (float)(ranks * (ranks + 1) / 2);
    OK(cudaStreamCreate(&stream));
    for (int i = 0; i < 20; i++) {
        OK(cudaLaunchHostFunc(stream, fill, x));
        PENNY(pennyAllReduce(x, y, N, pennyFloat, pennySum, comm, on(stream)));
        OK(cudaMemcpy(&last, y + N - 1, sizeof last, cudaMemcpyDeviceToHost));
        CHECK(last == sum);
        OK(cudaMemset(y, 0, N * sizeof *y));
    }
    OK(cudaStreamDestroy(stream));
}

static void collectives_follow_the_default_stream(void) {
    cudaStream_t stream;
    float sum = (float)(ranks * (ranks + 1) / 2);
    gate here = {0};
    OK(cudaStreamCreate(&stream));
    memset(x, 0, N * sizeof *x);
    OK(cudaLaunchHostFunc(NULL, hold, &here));
    OK(cudaLaunchHostFunc(NULL, fill, x));
    PENNY(pennyAllReduce(x, y, N, pennyFloat, pennySum, comm, on(stream)));
    FAILS(cudaErrorNotReady, cudaStreamQuery(stream));
    open_gate(&here);
    OK(cudaStreamSynchronize(stream));
    CHECK(y[0] == sum && y[N - 1] == sum);
    OK(cudaStreamDestroy(stream));
}

static void a_failure_is_told_once(void) {
    cudaStream_t stream;
    if (ranks == 1) return;
    OK(cudaStreamCreate(&stream));
    PENNY(pennyAllReduce(x, y, (size_t)(N - rank), pennyFloat, pennySum, comm, on(stream)));
    OK(cudaMemsetAsync(x, 0, 64, stream));
    FAILS(cudaErrorUnknown, cudaStreamSynchronize(stream));
    CHECK(strstr(pennyCudaGetLastMessage(), "rank") != NULL);
    OK(cudaStreamSynchronize(stream));
    OK(cudaDeviceSynchronize());
    OK(cudaStreamDestroy(stream));
}

static void one_thread_drives_two_devices(void) {
    pennyComm_t comms[2];
    cudaStream_t streams[2];
    float *buffers[2], last;
    if (ranks > 1) return;
    PENNY(pennyCommInitAll(comms, 2, NULL));
    for (int d = 0; d < 2; d++) {
        OK(cudaSetDevice(d));
        OK(cudaMalloc((void **)&buffers[d], N * sizeof **buffers));
        OK(cudaStreamCreate(&streams[d]));
    }
    for (int round = 0; round < 10; round++) {
        for (int d = 0; d < 2; d++) {
            OK(cudaSetDevice(d));
            OK(cudaLaunchHostFunc(streams[d], fill, buffers[d]));
        }
        PENNY(pennyGroupStart());
        for (int d = 0; d < 2; d++) {
            OK(cudaSetDevice(d));
            PENNY(pennyAllReduce(buffers[d], buffers[d], N, pennyFloat, pennySum, comms[d], on(streams[d])));
        }
        PENNY(pennyGroupEnd());
        for (int d = 0; d < 2; d++) {
            OK(cudaSetDevice(d));
            OK(cudaMemcpy(&last, buffers[d] + N - 1, sizeof last, cudaMemcpyDeviceToHost));
            CHECK(last == 2);
        }
    }
    for (int d = 0; d < 2; d++) {
        OK(cudaSetDevice(d));
        OK(cudaDeviceSynchronize());
        OK(cudaStreamDestroy(streams[d]));
        OK(cudaFree(buffers[d]));
        PENNY(pennyCommDestroy(comms[d]));
    }
    OK(cudaSetDevice(rank));
}

static const char *all_reduce(void *at, void *stream) {
    CHECK(at == x);
    PENNY(pennyAllReduce(x, x, N, pennyFloat, pennySum, comm, (pennyStream_t)stream));
    return NULL;
}

static void collectives_are_captured(void) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float expected = 1;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK_INT(capture(stream, all_reduce, x, NULL), 1);
    OK(cudaMemcpyAsync(y, x, N * sizeof *x, cudaMemcpyDefault, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < N; i++) x[i] = 1;
    for (int i = 0; i < 3; i++, expected *= (float)ranks) OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(y[0] == expected && y[N - 1] == expected);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
}

int main(void) {
    PENNY(pennyCommInitFromEnv(&comm, NULL));
    PENNY(pennyCommUserRank(comm, &rank));
    PENNY(pennyCommCount(comm, &ranks));
    *(void **)&stream_of = dlsym(RTLD_DEFAULT, "pennyCudaStream");
    *(void **)&capture = dlsym(RTLD_DEFAULT, "pennyCudaCapture");
    CHECK(stream_of != NULL && capture != NULL);
    OK(cudaSetDevice(rank));
    OK(cudaMalloc((void **)&x, N * sizeof *x));
    OK(cudaMalloc((void **)&y, N * sizeof *y));
    RUN(collectives_and_copies_keep_their_order);
    RUN(the_default_stream_follows_collectives);
    RUN(collectives_follow_the_default_stream);
    RUN(a_failure_is_told_once);
    RUN(one_thread_drives_two_devices);
    RUN(collectives_are_captured);
    PENNY(pennyCommDestroy(comm));
    return 0;
}
