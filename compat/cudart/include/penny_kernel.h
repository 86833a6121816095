/* Kernels of programs that penny-nvcc compiles, and how the library runs them. Included by cuda_runtime.h in such programs.

   penny-nvcc writes a kernel as a function that hands its arguments to penny_cuda::Kernel::launch; the body becomes the function
   that one thread of a block calls. The library runs all threads of all blocks on the thread of the launch's stream. */
#ifndef PENNY_KERNEL_H
#define PENNY_KERNEL_H

#include <stddef.h>

#include "vector_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The block that runs. src/grid.rs has the same structure. */
struct pennyCudaBlock {
    unsigned int threads; /* how many threads it has */
    unsigned int next;    /* the first thread that has not begun */
    unsigned int over;    /* how many threads have ended */
    unsigned int grid[3], block[3], index[3];
    unsigned int ended[32]; /* a word for each warp: a bit for each thread that has ended */
};

/* A kernel. src/kernels.rs has the same structure. */
struct pennyCudaKernel {
    size_t size; /* of this structure */
    /* __PRETTY_FUNCTION__ of a function whose template arguments name the kernel. */
    const char *name;
    /* What a program knows the kernel by. */
    void (*function)(void);
    /* Runs the threads of a block that have not begun, one after another. */
    void (*run)(const void *arguments, struct pennyCudaBlock *block);
    /* Copies arguments that stand at these places. */
    void *(*copy)(void **places);
    /* Frees copied arguments. */
    void (*drop)(void *arguments);
    /* Tells where each of the copied arguments stands. */
    void (*places)(void *arguments, void **places);
    int parameters;
};

int pennyCudaRegisterKernel(const struct pennyCudaKernel *kernel);
/* Launches a kernel with the configuration that was pushed last. Takes the arguments. */
void pennyCudaLaunch(const struct pennyCudaKernel *kernel, void *arguments);
unsigned int __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, void *stream);

/* For threads of a kernel; `thread` is the thread's number in its block. */
/* Waits for all threads of the block. Returns how many of them passed a value that is not 0. */
unsigned int pennyCudaBarrier(unsigned int thread, int value);
/* Waits for the threads of a mask in the warp, and gives each an answer: see penny_warp.h. */
unsigned long long pennyCudaWarp(unsigned int thread, unsigned int mask, int what, unsigned long long value, unsigned int lane);
/* Lets other threads of the block go on. */
void pennyCudaYield(unsigned int thread);
/* The block's memory of a __shared__ variable, of the variables that share its launch's size, and how large that is. */
void *pennyCudaShared(const void *variable, size_t size, size_t alignment);
void *pennyCudaDynamicShared(void);
size_t pennyCudaDynamicSharedSize(void);

#ifdef __cplusplus
}

#include <tuple>
#include <type_traits>

/* Where a thread is. Each program and library has these once. */
__attribute__((weak)) __thread uint3 threadIdx;
__attribute__((weak)) __thread uint3 blockIdx;
__attribute__((weak)) __thread dim3 blockDim;
__attribute__((weak)) __thread dim3 gridDim;
static const int warpSize = 32;

namespace penny_cuda {

/* The number of the calling thread in its block. */
inline unsigned int thread_number() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/* Keeps a launch's configuration until the kernel is called. */
inline unsigned int configure(dim3 grid, dim3 block, size_t shared = 0, struct CUstream_st *stream = 0) {
    return __cudaPushCallConfiguration(grid, block, shared, stream);
}

template <class T> struct Plain {
    typedef T type;
};
template <class T> struct Plain<T *__restrict__> {
    typedef T *type;
};
template <class T> struct Plain<T *const __restrict__> {
    typedef T *type;
};
/* The type of a parameter, without the qualifiers that do not belong to a function's type. */
template <class T> using plain = typename Plain<T>::type;

template <int... numbers> struct Numbers {};
template <int count, int... numbers> struct Count : Count<count - 1, count - 1, numbers...> {};
template <int... numbers> struct Count<0, numbers...> {
    typedef Numbers<numbers...> type;
};

template <class... T> struct AreValues : std::true_type {};
template <class T, class... Rest> struct AreValues<T, Rest...> : AreValues<Rest...> {};
template <class T, class... Rest> struct AreValues<T &, Rest...> : std::false_type {};
template <class T, class... Rest> struct AreValues<T &&, Rest...> : std::false_type {};

template <class Function, Function function, class Body> struct Kernel;

/* A kernel whose body is a lambda without captures. */
template <class... P, void (*function)(P...), class Body> struct Kernel<void (*)(P...), function, Body> {
    static_assert(AreValues<P...>::value, "parameters of kernels are values, not references");
    typedef std::tuple<P...> Arguments;
    typedef typename Count<sizeof...(P)>::type All;

    static void launch(const P &...values) {
        (void)registered;
        pennyCudaLaunch(&description, new Arguments(values...));
    }

    static const char *name() { return __PRETTY_FUNCTION__; }

    /* The body has no state, so any place is one of it. */
    static const Body &body() {
        static const char place = 0;
        return reinterpret_cast<const Body &>(place);
    }

    template <int... numbers> static void call(const Arguments &arguments, Numbers<numbers...>) {
        (void)arguments;
        body()(std::get<numbers>(arguments)...);
    }

    template <int... numbers> static void *copy(void **places, Numbers<numbers...>) {
        (void)places;
        return new Arguments(*static_cast<P *>(places[numbers])...);
    }

    static void *copy(void **places) { return copy(places, All()); }
    template <int... numbers> static void tell(Arguments &arguments, void **places, Numbers<numbers...>) {
        (void)arguments;
        void *all[] = {const_cast<void *>(static_cast<const volatile void *>(&std::get<numbers>(arguments)))..., 0};
        for (unsigned int i = 0; i < sizeof...(P); i++) places[i] = all[i];
    }

    static void places(void *arguments, void **at) { tell(*static_cast<Arguments *>(arguments), at, All()); }
    static void drop(void *arguments) { delete static_cast<Arguments *>(arguments); }

    static void run(const void *arguments, pennyCudaBlock *block) {
        const Arguments &values = *static_cast<const Arguments *>(arguments);
        gridDim = dim3(block->grid[0], block->grid[1], block->grid[2]);
        blockDim = dim3(block->block[0], block->block[1], block->block[2]);
        blockIdx.x = block->index[0], blockIdx.y = block->index[1], blockIdx.z = block->index[2];
        while (block->next < block->threads) {
            unsigned int thread = block->next++;
            threadIdx.x = thread % block->block[0];
            threadIdx.y = thread / block->block[0] % block->block[1];
            threadIdx.z = thread / block->block[0] / block->block[1];
            call(values, All());
            block->ended[thread / 32] |= 1u << thread % 32;
            block->over++;
        }
    }

    static const pennyCudaKernel description;
    static const int registered;
};
template <class... P, void (*function)(P...), class Body>
const pennyCudaKernel Kernel<void (*)(P...), function, Body>::description = {
    sizeof(pennyCudaKernel), name(), reinterpret_cast<void (*)()>(function), run, copy, drop, places,
    sizeof...(P)};
template <class... P, void (*function)(P...), class Body>
const int Kernel<void (*)(P...), function, Body>::registered = pennyCudaRegisterKernel(&description);

/* The block's memory of a variable, which is known by the address of `key`. */
template <class T> inline T &shared(const char &key) {
    return *static_cast<T *>(pennyCudaShared(&key, sizeof(T), alignof(T)));
}
template <class T> inline T &dynamic_shared() { return *static_cast<T *>(pennyCudaDynamicShared()); }

} // namespace penny_cuda

inline int penny_barrier(int value) {
    const uint3 mine = threadIdx;
    const unsigned int count = pennyCudaBarrier(penny_cuda::thread_number(), value);
    threadIdx = mine;
    return static_cast<int>(count);
}
inline void __syncthreads() { penny_barrier(0); }
inline int __syncthreads_count(int predicate) { return penny_barrier(predicate != 0); }
inline int __syncthreads_and(int predicate) { return penny_barrier(predicate == 0) == 0; }
inline int __syncthreads_or(int predicate) { return penny_barrier(predicate != 0) != 0; }
inline void __nanosleep(unsigned int) {
    const uint3 mine = threadIdx;
    pennyCudaYield(penny_cuda::thread_number());
    threadIdx = mine;
}
#endif

#endif
