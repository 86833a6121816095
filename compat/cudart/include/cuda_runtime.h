/* CUDA's runtime for programs: the functions of cuda_runtime_api.h, and in C++ their forms that know types. */
#ifndef PENNY_CUDA_RUNTIME_H
#define PENNY_CUDA_RUNTIME_H

#include <string.h>

#include "cuda_runtime_api.h"
#include "vector_functions.h"

static inline struct cudaExtent make_cudaExtent(size_t w, size_t h, size_t d) {
    struct cudaExtent extent = {w, h, d};
    return extent;
}

#ifdef __cplusplus
template <class T> inline cudaError_t cudaMalloc(T **devPtr, size_t size) {
    return cudaMalloc(reinterpret_cast<void **>(devPtr), size);
}
template <class T> inline cudaError_t cudaMallocPitch(T **devPtr, size_t *pitch, size_t width, size_t height) {
    return cudaMallocPitch(reinterpret_cast<void **>(devPtr), pitch, width, height);
}
template <class T>
inline cudaError_t cudaMallocManaged(T **devPtr, size_t size, unsigned int flags = cudaMemAttachGlobal) {
    return cudaMallocManaged(reinterpret_cast<void **>(devPtr), size, flags);
}
template <class T> inline cudaError_t cudaMallocHost(T **ptr, size_t size, unsigned int flags = cudaHostAllocDefault) {
    return cudaHostAlloc(reinterpret_cast<void **>(ptr), size, flags);
}
template <class T> inline cudaError_t cudaHostAlloc(T **pHost, size_t size, unsigned int flags) {
    return cudaHostAlloc(reinterpret_cast<void **>(pHost), size, flags);
}
template <class T> inline cudaError_t cudaHostGetDevicePointer(T **pDevice, void *pHost, unsigned int flags) {
    return cudaHostGetDevicePointer(reinterpret_cast<void **>(pDevice), pHost, flags);
}
template <class T> inline cudaError_t cudaMallocAsync(T **devPtr, size_t size, cudaStream_t stream) {
    return cudaMallocAsync(reinterpret_cast<void **>(devPtr), size, stream);
}
template <class T> inline cudaError_t cudaMallocAsync(T **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream) {
    return cudaMallocFromPoolAsync(reinterpret_cast<void **>(ptr), size, memPool, stream);
}
template <class T>
inline cudaError_t cudaMallocFromPoolAsync(T **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream) {
    return cudaMallocFromPoolAsync(reinterpret_cast<void **>(ptr), size, memPool, stream);
}

/* A symbol is a variable of the program. The compiler knows its size and tells it, so that a copy beyond its end is refused; that of an
   array whose bound is declared elsewhere stays unknown. */
extern "C" void __cudaRegisterVar(void **image, char *host, char *address, const char *name, int isExternal, size_t size,
                                  int isConstant, int isGlobal);
namespace penny_cuda {
template <class T> struct SymbolSize {
    static size_t bytes() { return sizeof(T); }
};
template <class T> struct SymbolSize<T[]> {
    static size_t bytes() { return 0; }
};
template <class T> inline const void *sized(const T &symbol) {
    char *at = const_cast<char *>(&reinterpret_cast<const volatile char &>(symbol));
    const size_t bytes = SymbolSize<T>::bytes();
    if (bytes > 0) __cudaRegisterVar(nullptr, at, nullptr, nullptr, 0, bytes, 0, 0);
    return at;
}
} // namespace penny_cuda

template <class T>
inline cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *src, size_t count, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    return cudaMemcpyToSymbol(penny_cuda::sized(symbol), src, count, offset, kind);
}
template <class T>
inline cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *src, size_t count, size_t offset = 0,
                                           cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = 0) {
    return cudaMemcpyToSymbolAsync(penny_cuda::sized(symbol), src, count, offset, kind, stream);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbol(void *dst, const T &symbol, size_t count, size_t offset = 0,
                                        cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    return cudaMemcpyFromSymbol(dst, penny_cuda::sized(symbol), count, offset, kind);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const T &symbol, size_t count, size_t offset = 0,
                                             cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t stream = 0) {
    return cudaMemcpyFromSymbolAsync(dst, penny_cuda::sized(symbol), count, offset, kind, stream);
}
template <class T> inline cudaError_t cudaGetSymbolAddress(void **devPtr, const T &symbol) {
    return cudaGetSymbolAddress(devPtr, static_cast<const void *>(&symbol));
}
template <class T> inline cudaError_t cudaGetSymbolSize(size_t *size, const T &) {
    *size = sizeof(T);
    return cudaSuccess;
}

inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags) {
    return cudaEventCreateWithFlags(event, flags);
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, cudaGraphNode_t *pErrorNode,
                                        char *pLogBuffer, size_t bufferSize) {
    if (pErrorNode != nullptr) *pErrorNode = nullptr;
    if (pLogBuffer != nullptr && bufferSize > 0) *pLogBuffer = '\0';
    return cudaGraphInstantiate(pGraphExec, graph, 0ULL);
}

/* Kernels: functions that penny-nvcc has compiled. */
template <class T>
inline cudaError_t cudaLaunchKernel(T *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem = 0,
                                    cudaStream_t stream = 0) {
    return cudaLaunchKernel(reinterpret_cast<const void *>(func), gridDim, blockDim, args, sharedMem, stream);
}
template <class T> inline cudaError_t cudaFuncSetAttribute(T *func, cudaFuncAttribute attr, int value) {
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(func), attr, value);
}
template <class T> inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attr, T *func) {
    return cudaFuncGetAttributes(attr, reinterpret_cast<const void *>(func));
}
template <class T> inline cudaError_t cudaFuncSetCacheConfig(T *func, cudaFuncCache cacheConfig) {
    return cudaFuncSetCacheConfig(reinterpret_cast<const void *>(func), cacheConfig);
}
template <class T>
inline cudaError_t cudaLaunchCooperativeKernel(T *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem = 0,
                                               cudaStream_t stream = 0) {
    return cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(func), gridDim, blockDim, args, sharedMem, stream);
}
template <class T>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, T *func, int blockSize,
                                                                 size_t dynamicSMemSize) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, reinterpret_cast<const void *>(func), blockSize,
                                                         dynamicSMemSize);
}
#endif

#if defined(PENNY_NVCC) && defined(__cplusplus)
#include "penny_kernel.h"

#include "penny_atomics.h"
#include "penny_device_functions.h"
#include "penny_ptx.h"
#include "penny_warp.h"

namespace penny_cuda {
template <class... P, int... numbers>
inline cudaError_t launch_with(const cudaLaunchConfig_t *config, void (*kernel)(P...), std::tuple<P...> &arguments,
                               Numbers<numbers...>) {
    void *places[] = {static_cast<void *>(&std::get<numbers>(arguments))..., nullptr};
    return cudaLaunchKernelExC(config, reinterpret_cast<const void *>(kernel), places);
}
} // namespace penny_cuda

/* Launches a kernel whose arguments become those of its parameters. */
template <class... P, class... A>
inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...values) {
    std::tuple<P...> arguments(static_cast<P>(values)...);
    return penny_cuda::launch_with(config, kernel, arguments, typename penny_cuda::Count<sizeof...(P)>::type());
}
#endif

#endif
