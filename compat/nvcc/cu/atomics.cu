/* Atomic operations among blocks and among streams, and instructions of devices in asm. */
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T> __global__ void all(T *at) {
    T i = (T)(blockIdx.x * blockDim.x + threadIdx.x);
    atomicAdd(at, i);
    atomicSub(at + 1, i);
    atomicMin(at + 2, i);
    atomicMax(at + 3, i);
    atomicAnd(at + 4, ~((T)1 << i % 16));
    atomicOr(at + 5, (T)1 << i % 16);
    atomicXor(at + 6, i);
    T old = at[7], seen;
    do {
        seen = old;
        old = atomicCAS(at + 7, seen, seen + 1);
    } while (old != seen);
    if (atomicExch(at + 8, i + 1) == 0) atomicAdd(at + 9, (T)1);
    atomicAdd_block(at + 10, 1);
    atomicAdd_system(at + 10, (T)1);
}

template <class T> __global__ void add(T *at, int times) {
    for (int i = 0; i < times; i++) atomicAdd(at, (T)0.5f);
}

__global__ void wrap(unsigned int *at) {
    atomicInc(at, 9);
    atomicDec(at + 1, 9);
}

__global__ void instructions(unsigned long long *at, unsigned int *lane, float *number, uint4 *four) {
    asm volatile("red.global.add.u64 [%0], %1;" ::"l"(at), "l"(2ull) : "memory");
    unsigned int mine, old;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(mine));
    asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(lane), "r"(mine));
    if (threadIdx.x == 0) {
        float x;
        asm volatile("ld.global.f32 %0, [%1 + 4];" : "=f"(x) : "l"(number));
        asm volatile("st.global.f32 [%0], %1;" ::"l"(number), "f"(x * 2) : "memory");
        uint4 v;
        asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(four));
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(four + 1), "r"(v.w), "r"(v.z), "r"(v.y), "r"(v.x) : "memory");
        asm volatile("membar.sys;");
    }
    asm volatile("bar.sync 0;");
#if defined(__x86_64__)
    asm volatile("pause" ::: "memory");
#endif
}

template <class T> static void whole(int size) {
    T *at = device<T>(11);
    const T n = 7 * 40;
    at[2] = 100, at[4] = (T)-1;
    cudaStream_t streams[2];
    for (cudaStream_t &stream : streams) {
        CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        all<<<7, 40, 0, stream>>>(at);
    }
    CUDA(cudaDeviceSynchronize());
    CHECK(sizeof(T) == size && at[0] == n * (n - 1) && at[1] == (T)0 - n * (n - 1));
    CHECK(at[2] == 0 && at[3] == n - 1 && at[4] == (T)~(T)0xffff && at[5] == 0xffff && at[6] == 0);
    CHECK(at[7] == 2 * n && at[8] >= 1 && at[8] <= n && at[9] == 1 && at[10] == 4 * n);
}

int main() {
    whole<int>(4);
    whole<unsigned int>(4);
    whole<long long>(8);
    whole<unsigned long long>(8);
    float *f = device<float>(1);
    double *d = device<double>(1);
    half *h = device<half>(1);
    nv_bfloat16 *b = device<nv_bfloat16>(1);
    add<<<8, 64>>>(f, 10);
    add<<<8, 64>>>(d, 10);
    add<<<8, 8>>>(h, 2);
    add<<<8, 8>>>(b, 2);
    CUDA(cudaDeviceSynchronize());
    CHECK(*f == 2560 && *d == 2560 && __half2float(*h) == 64 && __bfloat162float(*b) == 64);
    unsigned int *wrapped = device<unsigned int>(2);
    wrap<<<1, 23>>>(wrapped);
    CUDA(cudaDeviceSynchronize());
    CHECK(wrapped[0] == 3 && wrapped[1] == 7);

    unsigned long long *sum = device<unsigned long long>(1);
    unsigned int *lanes = device<unsigned int>(1);
    float *number = device<float>(2, [](int i) { return i * 1.5f; });
    uint4 *four = device<uint4>(2);
    four[0] = make_uint4(1, 2, 3, 4);
    instructions<<<2, 48>>>(sum, lanes, number, four);
    CUDA(cudaDeviceSynchronize());
    CHECK(*sum == 2 * 96 && *lanes == 2 * (31 * 32 / 2 + 15 * 16 / 2) && number[0] == 3.0f);
    CHECK(four[1].x == 4 && four[1].y == 3 && four[1].z == 2 && four[1].w == 1);
    std::puts("atomics");
}
