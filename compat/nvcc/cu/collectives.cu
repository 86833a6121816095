/* A kernel between two collectives on one stream of each device: no wait on the host lies between them. */
#include "check.h"

#include <nccl.h>

__global__ void scale(float *at, int count, float by) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) at[i] = at[i] * by + 1;
}

int main() {
    const int ranks = 3, n = 50000;
    ncclComm_t comms[ranks];
    CHECK(ncclCommInitAll(comms, ranks, nullptr) == ncclSuccess);
    float *at[ranks], *all[ranks];
    cudaStream_t streams[ranks];
    for (int rank = 0; rank < ranks; rank++) {
        CUDA(cudaSetDevice(rank));
        CUDA(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking));
        at[rank] = device<float>(n);
        all[rank] = device<float>(n * ranks);
        for (int i = 0; i < n; i++) at[rank][i] = rank + i % 5;
    }
    for (int round = 0; round < 3; round++) {
        CHECK(ncclGroupStart() == ncclSuccess);
        for (int rank = 0; rank < ranks; rank++)
            CHECK(ncclAllReduce(at[rank], at[rank], n, ncclFloat, ncclSum, comms[rank], streams[rank]) == ncclSuccess);
        CHECK(ncclGroupEnd() == ncclSuccess);
        for (int rank = 0; rank < ranks; rank++) scale<<<4, 128, 0, streams[rank]>>>(at[rank], n, 0.5f * rank);
        CHECK(ncclGroupStart() == ncclSuccess);
        for (int rank = 0; rank < ranks; rank++)
            CHECK(ncclAllGather(at[rank], all[rank], n, ncclFloat, comms[rank], streams[rank]) == ncclSuccess);
        CHECK(ncclGroupEnd() == ncclSuccess);
    }
    for (int rank = 0; rank < ranks; rank++) {
        CUDA(cudaSetDevice(rank));
        CUDA(cudaStreamSynchronize(streams[rank]));
    }
    for (int i = 0; i < n; i++) {
        float values[ranks] = {(float)(i % 5), (float)(1 + i % 5), (float)(2 + i % 5)};
        for (int round = 0; round < 3; round++) {
            float sum = values[0] + values[1] + values[2];
            for (int rank = 0; rank < ranks; rank++) values[rank] = sum * (0.5f * rank) + 1;
        }
        for (int rank = 0; rank < ranks; rank++)
            for (int of = 0; of < ranks; of++) CHECK(all[rank][of * n + i] == values[of]);
    }
    for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
    std::puts("collectives");
}
