/* Streams: order on one, order with the default streams, functions of the program, handles. */
#include "check.h"

enum { BYTES = 1 << 20 };
static unsigned char *x, *y, *z;

static void operations_keep_their_order(void) {
    cudaStream_t stream;
    gate here = {0};
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    memset(x, 1, BYTES), memset(y, 2, BYTES), memset(z, 3, BYTES);
    OK(cudaLaunchHostFunc(stream, hold, &here));
    OK(cudaMemcpyAsync(y, x, BYTES, cudaMemcpyDeviceToDevice, stream));
    OK(cudaMemcpyAsync(z, y, 64, cudaMemcpyDeviceToHost, stream));
    OK(cudaMemsetAsync(y, 9, 32, stream));
    FAILS(cudaErrorNotReady, cudaStreamQuery(stream));
    CHECK(all_are(y, 2, BYTES) && all_are(z, 3, BYTES));
    open_gate(&here);
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamQuery(stream));
    CHECK(all_are(z, 1, 64) && all_are(z + 64, 3, BYTES - 64));
    CHECK(all_are(y, 9, 32) && all_are(y + 32, 1, BYTES - 32));
    OK(cudaStreamDestroy(stream));
}

static void count_up(void *at) { ++*(int *)at; }

static void many_small_operations_keep_their_order(void) {
    cudaStream_t stream;
    int steps = 0;
    OK(cudaStreamCreate(&stream));
    for (int i = 0; i < 300; i++) {
        OK(cudaMemsetAsync(x, i, 64, stream));
        OK(cudaMemcpyAsync(y + i, x, 1, cudaMemcpyDefault, stream));
        if (i % 3 == 0) OK(cudaLaunchHostFunc(stream, count_up, &steps));
    }
    OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 300; i++) CHECK_INT(y[i], i % 256);
    CHECK_INT(steps, 100);
    OK(cudaStreamDestroy(stream));
}

static void the_default_stream_and_blocking_streams_follow_each_other(void) {
    cudaStream_t before, after, apart;
    gate here = {0};
    OK(cudaStreamCreate(&before));
    OK(cudaStreamCreate(&after));
    OK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    memset(x, 0, BYTES), memset(y, 0, BYTES);
    OK(cudaLaunchHostFunc(before, hold, &here));
    OK(cudaMemsetAsync(x, 1, 64, before));
    OK(cudaMemset(x, 2, 64));
    OK(cudaMemcpyAsync(y, x, 64, cudaMemcpyDefault, after));
    OK(cudaMemsetAsync(z, 7, 64, apart));
    OK(cudaStreamSynchronize(apart));
    CHECK(all_are(z, 7, 64) && all_are(x, 0, 64) && all_are(y, 0, 64));
    FAILS(cudaErrorNotReady, cudaStreamQuery(NULL));
    FAILS(cudaErrorNotReady, cudaStreamQuery(after));
    open_gate(&here);
    OK(cudaStreamSynchronize(after));
    CHECK(all_are(x, 2, 64) && all_are(y, 2, 64));
    OK(cudaStreamDestroy(before));
    OK(cudaStreamDestroy(after));
    OK(cudaStreamDestroy(apart));
}

static void a_plain_copy_waits_for_blocking_streams(void) {
    cudaStream_t stream;
    gate here = {0};
    pthread_t opener;
    OK(cudaStreamCreate(&stream));
    memset(x, 0, 64), memset(y, 0, 64);
    OK(cudaLaunchHostFunc(stream, hold, &here));
    OK(cudaMemsetAsync(x, 5, 64, stream));
    CHECK(pthread_create(&opener, NULL, open_gate_later, &here) == 0);
    OK(cudaMemcpy(y, x, 64, cudaMemcpyDeviceToHost));
    CHECK(all_are(y, 5, 64));
    CHECK(pthread_join(opener, NULL) == 0);
    OK(cudaStreamDestroy(stream));
}

static void streams_of_other_devices_do_not_follow_the_default_stream(void) {
    gate here = {0};
    cudaStream_t stream;
    OK(cudaLaunchHostFunc(cudaStreamLegacy, hold, &here));
    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&stream));
    OK(cudaMemsetAsync(x, 4, 64, stream));
    OK(cudaMemcpy(y, x, 64, cudaMemcpyDefault));
    OK(cudaDeviceSynchronize());
    CHECK(all_are(y, 4, 64));
    OK(cudaStreamDestroy(stream));
    OK(cudaSetDevice(0));
    FAILS(cudaErrorNotReady, cudaStreamQuery(cudaStreamLegacy));
    open_gate(&here);
    OK(cudaDeviceSynchronize());
}

static void *on_the_threads_own_stream(void *at) {
    OK(cudaLaunchHostFunc(cudaStreamPerThread, hold, at));
    OK(cudaMemsetAsync(x, 6, 64, cudaStreamPerThread));
    FAILS(cudaErrorNotReady, cudaStreamQuery(cudaStreamPerThread));
    return NULL;
}

static void each_thread_has_a_default_stream(void) {
    gate here = {0};
    pthread_t other;
    memset(x, 0, 64);
    CHECK(pthread_create(&other, NULL, on_the_threads_own_stream, &here) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    void *taken = NULL, *mine = NULL;
    CHECK_INT(pennyCudaStream(cudaStreamPerThread, &mine), 0);
    OK(cudaMemsetAsync(y, 1, 64, NULL));
    CHECK(all_are(x, 0, 64));
    open_gate(&here);
    OK(cudaStreamSynchronize(NULL));
    CHECK(all_are(x, 6, 64) && all_are(y, 1, 64));
    CHECK_INT(pennyCudaStream(cudaStreamPerThread, &taken), 0);
    CHECK(taken == mine);
}

static void *ask_for_the_threads_own_stream(void *at) {
    CHECK_INT(pennyCudaStream(cudaStreamPerThread, (void **)at), 0);
    return NULL;
}

static void the_stream_of_a_thread_that_ended_serves_the_next(void) {
    void *penny[2] = {NULL, NULL};
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&thread, NULL, ask_for_the_threads_own_stream, &penny[i]) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK(penny[0] != NULL && penny[0] == penny[1]);
}

static void told(cudaStream_t stream, cudaError_t status, void *at) {
    CHECK_INT(status, cudaSuccess);
    *(cudaStream_t *)at = stream;
}

static void callbacks_are_told_their_stream(void) {
    cudaStream_t stream, seen = NULL;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamAddCallback(stream, told, &seen, 0));
    OK(cudaStreamSynchronize(stream));
    CHECK(seen == stream);
    FAILS(cudaErrorInvalidValue, cudaStreamAddCallback(stream, NULL, NULL, 0));
    FAILS(cudaErrorInvalidValue, cudaLaunchHostFunc(stream, NULL, NULL));
    OK(cudaStreamDestroy(stream));
}

static void waits(void *at) {
    cudaError_t *results = (cudaError_t *)at;
    results[0] = cudaDeviceSynchronize();
    results[1] = cudaMemcpy(x, y, 1, cudaMemcpyDefault);
    results[2] = cudaFree(x);
}

static void a_function_that_waits_is_refused(void) {
    cudaError_t results[3] = {cudaSuccess, cudaSuccess, cudaSuccess};
    OK(cudaLaunchHostFunc(NULL, waits, results));
    OK(cudaStreamSynchronize(NULL));
    for (int i = 0; i < 3; i++) CHECK_INT(results[i], cudaErrorNotPermitted);
}

static void a_busy_stream_is_destroyed_at_once(void) {
    cudaStream_t stream;
    gate here = {0};
    OK(cudaStreamCreate(&stream));
    memset(x, 0, 64);
    OK(cudaLaunchHostFunc(stream, hold, &here));
    OK(cudaMemsetAsync(x, 8, 64, stream));
    OK(cudaStreamDestroy(stream));
    FAILS(cudaErrorInvalidResourceHandle, cudaStreamQuery(stream));
    CHECK(all_are(x, 0, 64));
    open_gate(&here);
    OK(cudaDeviceSynchronize());
    CHECK(all_are(x, 8, 64));
}

static void what_a_stream_was_made_with_is_told(void) {
    cudaStream_t stream;
    int least, greatest, priority;
    unsigned flags;
    unsigned long long id, other;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest < least);
    OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest - 7));
    OK(cudaStreamGetPriority(stream, &priority));
    CHECK_INT(priority, greatest);
    OK(cudaStreamGetFlags(stream, &flags));
    CHECK_INT(flags, cudaStreamNonBlocking);
    OK(cudaStreamGetId(stream, &id));
    OK(cudaStreamGetId(NULL, &other));
    CHECK(id != other);
    OK(cudaStreamDestroy(stream));
    FAILS(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 16));
}

static void handles_that_are_none_are_refused(void) {
    cudaStream_t stream;
    cudaEvent_t event;
    void *penny = x;
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    cudaStream_t wrong[] = {(cudaStream_t)x, (cudaStream_t)event, (cudaStream_t)3, (cudaStream_t)-1, stream};
    OK(cudaStreamDestroy(stream));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FAILS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(wrong[i]));
        FAILS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(wrong[i]));
        FAILS(cudaErrorInvalidResourceHandle, cudaMemcpyAsync(x, y, 4, cudaMemcpyDefault, wrong[i]));
        FAILS(cudaErrorInvalidResourceHandle, cudaEventRecord(event, wrong[i]));
        CHECK(pennyCudaStream(wrong[i], &penny) != 0 && penny == x);
        CHECK_INT(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    }
    FAILS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(NULL));
    FAILS(cudaErrorInvalidValue, cudaStreamCreate(NULL));
    OK(cudaEventDestroy(event));
}

int main(void) {
    OK(cudaMalloc((void **)&x, BYTES));
    OK(cudaMalloc((void **)&y, BYTES));
    OK(cudaMallocHost((void **)&z, BYTES));
    RUN(operations_keep_their_order);
    RUN(many_small_operations_keep_their_order);
    RUN(the_default_stream_and_blocking_streams_follow_each_other);
    RUN(a_plain_copy_waits_for_blocking_streams);
    RUN(streams_of_other_devices_do_not_follow_the_default_stream);
    RUN(each_thread_has_a_default_stream);
    RUN(the_stream_of_a_thread_that_ended_serves_the_next);
    RUN(callbacks_are_told_their_stream);
    RUN(a_function_that_waits_is_refused);
    RUN(a_busy_stream_is_destroyed_at_once);
    RUN(what_a_stream_was_made_with_is_told);
    RUN(handles_that_are_none_are_refused);
    return 0;
}
