/* Kernels keep their order with copies, events and streams; they are steps of graphs; variables of devices. */
#include "check.h"

__constant__ int factor[2] = {2, 3};
__device__ int calls;
__device__ static unsigned long long total = 5;
__managed__ int managed = 1;

__global__ void scale(int *at, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) at[i] = at[i] * factor[0] + factor[1];
    if (threadIdx.x == 0) calls++, total += 10, managed *= 2;
}

__global__ void wait(volatile int *flag) {
    while (*flag == 0) {
    }
}

int main() {
    const int n = 300000;
    static int host[n], back[n];
    for (int i = 0; i < n; i++) host[i] = i % 1000;
    int *at = device<int>(n);
    cudaStream_t stream, other;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));

    CUDA(cudaMemcpyAsync(at, host, sizeof host, cudaMemcpyHostToDevice, stream));
    scale<<<1, 64, 0, stream>>>(at, n);
    scale<<<1, 1, 0, stream>>>(at, n);
    CUDA(cudaMemcpyAsync(back, at, sizeof back, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; i++) CHECK(back[i] == (i % 1000) * 4 + 9);
    CHECK(calls == 2 && managed == 4);

    /* A kernel that runs holds up its own stream, not the caller and not another one. */
    int *flag = device<int>(1);
    cudaEvent_t event;
    CUDA(cudaEventCreate(&event));
    wait<<<1, 1, 0, stream>>>(flag);
    CUDA(cudaEventRecord(event, stream));
    CHECK(cudaStreamQuery(stream) == cudaErrorNotReady && cudaEventQuery(event) == cudaErrorNotReady);
    CUDA(cudaMemsetAsync(at, 0, 4, other));
    CUDA(cudaStreamSynchronize(other));
    CUDA(cudaStreamWaitEvent(other, event));
    scale<<<1, 1, 0, other>>>(at, 1);
    CHECK(cudaStreamQuery(other) == cudaErrorNotReady && at[0] == 0);
    *flag = 1;
    CUDA(cudaStreamSynchronize(other));
    CHECK(at[0] == 3);

    /* Recorded, and repeated. The arguments are those of the capture. */
    cudaGraph_t graph;
    cudaGraphExec_t launchable;
    int count = 2;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    scale<<<1, 2, 0, stream>>>(at, count);
    count = 0;
    CUDA(cudaMemcpyAsync(at + 2, at, 8, cudaMemcpyDeviceToDevice, stream));
    CUDA(cudaEventRecord(event, stream));
    CUDA(cudaStreamWaitEvent(other, event));
    scale<<<1, 4, 0, other>>>(at, 4);
    CUDA(cudaEventRecord(event, other));
    CUDA(cudaStreamWaitEvent(stream, event));
    CUDA(cudaStreamEndCapture(stream, &graph));
    size_t nodes = 0;
    CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(nodes == 3);
    CUDA(cudaGraphInstantiate(&launchable, graph, 0));
    CUDA(cudaDeviceSynchronize());
    int before = calls, wanted[4] = {1, 10, 0, 0};
    at[0] = 1, at[1] = 10;
    for (int launch = 0; launch < 3; launch++) {
        CUDA(cudaGraphLaunch(launchable, stream));
        for (int i = 0; i < 2; i++) wanted[i + 2] = wanted[i] = wanted[i] * 2 + 3;
        for (int i = 0; i < 4; i++) wanted[i] = wanted[i] * 2 + 3;
    }
    CUDA(cudaStreamSynchronize(stream));
    CHECK(std::memcmp(at, wanted, sizeof wanted) == 0 && calls == before + 6);
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaGraphExecDestroy(launchable));

    /* Variables by their names. */
    int values[2] = {10, 1}, read = 0;
    CUDA(cudaMemcpyToSymbol(factor, values, sizeof values));
    at[0] = 7;
    scale<<<1, 1>>>(at, 1);
    CUDA(cudaMemcpyFromSymbol(&read, calls, sizeof read));
    CHECK(read == before + 7 && at[0] == 71);
    void *address = nullptr;
    CUDA(cudaGetSymbolAddress(&address, total));
    CUDA(cudaMemcpy(values, address, 8, cudaMemcpyDefault));
    CHECK(total == 5 + 10 * static_cast<unsigned long long>(calls) && address == &total);
    std::puts("order");
}
