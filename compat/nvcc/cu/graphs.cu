/* Kernels as nodes of a graph that a program builds: their arguments are copied, told and changed. */
#include "check.h"

struct Pair {
    int first;
    double second;
};

__global__ void put(int *at, const Pair pair, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) at[i] = pair.first + blockIdx.x + static_cast<int>(pair.second);
}
__global__ void add(int *at) { atomicAdd(at, 1); }
__global__ void nothing() {}

int main() {
    int *at = device<int>(8);
    Pair pair = {5, 2.0};
    int count = 3;
    void *arguments[] = {&at, &pair, &count};
    cudaKernelNodeParams params = {reinterpret_cast<void *>(put), dim3(1), dim3(2), 0, arguments, nullptr};
    cudaGraph_t graph;
    cudaGraphNode_t node, second, third;
    cudaGraphExec_t exec;
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaGraphCreate(&graph, 0));
    CUDA(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params));
    count = 8, pair.first = 0; /* the node has its own */
    void *one[] = {&at};
    cudaKernelNodeParams adds = {reinterpret_cast<void *>(add), dim3(2), dim3(3), 0, one, nullptr};
    CUDA(cudaGraphAddKernelNode(&second, graph, &node, 1, &adds));
    cudaKernelNodeParams idle = {reinterpret_cast<void *>(nothing), dim3(1), dim3(1), 16, nullptr, nullptr};
    CUDA(cudaGraphAddKernelNode(&third, graph, &second, 1, &idle));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int launch = 0; launch < 2; launch++) CUDA(cudaGraphLaunch(exec, stream));
    CUDA(cudaStreamSynchronize(stream));
    CHECK(at[0] == 7 + 6 && at[2] == 7 && at[3] == 0);

    /* What is told can be changed and given back. */
    cudaKernelNodeParams told;
    CUDA(cudaGraphKernelNodeGetParams(node, &told));
    CHECK(told.func == params.func && told.blockDim.x == 2 && told.extra == nullptr);
    CHECK(*static_cast<int **>(told.kernelParams[0]) == at && static_cast<Pair *>(told.kernelParams[1])->first == 5);
    CHECK(*static_cast<int *>(told.kernelParams[2]) == 3);
    pair.first = 20;
    told.kernelParams[1] = &pair;
    CUDA(cudaGraphExecKernelNodeSetParams(exec, node, &told));
    CUDA(cudaGraphLaunch(exec, stream));
    CUDA(cudaStreamSynchronize(stream));
    CHECK(at[0] == 22 + 6 && at[2] == 22 && at[3] == 0);
    CUDA(cudaGraphKernelNodeSetParams(node, &told));
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    at[1] = 0;
    CUDA(cudaGraphLaunch(exec, stream));
    CUDA(cudaStreamSynchronize(stream));
    CHECK(at[1] == 22);
    CUDA(cudaGraphKernelNodeGetParams(third, &told));
    CHECK(told.sharedMemBytes == 16);

    /* A captured launch is a node like these. */
    cudaGraph_t captured;
    size_t nodes = 1;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    put<<<1, 8, 0, stream>>>(at, pair, 8);
    CUDA(cudaStreamEndCapture(stream, &captured));
    CUDA(cudaGraphGetNodes(captured, &node, &nodes));
    CUDA(cudaGraphKernelNodeGetParams(node, &told));
    CHECK(told.func == params.func && *static_cast<int *>(told.kernelParams[2]) == 8);

    /* What cannot run is refused. */
    params.gridDim = dim3(0);
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params) == cudaErrorInvalidConfiguration);
    params.gridDim = dim3(1), params.kernelParams = nullptr;
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params) == cudaErrorInvalidValue);
    void *extra[] = {nullptr};
    params.kernelParams = arguments, params.extra = extra;
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params) == cudaErrorNotSupported);
    params.extra = nullptr, params.func = reinterpret_cast<void *>(main);
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params) == cudaErrorNotSupported);
    CHECK(std::strstr(pennyCudaGetLastMessage(), "cannot run"));
    CHECK(cudaGetLastError() == cudaErrorNotSupported);
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaGraphDestroy(captured));
    std::puts("graphs");
}
