/* Threads that make, use and destroy streams of two devices at once: no call fails, and none waits for ever. */
#include "check.h"

enum { THREADS = 6, STREAMS = 4, STEPS = 20000, BYTES = 4096 };

static void nothing(void *at) { (void)at; }

static void step(unsigned draw, cudaStream_t *own, cudaEvent_t event, unsigned char *memory) {
    int kind = (int)(draw >> 16) % 12, which = (int)(draw >> 8) % STREAMS;
    cudaStream_t stream = draw % 8 == 0 ? NULL : draw % 8 == 1 ? cudaStreamPerThread : own[which];
    void *more;
    switch (kind) {
    case 0: OK(cudaMemsetAsync(memory, which, BYTES, stream)); break;
    case 1: OK(cudaLaunchHostFunc(stream, nothing, NULL)); break;
    case 2: OK(cudaMemcpyAsync(memory + BYTES, memory, BYTES, cudaMemcpyDefault, stream)); break;
    case 3: OK(cudaEventRecord(event, stream)); break;
    case 4: OK(cudaStreamWaitEvent(stream, event, 0)); break;
    case 5: OK(cudaStreamSynchronize(stream)); break;
    case 6:
        OK(cudaStreamDestroy(own[which]));
        OK(cudaStreamCreateWithFlags(&own[which], (unsigned)which % 2));
        break;
    case 7: OK(cudaMemcpy(memory, memory + BYTES, 64, cudaMemcpyDefault)); break;
    case 8:
        OK(cudaMalloc(&more, 1000));
        OK(cudaFree(more));
        break;
    case 9:
        OK(cudaMallocAsync(&more, 1000, stream));
        OK(cudaFreeAsync(more, stream));
        break;
    case 10: {
        cudaError_t told = cudaStreamQuery(stream);
        CHECK(told == cudaSuccess || told == cudaErrorNotReady);
        CHECK_INT(cudaGetLastError(), told);
        break;
    }
    default: OK(cudaDeviceSynchronize());
    }
}

static void *work(void *at) {
    unsigned draw = *(unsigned *)at;
    cudaStream_t own[STREAMS];
    cudaEvent_t event;
    unsigned char *memory;
    OK(cudaSetDevice((int)draw % 2));
    OK(cudaMalloc((void **)&memory, 2 * BYTES));
    OK(cudaEventCreate(&event));
    for (int i = 0; i < STREAMS; i++) OK(cudaStreamCreateWithFlags(&own[i], (unsigned)i % 2));
    for (int i = 0; i < STEPS; i++) {
        draw = draw * 1103515245u + 12345u;
        step(draw, own, event, memory);
    }
    OK(cudaDeviceSynchronize());
    OK(cudaMemset(memory, 7, BYTES));
    OK(cudaDeviceSynchronize());
    CHECK(all_are(memory, 7, BYTES));
    for (int i = 0; i < STREAMS; i++) OK(cudaStreamDestroy(own[i]));
    OK(cudaEventDestroy(event));
    OK(cudaFree(memory));
    return NULL;
}

static void threads_use_streams_at_once(void) {
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = (unsigned)i;
        CHECK(pthread_create(&threads[i], NULL, work, &seeds[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
    RUN(threads_use_streams_at_once);
    return 0;
}
