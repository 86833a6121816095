/* Prints the number of devices. An argument names a library that is loaded before. */
#define _GNU_SOURCE
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int count = -1;
    if (argc > 1 && dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    cudaError_t result = cudaGetDeviceCount(&count);
    if (result != cudaSuccess) {
        printf("%d %s: %s\n", count, cudaGetErrorName(result), pennyCudaGetLastMessage());
        void *memory = NULL;
        if (result == cudaErrorInitializationError) {
            result = cudaMalloc(&memory, 64);
            printf("%s: %s\n", cudaGetErrorName(result), pennyCudaGetLastMessage());
        }
        return 0;
    }
    (void)cudaGetDeviceCount(&count);
    printf("%d\n", count);
    return 0;
}
