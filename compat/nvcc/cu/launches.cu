/* Every way to write a launch. */
#include "check.h"

#include <vector>

namespace deep {
template <class T, int step = 2> __global__ void __launch_bounds__(256, 1) fill(T *at, T value, int count = 8) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) at[i] = value + static_cast<T>(i * step);
}
namespace {
__global__ void hidden(int *at) { at[threadIdx.x] = -1; }
} // namespace
} // namespace deep

#define LAUNCH(kernel, blocks, ...) kernel<<<blocks, 4>>>(__VA_ARGS__)
#define FILL_ALL(at) \
    do { \
        LAUNCH((deep::fill<int, 3>), 1, at, 7, 8); \
    } while (0)

template <class Function> __global__ void each(Function function, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) function(i);
}

template <class... A> __global__ void sum(int *to, A... values) {
    int all[] = {values...}, total = 0;
    for (int value : all) total += value;
    *to = total;
}

__global__ void unnamed(int *at, int, const float *) { *at = 5; }

struct Large {
    int values[100];
    char last;
};
__global__ void by_value(Large large, int *to) {
    to[threadIdx.x] = large.values[99] + large.last;
    large.values[99] = 0; /* each thread has its own */
}

/* A declaration before the definition, an overload, a specialization. */
template <class T> __global__ void kind(T *to);
__global__ void kind(int *to, int);
template <> __global__ void kind<float>(float *to) { *to = 2; }
template <class T> __global__ void kind(T *to) { *to = 1; }
__global__ void kind(int *to, int) { *to = 3; }

using Filler = void (*)(int *, int, int);
struct Table {
    Filler fillers[2];
    void run(int which, int *at) const { this->fillers[which]<<<1, 8>>>(at, 1, 8); }
};
static Filler choose(bool first) { return first ? deep::fill<int, 5> : deep::fill<int, 6>; }

static void is(const int *at, int first, int step) {
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 8; i++) CHECK(at[i] == first + i * step);
}

int main() {
    int *at = device<int>(8);
    deep::fill<<<1, 3>>>(at, 4);
    is(at, 4, 2);
    ::deep::fill<int, 4> <<<dim3(1), dim3{2, 1, 1}, 0, nullptr>>>(at, 4, 8);
    is(at, 4, 4);
    FILL_ALL(at);
    is(at, 7, 3);
    Table table = {{choose(true), choose(false)}};
    table.run(0, at);
    is(at, 1, 5);
    table.fillers[1]<<<1, 1>>>(at, 1, 8);
    is(at, 1, 6);
    choose(true)<<<1, 1>>>(at, 2, 8);
    is(at, 2, 5);
    if (at != nullptr) deep::hidden<<<1, 8>>>(at);
    else deep::hidden<<<1, 1>>>(at);
    is(at, -1, 0);

    /* Arguments are taken at the launch and converted as in a call. */
    int value = 3;
    deep::fill<long><<<1, 1>>>((long *)at, (long)value++, 4);
    CHECK(value == 4);
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++) CHECK(((long *)at)[i] == 3 + 2 * i);
    unnamed<<<1, 1>>>(at, 'a', NULL);
    CUDA(cudaDeviceSynchronize());
    CHECK(*at == 5);
    sum<<<1, 1>>>(at, 1, 2, 3, 4);
    CUDA(cudaDeviceSynchronize());
    CHECK(*at == 10);
    int *all = device<int>(100);
    each<<<4, 32>>>([=] __device__(int i) { all[i] = i * i; }, 100);
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 100; i++) CHECK(all[i] == i * i);
    Large large = {};
    large.values[99] = 40, large.last = 2;
    by_value<<<1, 8>>>(large, at);
    large.values[99] = 0;
    is(at, 42, 0);

    float *number = device<float>(1);
    kind<<<1, 1>>>(at);
    kind<<<1, 1>>>(number);
    kind<<<1, 1>>>(at + 1, 0);
    CUDA(cudaDeviceSynchronize());
    CHECK(at[0] == 1 && *number == 2 && at[1] == 3);

    /* By address. */
    std::vector<const void *> kernels = {(const void *)deep::fill<int, 7>, reinterpret_cast<void *>(&deep::fill<int, 8>)};
    int first = 9, count = 8;
    void *places[] = {&at, &first, &count};
    for (int i = 0; i < 2; i++) {
        CUDA(cudaLaunchKernel(kernels[i], dim3(1), dim3(4), places, 0, 0));
        is(at, 9, 7 + i);
    }
    CUDA(cudaLaunchKernel(deep::fill<int, 9>, 1, 4, places, 0, cudaStreamPerThread));
    is(at, 9, 9);
    CUDA(cudaLaunchCooperativeKernel((void *)deep::fill<int, 1>, 1, 4, places, 0, 0));
    is(at, 9, 1);
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = 1, configuration.blockDim = 2;
    CUDA(cudaLaunchKernelEx(&configuration, deep::fill<int, 10>, at, 1, 8));
    is(at, 1, 10);
    cudaFuncAttributes attributes;
    CUDA(cudaFuncGetAttributes(&attributes, deep::fill<int, 10>));
    CHECK(attributes.maxThreadsPerBlock == 1024);
    int blocks = 0;
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, deep::fill<int, 10>, 256, 0));
    CHECK(blocks == 8);

    /* What only looks like one. <<<1, 2>>>(a) */
    const char *text = "k<<<1, 2>>>(a)", *raw = R"(k<<<1, 2>>>("a"))";
    CHECK(std::strlen(text) == 14 && std::strlen(raw) == 16);
    std::vector<std::vector<std::vector<int>>>(1);
    std::puts("launches");
}
