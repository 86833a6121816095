/* Launches and copies that are refused, with the sentence; and that nothing ran. */
#include "check.h"

__global__ void touch(int *at) { atomicAdd(at, 1); }
__global__ void parent(int *at) { touch<<<1, 1>>>(at); }
__global__ void unequal(int *at) {
    if (threadIdx.x < 5) __syncthreads();
    else __shfl_sync(0xffffffff, 1, 0);
    atomicAdd(at, 1);
}
static void host(int *) {}

static void refused(cudaError_t wanted, const char *says) {
    cudaError_t got = cudaGetLastError();
    const char *said = pennyCudaGetLastMessage();
    if (got != wanted || std::strstr(said, says) == nullptr) {
        std::fprintf(stderr, "%s (%s), wanted %s with \"%s\"\n", cudaGetErrorName(got), said, cudaGetErrorName(wanted), says);
        std::exit(1);
    }
}

int main() {
    int *at = device<int>(4);
    touch<<<0, 1>>>(at);
    refused(cudaErrorInvalidConfiguration, "the kernel touch is launched with gridDim.x = 0");
    touch<<<dim3(1, 65536), 1>>>(at);
    refused(cudaErrorInvalidConfiguration, "gridDim.y = 65536");
    touch<<<1, 1025>>>(at);
    refused(cudaErrorInvalidConfiguration, "blockDim.x = 1025");
    touch<<<1, dim3(1, 1, 65)>>>(at);
    refused(cudaErrorInvalidConfiguration, "blockDim.z = 65");
    touch<<<1, dim3(64, 32)>>>(at);
    refused(cudaErrorInvalidConfiguration, "2048 threads a block");
    touch<<<1, 1, 300000>>>(at);
    refused(cudaErrorInvalidConfiguration, "300000 bytes of shared memory");
    touch<<<1, 1, 0, (cudaStream_t)0x1234>>>(at);
    refused(cudaErrorInvalidResourceHandle, "stream is not a live stream");
    touch(at);
    refused(cudaErrorMissingConfiguration, "the kernel touch is called without a configuration");
    CHECK(cudaLaunchKernel((const void *)host, 1, 1, nullptr, 0, 0) == cudaErrorNotSupported);
    refused(cudaErrorNotSupported, "compile it with penny-nvcc");
    CHECK(cudaLaunchKernel((const void *)touch, 1, 1, nullptr, 0, 0) == cudaErrorInvalidValue);
    refused(cudaErrorInvalidValue, "args is NULL; pass the addresses of the 1 arguments of touch");
    void *places[] = {&at};
    CHECK(cudaLaunchCooperativeKernel((void *)touch, 2, 1, places, 0, 0) == cudaErrorNotSupported);
    refused(cudaErrorNotSupported, "several blocks that wait for each other");
    CUDA(cudaDeviceSynchronize());
    CHECK(at[0] == 0);

    /* In a kernel: the launch there is refused, and threads that wait for what cannot come end it. */
    parent<<<1, 1>>>(at);
    CUDA(cudaDeviceSynchronize());
    CHECK(at[0] == 0);
    unequal<<<2, 32>>>(at);
    CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
    refused(cudaErrorLaunchFailure, "the kernel unequal does not go on: in block (0, 0, 0) 5 threads wait in __syncthreads and 27 for threads of their warps");
    CHECK(at[0] == 0);
    touch<<<2, 2>>>(at);
    CUDA(cudaDeviceSynchronize());
    CHECK(at[0] == 4);

    /* Copies that begin in an allocation and go on beyond its end. */
    char *memory = device<char>(1000);
    static char other[2000];
    CHECK(cudaMemcpy(memory, other, 1001, cudaMemcpyDefault) == cudaErrorInvalidValue);
    refused(cudaErrorInvalidValue, "dst has 1000 bytes up to the end of its allocation of 1000 bytes, and 1001 are asked for");
    CHECK(cudaMemcpyAsync(other, memory + 990, 11, cudaMemcpyDefault, 0) == cudaErrorInvalidValue);
    refused(cudaErrorInvalidValue, "src has 10 bytes up to the end");
    CHECK(cudaMemset(memory + 1, 7, 1000) == cudaErrorInvalidValue);
    refused(cudaErrorInvalidValue, "devPtr has 999 bytes");
    CHECK(cudaMemset2D(memory, 100, 7, 50, 11) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy2D(other, 100, memory + 1, 100, 100, 10, cudaMemcpyDefault) == cudaErrorInvalidValue);
    CUDA(cudaMemset(memory, 3, 1000));
    CUDA(cudaMemset2D(memory, 100, 7, 50, 10));
    CUDA(cudaMemcpy2D(other, 100, memory, 100, 100, 10, cudaMemcpyDefault));
    CUDA(cudaMemcpy(other + 1000, memory + 999, 1, cudaMemcpyDefault));
    CHECK(other[0] == 7 && other[50] == 3 && other[999] == 3 && other[1000] == 3 && other[1001] == 0);
    std::puts("errors");
}
