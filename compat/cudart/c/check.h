/* What the test programs of this folder share: cases, checks, and a gate that holds a stream. */
#ifndef CUDART_CHECK_H
#define CUDART_CHECK_H

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WHO "%s", ""
#include "cases.h"

/* The call succeeds. */
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        cudaError_t result_ = (call);                                                                                  \
        if (result_ != cudaSuccess) FAIL("%s: %s", cudaGetErrorName(result_), pennyCudaGetLastMessage());              \
    } while (0)

/* The call fails in this way, and is the thread's last error, which this takes. */
#define FAILS(expected, call)                                                                                          \
    do {                                                                                                               \
        cudaError_t result_ = (call);                                                                                  \
        if (result_ != (expected)) {                                                                                   \
            FAIL("%s is %s, not %s: %s", #call, cudaGetErrorName(result_), #expected, pennyCudaGetLastMessage());      \
        }                                                                                                              \
        CHECK_INT(cudaGetLastError(), expected);                                                                       \
        CHECK(strncmp(pennyCudaGetLastMessage(), "cuda", 4) == 0);                                                     \
    } while (0)

/* A case leaves no error. */
#define RUN(name) RUN_THEN(name, CHECK_INT(cudaGetLastError(), cudaSuccess))

static inline void nap(int milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

/* A stream that calls `hold` with a gate stands until the gate is opened. */
typedef struct {
    int is_open;
} gate;

static inline void hold(void *at) {
    while (!__atomic_load_n(&((gate *)at)->is_open, __ATOMIC_ACQUIRE)) nap(1);
}

static inline void open_gate(gate *at) { __atomic_store_n(&at->is_open, 1, __ATOMIC_RELEASE); }

static inline void *open_gate_later(void *at) {
    nap(20);
    open_gate((gate *)at);
    return NULL;
}

/* Are all bytes equal to this one? */
static inline int all_are(const void *at, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (((const unsigned char *)at)[i] != (unsigned char)value) return 0;
    }
    return 1;
}

#endif
