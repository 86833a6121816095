/* Threads of a block that wait for each other: shared memory, barriers, functions of a warp. */
#include "check.h"

template <int threads> __global__ void reduce(const int *from, int *sums) {
    __shared__ int part[threads];
    part[threadIdx.x] = from[blockIdx.x * threads + threadIdx.x];
    __syncthreads();
    for (int half = threads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

extern __shared__ __align__(16) unsigned char given[];

__global__ void reverse(int *values, int count) {
    int *mine = reinterpret_cast<int *>(given);
    mine[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = mine[count - 1 - threadIdx.x];
}

template <class T> __global__ void transpose(const T *from, T *to) {
    extern __shared__ double tile[];
    T(*rows)[33] = reinterpret_cast<T(*)[33]>(tile);
    __shared__ unsigned int begun, again[2];
    if (threadIdx.x + threadIdx.y == 0) begun = again[1] = 0;
    __syncthreads();
    atomicAdd(&begun, 1u);
    rows[threadIdx.y][threadIdx.x] = from[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    if (begun == blockDim.x * blockDim.y) to[threadIdx.y * 32 + threadIdx.x] = rows[threadIdx.x][threadIdx.y];
}

__device__ int warp_sum(int value) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

struct Seen {
    int down, up, other, one, ballot, any, all, count, both, either, parts;
    double number;
    unsigned int match;
};

__global__ void warps(Seen *seen) {
    int i = threadIdx.x, lane = i % 32;
    Seen mine;
    mine.down = warp_sum(i);
    mine.up = __shfl_up_sync(0xffffffff, i, 3);
    mine.other = __shfl_xor_sync(0xffffffff, i, 5);
    mine.one = __shfl_sync(0xffffffff, i, 7);
    mine.parts = __shfl_sync(0xffffffff, i, 2, 8);
    mine.number = __shfl_sync(0xffffffff, i * 0.5, 31 - lane);
    mine.ballot = __ballot_sync(0xffffffff, i % 3 == 0);
    mine.any = __any_sync(0xffffffff, i == 40);
    mine.all = __all_sync(0xffffffff, i < 64);
    mine.match = __match_any_sync(0xffffffff, i % 4);
    if (lane < 16) mine.down += __shfl_sync(0xffff, i, 15);
    else mine.down += __shfl_sync(0xffff0000, i, 31);
    __syncwarp();
    mine.count = __syncthreads_count(i % 5 == 0);
    mine.both = __syncthreads_and(i < 70);
    mine.either = __syncthreads_or(i == 70);
    seen[i] = mine;
}

/* Some threads have ended before the others meet. */
__global__ void early(int *met) {
    if (threadIdx.x % 2) return;
    __syncthreads();
    atomicAdd(met, 1);
}

int main() {
    const int blocks = 20;
    int *values = device<int>(blocks * 256, [](int i) { return i * 7 % 1001; }), *sums = device<int>(blocks);
    reduce<256><<<blocks, 256>>>(values, sums);
    CUDA(cudaDeviceSynchronize());
    for (int block = 0; block < blocks; block++) {
        int wanted = 0;
        for (int i = 0; i < 256; i++) wanted += values[block * 256 + i];
        CHECK(sums[block] == wanted);
    }

    int *numbers = device<int>(1024, [](int i) { return i; });
    reverse<<<1, 1024, 1024 * sizeof(int)>>>(numbers, 1024);
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 1024; i++) CHECK(numbers[i] == 1023 - i);

    double *from = device<double>(1024, [](int i) { return i * 0.25; }), *to = device<double>(1024);
    transpose<<<1, dim3(32, 32), 32 * 33 * sizeof(double)>>>(from, to);
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 1024; i++) CHECK(to[i] == from[i % 32 * 32 + i / 32]);

    Seen *seen = device<Seen>(64);
    warps<<<1, 64>>>(seen);
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 64; i++) {
        int lane = i % 32, first = i - lane, sum = 0, ballot = 0;
        unsigned int match = 0;
        for (int other = lane; other < 32; other++) sum += first + other;
        for (int other = 0; other < 32; other++) {
            if ((first + other) % 3 == 0) ballot |= 1 << other;
            if (other % 4 == lane % 4) match |= 1u << other;
        }
        /* Only the first lane's sum is that of all; the others add themselves where nothing is above them. */
        if (lane == 0) CHECK(seen[i].down == sum + first + 15);
        if (lane == 31) CHECK(seen[i].down - (first + 31) != 0);
        CHECK(seen[i].up == (lane < 3 ? i : i - 3) && seen[i].other == first + (lane ^ 5) && seen[i].one == first + 7);
        CHECK(seen[i].parts == i / 8 * 8 + 2 && seen[i].number == (first + 31 - lane) * 0.5);
        CHECK(seen[i].ballot == ballot && seen[i].any == (first == 32) && seen[i].all == 1 && seen[i].match == match);
        CHECK(seen[i].count == 13 && seen[i].both == 1 && seen[i].either == 0);
    }

    int *met = device<int>(1);
    early<<<3, 100>>>(met);
    CUDA(cudaDeviceSynchronize());
    CHECK(*met == 150);
    std::puts("reduction");
}
