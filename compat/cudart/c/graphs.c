/* Graphs that a program builds node by node: kinds of nodes, their parameters, the edges between them. */
#include "check.h"

static int *at;
static cudaStream_t stream, other;

static void twice(void *number) { *(int *)number *= 2; }
static void more(void *number) { *(int *)number += 3; }

static int launched(cudaGraphExec_t exec, int begin) {
    *at = begin;
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    return *at;
}

static void nodes_run_as_their_edges_say(void) {
    cudaGraph_t graph, clone;
    cudaGraphExec_t exec;
    cudaGraphNode_t a, b, none, told[2], ends[2];
    struct cudaHostNodeParams first = {twice, at}, second = {more, at}, read;
    size_t count = 0;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddHostNode(&a, graph, NULL, 0, &first));
    OK(cudaGraphAddHostNode(&b, graph, NULL, 0, &second));
    OK(cudaGraphGetRootNodes(graph, NULL, &count));
    CHECK_INT(count, 2);
    OK(cudaGraphAddDependencies(graph, &b, &a, 1));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_INT(launched(exec, 5), 16);
    OK(cudaGraphGetEdges(graph, NULL, NULL, &count));
    CHECK_INT(count, 1);
    count = 2;
    OK(cudaGraphGetEdges(graph, told, ends, &count));
    CHECK(count == 1 && told[0] == b && ends[0] == a && told[1] == NULL);
    OK(cudaGraphNodeGetDependencies(a, told, &count));
    CHECK(count == 1 && told[0] == b);
    count = 1;
    OK(cudaGraphNodeGetDependentNodes(b, told, &count));
    CHECK(count == 1 && told[0] == a);
    FAILS(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &b, &a, 1));
    FAILS(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &a, &a, 1));

    check_case = "a circle";
    OK(cudaGraphAddDependencies(graph, &a, &b, 1));
    FAILS(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphRemoveDependencies(graph, &b, &a, 1));
    FAILS(cudaErrorInvalidValue, cudaGraphRemoveDependencies(graph, &b, &a, 1));
    CHECK_INT(launched(exec, 5), 16);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_INT(launched(exec, 5), 13);

    check_case = "a clone";
    OK(cudaGraphClone(&clone, graph));
    OK(cudaGraphNodeFindInClone(&none, b, clone));
    CHECK(none != b);
    OK(cudaGraphHostNodeGetParams(none, &read));
    CHECK(read.fn == more && read.userData == at);
    FAILS(cudaErrorInvalidValue, cudaGraphNodeFindInClone(&none, b, graph));
    OK(cudaGraphDestroyNode(none));
    OK(cudaGraphGetNodes(clone, NULL, &count));
    CHECK_INT(count, 1);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphInstantiate(&exec, clone, 0));
    CHECK_INT(launched(exec, 5), 10);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphDestroy(graph));
    FAILS(cudaErrorInvalidValue, cudaGraphDestroyNode(b));
}

static void parameters_are_told_and_changed(void) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t host, set, copy;
    struct cudaHostNodeParams function = {twice, at}, read;
    struct cudaMemsetParams sets = {at + 1, 0, 0x01020304, 4, 3, 1}, told;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemsetNode(&set, graph, NULL, 0, &sets));
    OK(cudaGraphAddMemcpyNode1D(&copy, graph, &set, 1, at, at + 1, sizeof *at, cudaMemcpyDefault));
    OK(cudaGraphAddHostNode(&host, graph, &copy, 1, &function));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_INT(launched(exec, 0), 0x02040608);
    CHECK_INT(at[3], 0x01020304);
    OK(cudaGraphMemsetNodeGetParams(set, &told));
    CHECK(memcmp(&told, &sets, sizeof told) == 0);
    FAILS(cudaErrorInvalidValue, cudaGraphMemsetNodeGetParams(host, &told));
    FAILS(cudaErrorInvalidValue, cudaGraphHostNodeGetParams(set, &read));

    check_case = "of an executable graph";
    function.fn = more, sets.value = 7, sets.elementSize = 2, sets.width = 2;
    OK(cudaGraphExecHostNodeSetParams(exec, host, &function));
    OK(cudaGraphExecMemsetNodeSetParams(exec, set, &sets));
    CHECK_INT(launched(exec, 0), 0x00070007 + 3);
    OK(cudaGraphExecMemcpyNodeSetParams1D(exec, copy, at, at + 3, sizeof *at, cudaMemcpyDefault));
    CHECK_INT(launched(exec, 0), 0x01020304 + 3);
    FAILS(cudaErrorInvalidValue, cudaGraphExecHostNodeSetParams(exec, set, &function));
    FAILS(cudaErrorInvalidValue, cudaGraphExecHostNodeSetParams(exec, (cudaGraphNode_t)at, &function));

    check_case = "of a graph";
    OK(cudaGraphHostNodeGetParams(host, &read));
    CHECK(read.fn == twice);
    OK(cudaGraphHostNodeSetParams(host, &function));
    OK(cudaGraphMemsetNodeSetParams(set, &sets));
    OK(cudaGraphMemcpyNodeSetParams1D(copy, at, at + 1, sizeof *at, cudaMemcpyDefault));
    FAILS(cudaErrorInvalidValue, cudaGraphHostNodeSetParams(copy, &function));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_INT(launched(exec, 0), 0x00070007 + 3);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void a_child_runs_in_its_place(void) {
    cudaGraph_t graph, child, inner;
    cudaGraphExec_t exec;
    cudaGraphNode_t a, b, c, inside;
    enum cudaGraphNodeType type;
    struct cudaHostNodeParams doubles = {twice, at}, adds = {more, at};
    size_t count = 1;
    OK(cudaGraphCreate(&child, 0));
    OK(cudaGraphAddHostNode(&a, child, NULL, 0, &adds));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddHostNode(&a, graph, NULL, 0, &doubles));
    OK(cudaGraphAddChildGraphNode(&b, graph, &a, 1, child));
    OK(cudaGraphAddHostNode(&c, graph, &b, 1, &doubles));
    OK(cudaGraphDestroy(child));
    OK(cudaGraphNodeGetType(b, &type));
    CHECK_INT(type, cudaGraphNodeTypeGraph);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_INT(launched(exec, 1), 10);
    OK(cudaGraphChildGraphNodeGetGraph(b, &inner));
    OK(cudaGraphGetNodes(inner, &inside, &count));
    CHECK_INT(count, 1);
    FAILS(cudaErrorInvalidValue, cudaGraphChildGraphNodeGetGraph(a, &inner));

    check_case = "changed";
    OK(cudaGraphExecHostNodeSetParams(exec, inside, &doubles));
    CHECK_INT(launched(exec, 1), 8);
    OK(cudaGraphCreate(&child, 0));
    OK(cudaGraphAddHostNode(&a, child, NULL, 0, &adds));
    OK(cudaGraphExecChildGraphNodeSetParams(exec, b, child));
    CHECK_INT(launched(exec, 1), 10);
    OK(cudaGraphAddHostNode(&a, child, NULL, 0, &adds));
    FAILS(cudaErrorInvalidValue, cudaGraphExecChildGraphNodeSetParams(exec, b, child));
    CHECK_INT(launched(exec, 1), 10);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(child));
    OK(cudaGraphDestroy(graph));
    FAILS(cudaErrorInvalidValue, cudaGraphGetNodes(inner, NULL, &count));
}

static void events_are_nodes(void) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t wait, host, record;
    cudaEvent_t before, after, told;
    gate closed = {0};
    struct cudaHostNodeParams adds = {more, at};
    OK(cudaEventCreate(&before));
    OK(cudaEventCreate(&after));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddEventWaitNode(&wait, graph, NULL, 0, before));
    OK(cudaGraphAddHostNode(&host, graph, &wait, 1, &adds));
    OK(cudaGraphAddEventRecordNode(&record, graph, &host, 1, after));
    OK(cudaGraphEventWaitNodeGetEvent(wait, &told));
    CHECK(told == before);
    OK(cudaGraphEventRecordNodeGetEvent(record, &told));
    CHECK(told == after);
    FAILS(cudaErrorInvalidValue, cudaGraphEventRecordNodeGetEvent(wait, &told));
    FAILS(cudaErrorInvalidResourceHandle, cudaGraphAddEventWaitNode(&wait, graph, NULL, 0, (cudaEvent_t)at));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    *at = 1;
    OK(cudaLaunchHostFunc(other, hold, &closed));
    OK(cudaEventRecord(before, other));
    OK(cudaGraphLaunch(exec, stream));
    CHECK_INT(cudaEventQuery(after), cudaErrorNotReady);
    CHECK_INT(*(volatile int *)at, 1);
    CHECK_INT(cudaGetLastError(), cudaErrorNotReady);
    open_gate(&closed);
    OK(cudaEventSynchronize(after));
    CHECK_INT(*at, 4);

    check_case = "changed";
    OK(cudaGraphExecEventWaitNodeSetEvent(exec, wait, after));
    OK(cudaGraphExecEventRecordNodeSetEvent(exec, record, before));
    CHECK_INT(launched(exec, 1), 4);
    OK(cudaEventSynchronize(before));
    OK(cudaGraphEventWaitNodeSetEvent(wait, after));
    OK(cudaGraphEventRecordNodeSetEvent(record, before));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));

    check_case = "of a capture";
    enum cudaGraphNodeType type;
    cudaGraphNode_t nodes[3];
    size_t count = 3;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaStreamWaitEvent(stream, before, cudaEventWaitExternal));
    OK(cudaLaunchHostFunc(stream, more, at));
    OK(cudaEventRecordWithFlags(after, stream, cudaEventRecordExternal));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphGetNodes(graph, nodes, &count));
    CHECK_INT(count, 3);
    OK(cudaGraphNodeGetType(nodes[0], &type));
    CHECK_INT(type, cudaGraphNodeTypeWaitEvent);
    OK(cudaGraphNodeGetType(nodes[2], &type));
    CHECK_INT(type, cudaGraphNodeTypeEventRecord);
    count = 1;
    OK(cudaGraphNodeGetDependencies(nodes[2], &host, &count));
    CHECK(host == nodes[1]);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_INT(launched(exec, 2), 5);
    OK(cudaEventQuery(after));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventDestroy(before));
    OK(cudaEventDestroy(after));
}

static void what_cannot_be_added_is_refused(void) {
    cudaGraph_t graph;
    cudaGraphNode_t node;
    struct cudaKernelNodeParams kernel = {(void *)(size_t)twice, {1, 1, 1}, {1, 1, 1}, 0, NULL, NULL};
    OK(cudaGraphCreate(&graph, 0));
    FAILS(cudaErrorNotSupported, cudaGraphAddKernelNode(&node, graph, NULL, 0, &kernel));
    CHECK(strstr(pennyCudaGetLastMessage(), "compile it with penny-nvcc"));
    FAILS(cudaErrorInvalidValue, cudaGraphAddKernelNode(&node, graph, NULL, 0, NULL));
    FAILS(cudaErrorInvalidValue, cudaGraphAddChildGraphNode(&node, graph, NULL, 0, (cudaGraph_t)at));
    OK(cudaGraphDestroy(graph));
}

int main(void) {
    OK(cudaMalloc((void **)&at, 64));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    RUN(nodes_run_as_their_edges_say);
    RUN(parameters_are_told_and_changed);
    RUN(a_child_runs_in_its_place);
    RUN(events_are_nodes);
    RUN(what_cannot_be_added_is_refused);
    return 0;
}
