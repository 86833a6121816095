/* A grid in one and in three dimensions, whose every thread is run once and knows where it is. */
#include "check.h"

__global__ void add(const float *a, const float *b, float *sum, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) sum[i] = a[i] + b[i];
}

struct Place {
    uint3 thread, block;
    dim3 threads, blocks;
};

__global__ void places(Place *all) {
    unsigned int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned int each = blockDim.x * blockDim.y * blockDim.z;
    Place &mine = all[block * each + thread];
    mine.thread = threadIdx, mine.block = blockIdx;
    mine.threads = blockDim, mine.blocks = gridDim;
}

__global__ void count(int *count) { (*count)++; }

int main() {
    const int n = 1000;
    float *a = device<float>(n, [](int i) { return 0.5f * i; }), *b = device<float>(n, [](int i) { return 3.0f - i; });
    float *sum = device<float>(n + 24);
    add<<<(n + 255) / 256, 256>>>(a, b, sum, n);
    CUDA(cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) CHECK(sum[i] == a[i] + b[i]);
    for (int i = n; i < n + 24; i++) CHECK(sum[i] == 0);

    dim3 grid(3, 2, 4), block = {5, 4, 3};
    Place *all = device<Place>(24 * 60);
    places<<<grid, block>>>(all);
    CUDA(cudaDeviceSynchronize());
    for (unsigned int i = 0; i < 24 * 60; i++) {
        const Place &one = all[i];
        unsigned int block_number = i / 60, thread = i % 60;
        CHECK(one.block.x == block_number % 3 && one.block.y == block_number / 3 % 2 && one.block.z == block_number / 6);
        CHECK(one.thread.x == thread % 5 && one.thread.y == thread / 5 % 4 && one.thread.z == thread / 20);
        CHECK(one.threads.x == 5 && one.threads.y == 4 && one.threads.z == 3);
        CHECK(one.blocks.x == 3 && one.blocks.y == 2 && one.blocks.z == 4);
    }

    int *counted = device<int>(1);
    for (int i = 0; i < 100; i++) count<<<i % 7 + 1, i % 31 + 1>>>(counted);
    CUDA(cudaDeviceSynchronize());
    int wanted = 0;
    for (int i = 0; i < 100; i++) wanted += (i % 7 + 1) * (i % 31 + 1);
    CHECK(*counted == wanted);
    std::puts("vector_add");
}
