/* Calls that are captured by Penny's CUDA runtime, and graphs of them that are launched. */
#include "check.h"
#include <penny.h>

enum { N = 40000, LAUNCHES = 12, BIG = 0, SMALL, KINDS };
static const size_t counts[KINDS] = {N, 3};

/* The call succeeds. */
#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        cudaError_t result_ = (call);                                                                                  \
        if (result_ != cudaSuccess) FAIL("%s: %s", cudaGetErrorName(result_), pennyCudaGetLastMessage());              \
    } while (0)

/* A launch fails, and its sentence has the text in it. */
#define REFUSED(text, call)                                                                                            \
    do {                                                                                                               \
        cudaError_t result_ = (call);                                                                                  \
        if (result_ != cudaErrorUnknown || strstr(pennyCudaGetLastMessage(), text) == NULL) {                          \
            FAIL("%s, not \"%s\": %s", cudaGetErrorName(result_), text, pennyCudaGetLastMessage());                    \
        }                                                                                                              \
    } while (0)

static cudaStream_t streams[MOST];
static cudaGraphExec_t execs[MOST];
static int *in[MOST], *out[MOST], *last[MOST];

static void begin_captures(void) {
    for (int i = 0; i < local; i++) CUDA(cudaStreamBeginCapture(streams[i], cudaStreamCaptureModeThreadLocal));
}

static void end_captures(void) {
    for (int i = 0; i < local; i++) {
        cudaGraph_t graph;
        CUDA(cudaStreamEndCapture(streams[i], &graph));
        CUDA(cudaGraphInstantiate(&execs[i], graph, 0));
        CUDA(cudaGraphDestroy(graph));
    }
}

/* The sum over all ranks of what a rank has at a place. */
static int value_at(int r, int launch, size_t i) { return r + 1 + launch * 7 + (int)i; }
static int sum_at(int launch, size_t i) { return ranks * value_at(0, launch, i) + ranks * (ranks - 1) / 2; }

static void one_thread_captures_a_stream_for_each_rank(void) {
    for (int kind = 0; kind < KINDS; kind++) {
        size_t count = counts[kind];
        begin_captures();
        ALL(ncclAllReduce(in[i], out[i], count, ncclInt, ncclSum, comms[i], streams[i]));
        for (int i = 0; i < local; i++) {
            CUDA(cudaMemcpyAsync(last[i], out[i], count * sizeof **out, cudaMemcpyDefault, streams[i]));
        }
        ALL(ncclBroadcast(out[i], out[i], count, ncclInt, ranks - 1, comms[i], streams[i]));
        ALL(ncclAllReduce(out[i], out[i], count, ncclInt, ncclSum, comms[i], streams[i]));
        end_captures();
        for (int launch = 0; launch < LAUNCHES; launch++) {
            for (int i = 0; i < local; i++) {
                for (size_t at = 0; at < count; at++) in[i][at] = value_at(first + i, launch, at), out[i][at] = -1;
            }
            /* The order of the launches is not that of the ranks. */
            for (int k = 0; k < local; k++) {
                int i = (k + launch) % local;
                CUDA(cudaGraphLaunch(execs[i], streams[i]));
            }
            for (int i = 0; i < local; i++) CUDA(cudaStreamSynchronize(streams[i]));
            for (int i = 0; i < local; i++) {
                for (size_t at = 0; at < count; at++) {
                    CHECK_INT(last[i][at], sum_at(launch, at));
                    CHECK_INT(out[i][at], ranks * sum_at(launch, at));
                }
            }
        }
        for (int i = 0; i < local; i++) CUDA(cudaGraphExecDestroy(execs[i]));
    }
}

static void launches_that_are_queued_behind_one_another_keep_their_order(void) {
    begin_captures();
    ALL(ncclAllReduce(out[i], out[i], 1, ncclInt, ncclSum, comms[i], streams[i]));
    ALL(ncclAllReduce(out[i], last[i], N, ncclInt, ncclSum, comms[i], streams[i]));
    end_captures();
    int expected = 1, times = ranks == 1 ? 5 : 3;
    for (int i = 0; i < local; i++) {
        for (int at = 0; at < N; at++) out[i][at] = 1;
    }
    for (int launch = 0; launch < times; launch++, expected *= ranks) {
        for (int i = 0; i < local; i++) CUDA(cudaGraphLaunch(execs[i], streams[i]));
    }
    for (int i = 0; i < local; i++) {
        CUDA(cudaStreamSynchronize(streams[i]));
        CHECK_INT(out[i][0], expected);
        CHECK_INT(last[i][0], expected * ranks);
        CHECK_INT(last[i][N - 1], ranks);
        CUDA(cudaGraphExecDestroy(execs[i]));
    }
}

static void transfers_of_a_group_are_one_step(void) {
    begin_captures();
    OK(ncclGroupStart());
    for (int i = 0; i < local; i++) {
        int me = first + i, next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
        OK(ncclSend(in[i], N, ncclInt, next, comms[i], streams[i]));
        OK(ncclRecv(out[i], N, ncclInt, before, comms[i], streams[i]));
    }
    OK(ncclGroupEnd());
    end_captures();
    for (int launch = 0; launch < LAUNCHES; launch++) {
        for (int i = 0; i < local; i++) {
            for (size_t at = 0; at < N; at++) in[i][at] = value_at(first + i, launch, at), out[i][at] = -1;
        }
        for (int i = 0; i < local; i++) CUDA(cudaGraphLaunch(execs[i], streams[i]));
        for (int i = 0; i < local; i++) CUDA(cudaStreamSynchronize(streams[i]));
        for (int i = 0; i < local; i++) {
            int before = (first + i + ranks - 1) % ranks;
            for (size_t at = 0; at < N; at++) CHECK_INT(out[i][at], value_at(before, launch, at));
        }
    }
    for (int i = 0; i < local; i++) CUDA(cudaGraphExecDestroy(execs[i]));
}

static void one_capture_may_have_the_streams_of_several_ranks(void) {
    cudaEvent_t events[MOST];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    for (int i = 0; i < local; i++) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaEventCreate(&events[i]));
    }
    CUDA(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
    CUDA(cudaEventRecord(events[0], streams[0]));
    for (int i = 1; i < local; i++) CUDA(cudaStreamWaitEvent(streams[i], events[0], 0));
    ALL(ncclAllReduce(in[i], out[i], N, ncclInt, ncclSum, comms[i], streams[i]));
    for (int i = 1; i < local; i++) {
        CUDA(cudaEventRecord(events[i], streams[i]));
        CUDA(cudaStreamWaitEvent(streams[0], events[i], 0));
    }
    CUDA(cudaStreamEndCapture(streams[0], &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int launch = 0; launch < 3; launch++) {
        for (int i = 0; i < local; i++) {
            for (size_t at = 0; at < N; at++) in[i][at] = value_at(first + i, launch, at), out[i][at] = -1;
        }
        CUDA(cudaGraphLaunch(exec, streams[0]));
        CUDA(cudaStreamSynchronize(streams[0]));
        for (int i = 0; i < local; i++) {
            for (size_t at = 0; at < N; at++) CHECK_INT(out[i][at], sum_at(launch, at));
        }
    }
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    for (int i = 0; i < local; i++) CUDA(cudaEventDestroy(events[i]));
}

static void a_communicators_calls_of_a_group_belong_to_one_capture(void) {
    cudaStream_t other;
    cudaGraph_t graph;
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    for (int both = 0; both < 2; both++) {
        CUDA(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
        if (both) CUDA(cudaStreamBeginCapture(other, cudaStreamCaptureModeThreadLocal));
        OK(ncclGroupStart());
        OK(ncclSend(in[0], 1, ncclInt, first, comms[0], streams[0]));
        FAILS(ncclInvalidUsage, "one graph", ncclRecv(out[0], 1, ncclInt, first, comms[0], other));
        FAILS(ncclInvalidUsage, "one graph", ncclGroupEnd());
        if (both) {
            CUDA(cudaStreamEndCapture(other, &graph));
            CUDA(cudaGraphDestroy(graph));
        }
        CUDA(cudaStreamEndCapture(streams[0], &graph));
        size_t nodes = 1;
        CUDA(cudaGraphGetNodes(graph, NULL, &nodes));
        CHECK_INT(nodes, 0);
        CUDA(cudaGraphDestroy(graph));
    }
    CUDA(cudaStreamDestroy(other));
}

static void arguments_are_checked_when_a_call_is_captured(void) {
    cudaGraph_t graph;
    cudaStream_t s = streams[0];
    ncclComm_t comm = comms[0];
    size_t nodes = 1;
    CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    FAILS(ncclInvalidArgument, "sendbuff is NULL", ncclAllReduce(NULL, out[0], 1, ncclInt, ncclSum, comm, s));
    FAILS(ncclInvalidArgument, "is out of range", ncclBroadcast(in[0], out[0], 1, ncclInt, ranks, comm, s));
    FAILS(ncclInvalidArgument, "datatype is 12", ncclAllReduce(in[0], out[0], 1, (ncclDataType_t)12, ncclSum, comm, s));
    FAILS(ncclInvalidArgument, "op is 9", ncclAllReduce(in[0], out[0], 1, ncclInt, (ncclRedOp_t)9, comm, s));
    FAILS(ncclInvalidArgument, "op is 5000000", ncclAllReduce(in[0], out[0], 1, ncclInt, (ncclRedOp_t)5000000, comm, s));
    FAILS(ncclInvalidArgument, "comm is NULL", ncclAllReduce(in[0], out[0], 1, ncclInt, ncclSum, NULL, s));
    FAILS(ncclInvalidArgument, "count", ncclAllReduce(in[0], out[0], (size_t)-1, ncclInt, ncclSum, comm, s));
    OK(ncclGroupStart());
    OK(ncclAllReduce(in[0], out[0], 1, ncclInt, ncclSum, comm, s));
    FAILS(ncclInvalidArgument, "peer -1", ncclSend(in[0], 1, ncclInt, -1, comm, s));
    FAILS(ncclInvalidArgument, "peer -1", ncclGroupEnd());
    CUDA(cudaStreamEndCapture(s, &graph));
    CUDA(cudaGraphGetNodes(graph, NULL, &nodes));
    CHECK_INT(nodes, 0);
    CUDA(cudaGraphDestroy(graph));
}

static void a_captured_call_keeps_the_scalar_of_its_operation(void) {
    ncclRedOp_t op[MOST];
    float *x[MOST];
    for (int i = 0; i < local; i++) {
        float factor = (float)(first + i + 1);
        CUDA(cudaMalloc((void **)&x[i], sizeof(float)));
        *x[i] = 2;
        OK(ncclRedOpCreatePreMulSum(&op[i], &factor, ncclFloat, ncclScalarHostImmediate, comms[i]));
    }
    begin_captures();
    ALL(ncclAllReduce(x[i], x[i], 1, ncclFloat, op[i], comms[i], streams[i]));
    end_captures();
    for (int i = 0; i < local; i++) OK(ncclRedOpDestroy(op[i], comms[i]));
    for (int i = 0; i < local; i++) CUDA(cudaGraphLaunch(execs[i], streams[i]));
    for (int i = 0; i < local; i++) {
        CUDA(cudaStreamSynchronize(streams[i]));
        CHECK(*x[i] == (float)(ranks * (ranks + 1)));
        CUDA(cudaGraphExecDestroy(execs[i]));
        CUDA(cudaFree(x[i]));
    }
}

static void a_launch_after_the_communicators_end_is_refused(void) {
    begin_captures();
    for (int i = 0; i < local; i++) CUDA(cudaMemsetAsync(out[i], 1, 4, streams[i]));
    ALL(ncclAllReduce(in[i], out[i], 1, ncclInt, ncclSum, comms[i], streams[i]));
    for (int i = 0; i < local; i++) CUDA(cudaMemsetAsync(last[i], 1, 4, streams[i]));
    end_captures();
    leave();
    for (int i = 0; i < local; i++) {
        *out[i] = *last[i] = 0;
        REFUSED("not a live communicator", cudaGraphLaunch(execs[i], streams[i]));
        CHECK(strstr(ncclGetLastError(NULL), "not a live communicator") != NULL);
        CUDA(cudaStreamSynchronize(streams[i]));
        CHECK(*out[i] == 0x01010101 && *last[i] == 0);
        CUDA(cudaGraphExecDestroy(execs[i]));
    }
}

int main(void) {
    begin();
    join();
    for (int i = 0; i < local; i++) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        CUDA(cudaMalloc((void **)&in[i], N * sizeof(int)));
        CUDA(cudaMalloc((void **)&out[i], N * sizeof(int)));
        CUDA(cudaMalloc((void **)&last[i], N * sizeof(int)));
    }
    RUN(one_thread_captures_a_stream_for_each_rank);
    RUN(launches_that_are_queued_behind_one_another_keep_their_order);
    RUN(transfers_of_a_group_are_one_step);
    if (processes == 1) RUN(one_capture_may_have_the_streams_of_several_ranks);
    RUN(a_communicators_calls_of_a_group_belong_to_one_capture);
    RUN(arguments_are_checked_when_a_call_is_captured);
    RUN(a_captured_call_keeps_the_scalar_of_its_operation);
    RUN(a_launch_after_the_communicators_end_is_refused);
    return 0;
}
