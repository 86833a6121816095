/* A thread with the stack that small C libraries give their threads makes a communicator and calls of each kind. */
#include "check.h"

#define STACK (128 << 10)
#define MANY 300000

static void *calls(void *unused) {
    pennyComm_t comm, other;
    pennyStream_t stream;
    void *symmetric, *shared;
    float *in = calloc(MANY, sizeof *in), *out = calloc(MANY, sizeof *out);
    (void)unused;
    CHECK(in != NULL && out != NULL);
    OK(pennyCommInitRank(&comm, ranks, shared_id(), rank));
    OK(pennyAllReduce(in, out, MANY, pennyFloat, pennySum, comm, NULL));
    OK(pennyAllReduce(in, out, 3, pennyFloat8e4m3, pennySum, comm, NULL));
    OK(pennyAlltoAll(in, out, MANY / (size_t)ranks, pennyFloat, comm, NULL));
    OK(pennyCommSplit(comm, 0, -rank, &other, NULL));
    OK(pennyStreamCreate(&stream));
    OK(pennyBarrier(other, stream));
    OK(pennyStreamSynchronize(stream));
    OK(pennyStreamDestroy(stream));
    OK(pennyMemAlloc(&shared, 1 << 20));
    OK(pennyMemFree(shared));
    OK(pennyShmemInit(comm));
    OK(pennyShmemMalloc(&symmetric, 1000, comm));
    FAILS(pennyInvalidArgument, "op", pennyAllReduce(in, out, 3, pennyFloat, (pennyRedOp_t)99, comm, NULL));
    OK(pennyCommDestroy(other));
    OK(pennyCommDestroy(comm));
    free(in);
    free(out);
    return NULL;
}

static void a_thread_with_a_small_stack_makes_all_calls(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, STACK) == 0);
    CHECK(pthread_create(&thread, &attributes, calls, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_attr_destroy(&attributes) == 0);
}

int main(void) {
    begin();
    RUN(a_thread_with_a_small_stack_makes_all_calls);
    return 0;
}
