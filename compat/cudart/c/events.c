/* Events: points in a stream's work that other streams and threads wait for. */
#include "check.h"

static unsigned char *x, *y;

static void a_stream_waits_for_an_event_of_another(void) {
    cudaStream_t first, second;
    cudaEvent_t event;
    gate here = {0};
    memset(x, 0, 64), memset(y, 0, 64);
    OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaLaunchHostFunc(first, hold, &here));
    OK(cudaMemsetAsync(x, 1, 64, first));
    OK(cudaEventRecord(event, first));
    OK(cudaStreamWaitEvent(second, event, 0));
    OK(cudaMemcpyAsync(y, x, 64, cudaMemcpyDefault, second));
    FAILS(cudaErrorNotReady, cudaEventQuery(event));
    FAILS(cudaErrorNotReady, cudaStreamQuery(second));
    CHECK(all_are(y, 0, 64));
    open_gate(&here);
    OK(cudaStreamSynchronize(second));
    CHECK(all_are(y, 1, 64));
    OK(cudaEventQuery(event));
    OK(cudaEventSynchronize(event));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
}

static void an_event_is_complete_until_it_is_recorded(void) {
    cudaEvent_t event;
    OK(cudaEventCreate(&event));
    OK(cudaEventQuery(event));
    OK(cudaEventSynchronize(event));
    OK(cudaStreamWaitEvent(NULL, event, 0));
    OK(cudaEventDestroy(event));
}

static void an_event_of_the_default_stream_waits_for_blocking_streams(void) {
    cudaStream_t stream;
    cudaEvent_t event;
    gate here = {0};
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    OK(cudaLaunchHostFunc(stream, hold, &here));
    OK(cudaEventRecord(event, NULL));
    FAILS(cudaErrorNotReady, cudaEventQuery(event));
    open_gate(&here);
    OK(cudaEventSynchronize(event));
    OK(cudaStreamQuery(stream));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(stream));
}

static void ten_milliseconds(void *at) {
    (void)at;
    nap(10);
}

static void the_time_between_events_is_told(void) {
    cudaEvent_t start, end, timeless, never;
    float ms = -1;
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    OK(cudaEventCreate(&never));
    OK(cudaEventCreateWithFlags(&timeless, cudaEventDisableTiming));
    OK(cudaEventRecord(start, NULL));
    OK(cudaLaunchHostFunc(NULL, ten_milliseconds, NULL));
    OK(cudaEventRecord(end, NULL));
    OK(cudaEventRecord(timeless, NULL));
    FAILS(cudaErrorNotReady, cudaEventElapsedTime(&ms, start, end));
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&ms, start, end));
    CHECK(ms >= 10 && ms < 60000);
    OK(cudaEventSynchronize(timeless));
    FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, timeless));
    FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, never));
    FAILS(cudaErrorInvalidValue, cudaEventElapsedTime(NULL, start, end));
    cudaEvent_t all[] = {start, end, timeless, never};
    for (int i = 0; i < 4; i++) OK(cudaEventDestroy(all[i]));
}

static void events_that_are_none_are_refused(void) {
    cudaEvent_t event;
    cudaStream_t stream;
    OK(cudaEventCreate(&event));
    OK(cudaStreamCreate(&stream));
    OK(cudaEventDestroy(event));
    cudaEvent_t wrong[] = {NULL, (cudaEvent_t)x, (cudaEvent_t)stream, event};
    for (int i = 0; i < 4; i++) {
        FAILS(cudaErrorInvalidResourceHandle, cudaEventQuery(wrong[i]));
        FAILS(cudaErrorInvalidResourceHandle, cudaEventRecord(wrong[i], stream));
        FAILS(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(stream, wrong[i], 0));
        FAILS(cudaErrorInvalidResourceHandle, cudaEventDestroy(wrong[i]));
    }
    FAILS(cudaErrorInvalidValue, cudaEventCreateWithFlags(&event, 64));
    OK(cudaSetDevice(1));
    OK(cudaEventCreate(&event));
    FAILS(cudaErrorInvalidResourceHandle, cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(stream, event, 0));
    OK(cudaEventDestroy(event));
    OK(cudaSetDevice(0));
    OK(cudaStreamDestroy(stream));
}

int main(void) {
    OK(cudaMalloc((void **)&x, 64));
    OK(cudaMalloc((void **)&y, 64));
    RUN(a_stream_waits_for_an_event_of_another);
    RUN(an_event_is_complete_until_it_is_recorded);
    RUN(an_event_of_the_default_stream_waits_for_blocking_streams);
    RUN(the_time_between_events_is_told);
    RUN(events_that_are_none_are_refused);
    return 0;
}
