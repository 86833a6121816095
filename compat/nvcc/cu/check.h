/* What the programs of this folder share: they end at the first thing that is not so. */
#ifndef CHECK_H
#define CHECK_H

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, pennyCudaGetLastMessage()); \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess)

/* Device memory with values. */
template <class T> T *device(int count, T (*value)(int) = nullptr) {
    T *at = nullptr;
    CUDA(cudaMalloc(&at, count * sizeof(T)));
    for (int i = 0; i < count; i++) at[i] = value ? value(i) : T();
    return at;
}

#endif
