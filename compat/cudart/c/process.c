/* A forked child: it has memory of its own, and none of its parent's streams. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static void a_child_begins_without_streams(void) {
    cudaStream_t stream, mine;
    cudaEvent_t event;
    char *before, *after, copy[64];
    int status = -1;
    OK(cudaMalloc((void **)&before, 64));
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    OK(cudaMemsetAsync(before, 3, 64, stream));
    OK(cudaMemset(before, 4, 64));
    OK(cudaDeviceSynchronize());
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        FAILS(cudaErrorInvalidResourceHandle, cudaStreamQuery(stream));
        FAILS(cudaErrorInvalidResourceHandle, cudaEventQuery(event));
        OK(cudaMalloc((void **)&after, 64));
        OK(cudaStreamCreate(&mine));
        OK(cudaMemsetAsync(after, 7, 64, mine));
        OK(cudaMemcpy(copy, after, 64, cudaMemcpyDefault));
        CHECK(all_are(copy, 7, 64) && all_are(before, 4, 64));
        OK(cudaDeviceSynchronize());
        OK(cudaStreamDestroy(mine));
        OK(cudaFree(after));
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
    OK(cudaMemsetAsync(before, 5, 64, stream));
    OK(cudaMemcpy(copy, before, 64, cudaMemcpyDefault));
    CHECK(all_are(copy, 5, 64));
    OK(cudaStreamDestroy(stream));
    OK(cudaEventDestroy(event));
    OK(cudaFree(before));
}

int main(void) {
    RUN(a_child_begins_without_streams);
    return 0;
}
