/* Calls of destructors: of objects of a thread, and of the program, which run when what the library keeps for its thread is gone. One
   process with Penny's CUDA runtime. */
#define _GNU_SOURCE
#include "check.h"
#include <cuda_runtime.h>

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != cudaSuccess) FAIL("%s: %s", #call, pennyCudaGetLastMessage());                                   \
    } while (0)

/* What C++ calls for an object of a thread. */
int __cxa_thread_atexit_impl(void (*end)(void *), void *object, void *program);
extern char __dso_handle;

typedef struct {
    const char *whose;
    ncclComm_t comms[2];
    float *x[2];
} resources;

static resources of_the_program = {"program", {NULL}, {NULL}}, of_a_thread = {"thread", {NULL}, {NULL}};

static void all_reduce(resources *all, float value) {
    for (int i = 0; i < 2; i++) all->x[i][0] = value;
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) OK(ncclAllReduce(all->x[i], all->x[i], 1, ncclFloat, ncclSum, all->comms[i], NULL));
    OK(ncclGroupEnd());
    for (int i = 0; i < 2; i++) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaDeviceSynchronize());
        CHECK(all->x[i][0] == 2 * value);
    }
}

static void make(resources *all) {
    OK(ncclCommInitAll(all->comms, 2, NULL));
    for (int i = 0; i < 2; i++) CUDA(cudaMalloc((void **)&all->x[i], sizeof(float)));
    all_reduce(all, 2);
}

static void end(void *at) {
    resources *all = (resources *)at;
    const char **keys;
    int length = 0, count = 0;
    ncclComm_t more[2];
    all_reduce(all, 3);
    FAILS(ncclInvalidArgument, "root 2", ncclBroadcast(all->x[0], all->x[0], 1, ncclFloat, 2, all->comms[0], NULL));
    FAILS(ncclInvalidUsage, "ncclGroupStart", ncclGroupEnd());
    OK(ncclParamGetAllParameterKeys(&keys, &length));
    CHECK(length > 0 && strncmp(keys[0], "NCCL_", 5) == 0);
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) OK(ncclCommSplit(all->comms[i], 0, i, &more[i], NULL));
    OK(ncclGroupEnd());
    OK(ncclCommCount(more[1], &count));
    CHECK_INT(count, 2);
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) OK(ncclCommDestroy(more[i]));
    for (int i = 0; i < 2; i++) OK(ncclCommDestroy(all->comms[i]));
    OK(ncclGroupEnd());
    for (int i = 0; i < 2; i++) CUDA(cudaFree(all->x[i]));
    puts(all->whose);
}

static void at_exit(void) { end(&of_the_program); }

static void *thread(void *unused) {
    (void)unused;
    CHECK(__cxa_thread_atexit_impl(end, &of_a_thread, &__dso_handle) == 0);
    make(&of_a_thread);
    return NULL;
}

int main(void) {
    pthread_t other;
    begin();
    CHECK(atexit(at_exit) == 0);
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0 && pthread_join(other, NULL) == 0);
    make(&of_the_program);
    return 0;
}
