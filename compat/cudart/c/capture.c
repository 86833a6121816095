/* Capture: what is recorded, how it is repeated, what spoils it. */
#include "check.h"

enum { N = 64 };
static int *x, *y, *z;
static cudaStream_t stream, other;

static void step(void *at) {
    for (int *number = at; number < (int *)at + N; number++) *number = *number * 3 + 1;
}

static void work(void) {
    OK(cudaLaunchHostFunc(stream, step, x));
    OK(cudaMemcpyAsync(y, x, N * sizeof *x, cudaMemcpyDeviceToDevice, stream));
    OK(cudaMemsetAsync(x, 1, sizeof *x, stream));
    OK(cudaLaunchHostFunc(stream, step, y));
    OK(cudaMemcpyAsync(x + N / 2, y, N / 2 * sizeof *x, cudaMemcpyDefault, stream));
}

static void three_launches_equal_three_runs(void) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    enum cudaStreamCaptureStatus status;
    int expected[2][N];
    for (int i = 0; i < N; i++) x[i] = i, y[i] = -i;
    for (int i = 0; i < 3; i++) work();
    OK(cudaStreamSynchronize(stream));
    memcpy(expected[0], x, sizeof expected[0]), memcpy(expected[1], y, sizeof expected[1]);

    for (int i = 0; i < N; i++) x[i] = i, y[i] = -i;
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK_INT(status, cudaStreamCaptureStatusNone);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    work();
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK_INT(status, cudaStreamCaptureStatusActive);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < N; i++) CHECK(x[i] == i && y[i] == -i);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; i++) OK(cudaGraphLaunch(exec, stream));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaStreamSynchronize(stream));
    CHECK(memcmp(expected[0], x, sizeof expected[0]) == 0 && memcmp(expected[1], y, sizeof expected[1]) == 0);
    FAILS(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream));
    FAILS(cudaErrorInvalidValue, cudaGraphDestroy(graph));
}

static void streams_take_part_by_events(void) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t fork, join;
    size_t nodes = 0;
    unsigned long long id = 0, same = 1;
    enum cudaStreamCaptureStatus status;
    OK(cudaEventCreate(&fork));
    OK(cudaEventCreate(&join));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemsetAsync(x, 2, N, stream));
    OK(cudaEventRecord(fork, stream));
    OK(cudaStreamWaitEvent(other, fork, 0));
    OK(cudaMemcpyAsync(y, x, N, cudaMemcpyDefault, other));
    OK(cudaStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL));
    OK(cudaStreamGetCaptureInfo(other, &status, &same, NULL, NULL, NULL));
    CHECK(id == same && status == cudaStreamCaptureStatusActive);
    OK(cudaEventRecord(join, other));
    OK(cudaStreamWaitEvent(stream, join, 0));
    OK(cudaMemcpyAsync(z, y, N, cudaMemcpyDefault, stream));
    FAILS(cudaErrorCapturedEvent, cudaEventQuery(join));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaStreamIsCapturing(other, &status));
    CHECK_INT(status, cudaStreamCaptureStatusNone);
    OK(cudaGraphGetNodes(graph, NULL, &nodes));
    CHECK_INT(nodes, 3);
    cudaGraphNode_t node[3];
    enum cudaGraphNodeType type;
    OK(cudaGraphGetNodes(graph, node, &nodes));
    OK(cudaGraphNodeGetType(node[0], &type));
    CHECK_INT(type, cudaGraphNodeTypeMemset);
    OK(cudaGraphNodeGetType(node[2], &type));
    CHECK_INT(type, cudaGraphNodeTypeMemcpy);
    memset(x, 0, N), memset(y, 0, N), memset(z, 0, N);
    OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, NULL));
    OK(cudaStreamSynchronize(NULL));
    CHECK(all_are(z, 2, N));
    FAILS(cudaErrorCapturedEvent, cudaStreamWaitEvent(stream, join, 0));
    OK(cudaEventRecord(join, stream));
    OK(cudaEventSynchronize(join));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join));
}

static void *end_elsewhere(void *at) {
    FAILS(cudaErrorStreamCaptureWrongThread, cudaStreamEndCapture(stream, (cudaGraph_t *)at));
    return NULL;
}

static void faults_of_a_capture_are_told(void) {
    cudaGraph_t graph = (cudaGraph_t)x;
    cudaEvent_t event;
    cudaStream_t blocking, third;
    pthread_t thread;
    enum cudaStreamCaptureStatus status;
    OK(cudaEventCreate(&event));
    OK(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
    FAILS(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
    CHECK(graph == NULL);
    FAILS(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal));
    FAILS(cudaErrorInvalidValue, cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)3));

    check_case = "a stream that is not joined";
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    FAILS(cudaErrorIllegalState, cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(other, event, 0));
    FAILS(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(stream, &graph));
    CHECK(graph == NULL);

    check_case = "a stream that goes on after it was joined";
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(other, event, 0));
    OK(cudaStreamWaitEvent(third, event, 0));
    OK(cudaEventRecord(event, other));
    OK(cudaStreamWaitEvent(stream, event, 0));
    OK(cudaEventRecord(event, third));
    OK(cudaStreamWaitEvent(other, event, 0));
    FAILS(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(stream, &graph));
    OK(cudaStreamDestroy(third));

    check_case = "the end on another stream";
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(other, event, 0));
    FAILS(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(other, &graph));
    FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));

    check_case = "a wait for the captured stream";
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    FAILS(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK_INT(status, cudaStreamCaptureStatusInvalidated);
    FAILS(cudaErrorStreamCaptureInvalidated, cudaMemsetAsync(x, 0, 1, stream));
    FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    OK(cudaStreamSynchronize(stream));

    check_case = "an event from outside";
    OK(cudaEventRecord(event, other));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    FAILS(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(stream, event, 0));
    FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));

    check_case = "two captures";
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed));
    OK(cudaEventRecord(event, other));
    FAILS(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(stream, event, 0));
    FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(other, &graph));

    check_case = "the default stream";
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
    FAILS(cudaErrorStreamCaptureImplicit, cudaStreamIsCapturing(NULL, &status));
    FAILS(cudaErrorStreamCaptureImplicit, cudaMemcpy(x, y, 1, cudaMemcpyDefault));
    FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(blocking, &graph));
    OK(cudaMemcpy(x, y, 1, cudaMemcpyDefault));

    check_case = "a stream that is destroyed";
    OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
    OK(cudaStreamDestroy(blocking));
    OK(cudaMemcpy(x, y, 1, cudaMemcpyDefault));

    check_case = "the end in another thread";
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(pthread_create(&thread, NULL, end_elsewhere, &graph) == 0 && pthread_join(thread, NULL) == 0);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventDestroy(event));
}

static int replayed, dropped, refuses;
static void *seen;

static const char *replay(void *at, void *penny) {
    CHECK(at == &replayed);
    seen = penny;
    replayed++;
    return refuses ? "the other library refuses its call" : NULL;
}

static void drop(void *at) {
    CHECK(at == &replayed);
    dropped++;
}

static void calls_of_other_libraries_are_recorded(void) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    void *penny = NULL;
    CHECK_INT(pennyCudaCapture(stream, replay, &replayed, drop), 0);
    CHECK_INT(pennyCudaCapture(x, replay, &replayed, drop), 0);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK_INT(pennyCudaCapture(stream, replay, &replayed, drop), 1);
    OK(cudaStreamEndCapture(stream, &graph));
    CHECK_INT(replayed, 0);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) OK(cudaGraphLaunch(exec, other));
    CHECK_INT(replayed, 3);
    CHECK_INT(pennyCudaStream(other, &penny), 0);
    CHECK(penny == seen);
    OK(cudaGraphDestroy(graph));
    CHECK_INT(dropped, 0);
    OK(cudaGraphExecDestroy(exec));
    CHECK_INT(dropped, 1);
}

static void a_call_that_another_library_refuses_ends_the_launch(void) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(x, 1, sizeof *x, stream));
    CHECK_INT(pennyCudaCapture(stream, replay, &replayed, NULL), 1);
    OK(cudaMemsetAsync(y, 1, sizeof *y, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    memset(x, 0, sizeof *x);
    memset(y, 0, sizeof *y);
    refuses = 1;
    FAILS(cudaErrorUnknown, cudaGraphLaunch(exec, stream));
    CHECK(strstr(pennyCudaGetLastMessage(), "cudaGraphLaunch: ") == pennyCudaGetLastMessage());
    CHECK(strstr(pennyCudaGetLastMessage(), "the other library refuses its call") != NULL);
    OK(cudaStreamSynchronize(stream));
    CHECK(all_are(x, 1, sizeof *x) && all_are(y, 0, sizeof *y));
    refuses = 0;
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(all_are(y, 1, sizeof *y));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void streams_of_one_capture_have_its_number(void) {
    cudaGraph_t graph;
    cudaEvent_t event;
    cudaStream_t third;
    OK(cudaEventCreate(&event));
    OK(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
    CHECK(pennyCudaCaptureId(stream) == 0 && pennyCudaCaptureId(x) == 0);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaStreamBeginCapture(third, cudaStreamCaptureModeGlobal));
    unsigned long long id = pennyCudaCaptureId(stream);
    CHECK(id != 0 && pennyCudaCaptureId(other) == 0);
    CHECK(pennyCudaCaptureId(third) != 0 && pennyCudaCaptureId(third) != id && pennyCudaCaptureId(x) == 0);
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(other, event, 0));
    CHECK(pennyCudaCaptureId(other) == id);
    OK(cudaEventRecord(event, other));
    OK(cudaStreamWaitEvent(stream, event, 0));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamEndCapture(third, &graph));
    OK(cudaGraphDestroy(graph));
    CHECK(pennyCudaCaptureId(stream) == 0 && pennyCudaCaptureId(other) == 0);
    OK(cudaStreamDestroy(third));
    OK(cudaEventDestroy(event));
}

static void graphs_are_built_and_changed(void) {
    cudaGraph_t graph, clone, two;
    cudaGraphExec_t exec;
    cudaGraphNode_t first, second;
    struct cudaHostNodeParams params = {step, x};
    cudaGraphExecUpdateResultInfo info;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddHostNode(&first, graph, NULL, 0, &params));
    OK(cudaGraphAddMemcpyNode1D(&second, graph, &first, 1, y, x, sizeof *x, cudaMemcpyDefault));
    FAILS(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&second, graph, (cudaGraphNode_t *)&graph, 1));
    OK(cudaGraphClone(&clone, graph));
    OK(cudaGraphInstantiate(&exec, clone, 0));
    x[0] = 5;
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK_INT(y[0], 16);

    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaLaunchHostFunc(stream, step, y));
    OK(cudaStreamEndCapture(stream, &two));
    FAILS(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, two, &info));
    CHECK_INT(info.result, cudaGraphExecUpdateErrorTopologyChanged);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphInstantiate(&exec, two, 0));
    OK(cudaGraphExecUpdate(exec, two, &info));
    x[0] = 1;
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK_INT(y[0], 13);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphDestroy(two));
}

static void sets_are_added(void) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    enum cudaGraphNodeType type;
    unsigned char *rows;
    OK(cudaMalloc((void **)&rows, 64));
    OK(cudaMemset(rows, 1, 64));
    OK(cudaDeviceSynchronize());
    struct cudaMemsetParams set = {rows + 4, 16, 0x0505, 2, 3, 4}, wrong = set;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemsetNode(&node, graph, NULL, 0, &set));
    OK(cudaGraphNodeGetType(node, &type));
    CHECK_INT(type, cudaGraphNodeTypeMemset);
    FAILS(cudaErrorInvalidValue, cudaGraphAddMemsetNode(&node, graph, NULL, 0, NULL));
    wrong.elementSize = 3;
    FAILS(cudaErrorInvalidValue, cudaGraphAddMemsetNode(&node, graph, NULL, 0, &wrong));
    wrong = set, wrong.height = 5;
    FAILS(cudaErrorInvalidValue, cudaGraphAddMemsetNode(&node, graph, NULL, 0, &wrong));
    wrong = set, wrong.width = (size_t)1 << 63;
    FAILS(cudaErrorInvalidValue, cudaGraphAddMemsetNode(&node, graph, NULL, 0, &wrong));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(all_are(rows, 1, 64));
    OK(cudaGraphLaunch(exec, NULL));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 64; i++) CHECK_INT(rows[i], i % 16 >= 4 && i % 16 < 10 ? 5 : 1);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(rows));
}

int main(void) {
    RUN(sets_are_added);
    OK(cudaMalloc((void **)&x, N * sizeof *x));
    OK(cudaMalloc((void **)&y, N * sizeof *y));
    OK(cudaMalloc((void **)&z, N * sizeof *z));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    RUN(three_launches_equal_three_runs);
    RUN(streams_take_part_by_events);
    RUN(faults_of_a_capture_are_told);
    RUN(calls_of_other_libraries_are_recorded);
    RUN(a_call_that_another_library_refuses_ends_the_launch);
    RUN(streams_of_one_capture_have_its_number);
    RUN(graphs_are_built_and_changed);
    return 0;
}
