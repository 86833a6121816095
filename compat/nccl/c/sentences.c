/* Prints the sentences of calls that fail, which names of Penny have no place in. One process with Penny's CUDA runtime, PENNY_DEVICES=4,
   PENNY_TIMEOUT=1, PENNY_HEAP_SIZE=64M. */
#include "check.h"
#include <cuda_runtime.h>

/* The call fails; its sentence is printed. */
#define NCCL(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) == ncclSuccess) FAIL("%s succeeds", #call);                                                         \
        printf("%s\n", ncclGetLastError(NULL));                                                                        \
    } while (0)
#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) == cudaSuccess) FAIL("%s succeeds", #call);                                                         \
        printf("%s\n", pennyCudaGetLastMessage());                                                                     \
    } while (0)

static int buffer[64];

static void arguments(ncclComm_t comm) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    ncclComm_t made;
    ncclRedOp_t op;
    ncclUniqueId id;
    void *at;
    uint64_t value;
    int list[2] = {9, 9}, on = 0;
    float factor = 1;
    ncclWaitSignalDesc_t signals = {1, 0, 9, 0};
    ncclWindow_t windows[2];
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) OK(ncclCommWindowRegister(comms[i], buffer, sizeof buffer, &windows[i], 77));
    NCCL(ncclGroupEnd());
    NCCL(ncclCommWindowRegister(comm, NULL, 0, NULL, NCCL_WIN_DEFAULT));
    NCCL(ncclCommWindowDeregister(comm, (ncclWindow_t)(void *)buffer));
    NCCL(ncclWinGetUserPtr(comm, (ncclWindow_t)(void *)buffer, &at));
    NCCL(ncclPutSignal(buffer, 1, ncclInt, 1, (ncclWindow_t)(void *)buffer, 0, 0, 0, 0, comm, NULL));
    NCCL(ncclSignal(1, 99, 0, 0, comm, NULL));
    NCCL(ncclWaitSignal(0, &signals, comm, NULL));
    NCCL(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, (ncclScalarResidence_t)9, comm));
    NCCL(ncclRedOpDestroy((ncclRedOp_t)9999, comm));
    NCCL(ncclCommShrink(comm, list, 1, &made, NULL, 7));
    NCCL(ncclCommShrink(comm, list, 2, &made, NULL, NCCL_SHRINK_DEFAULT));
    NCCL(ncclCommShrink(comm, &on, 1, &made, NULL, NCCL_SHRINK_DEFAULT));
    NCCL(ncclCommRevoke(comm, 5));
    NCCL(ncclCommSuspend(comm, 9));
    NCCL(ncclCommMemStats(comm, (ncclCommMemStat_t)44, &value));
    NCCL(ncclCommMemStats(comm, ncclStatGpuMemTotal, NULL));
    NCCL(ncclCommGrow(NULL, 3, NULL, 2, &made, NULL));
    NCCL(ncclCommSplit(comm, -5, 0, &made, NULL));
    config.magic++;
    NCCL(ncclCommSplit(comm, 0, 0, &made, &config));
    OK(ncclGetUniqueId(&id));
    NCCL(ncclCommInitRank(&made, 2, id, 2));
    memset(&id, 0, sizeof id);
    NCCL(ncclCommInitRank(&made, 2, id, 0));
    NCCL(ncclCommInitAll(&made, 9, NULL));
    NCCL(ncclMemAlloc(&at, (size_t)1 << 40));
    NCCL(ncclMemFree(buffer));
    NCCL(ncclCommRegister(comm, NULL, 64, &at));
    NCCL(ncclCommDeregister(comm, buffer));
    NCCL(ncclAllReduce(buffer, buffer + 1, 2, ncclInt, ncclSum, comm, NULL));
    NCCL(ncclAllReduce(buffer, buffer, (size_t)-1, ncclInt, ncclSum, comm, NULL));
    NCCL(ncclAllReduce(buffer, buffer, 1, ncclInt, ncclSum, comm, (cudaStream_t)(void *)buffer));
    NCCL(ncclBroadcast(buffer, buffer, 1, ncclInt, 9, comm, NULL));
    NCCL(ncclSend(buffer, 1, ncclInt, 9, comm, NULL));
    NCCL(ncclSend(buffer, 1, ncclInt, 0, comm, NULL));
    NCCL(ncclGroupEnd());
    NCCL(ncclGroupSimulateEnd(NULL));
    OK(ncclGroupStart());
    OK(ncclAllReduce(buffer, buffer, 1, ncclInt, ncclSum, comm, NULL));
    NCCL(ncclGroupSimulateEnd(&info));
}

static void of_cuda(void) {
    void *at;
    CUDA(cudaMalloc(&at, (size_t)1 << 60));
    CUDA(cudaFree(buffer));
    CUDA(cudaStreamSynchronize((cudaStream_t)(void *)buffer));
    CUDA(cudaEventSynchronize((cudaEvent_t)(void *)buffer));
    CUDA(cudaEventRecord((cudaEvent_t)(void *)buffer, NULL));
    CUDA(cudaStreamWaitEvent(NULL, (cudaEvent_t)(void *)buffer, 0));
    CUDA(cudaMemcpy(buffer, buffer, 4, (enum cudaMemcpyKind)9));
}

/* Failures of calls on streams: of ranks that disagree, that do not come, that are gone. */
static void on_streams(void) {
    cudaStream_t stream;
    ncclComm_t made[2];
    ncclResult_t state;
    if (cudaStreamCreate(&stream) != cudaSuccess) FAIL("%s", pennyCudaGetLastMessage());
    for (int round = 0; round < 3; round++) {
        OK(ncclCommInitAll(made, 2, NULL));
        if (round == 0) {
            OK(ncclGroupStart());
            for (int i = 0; i < 2; i++) OK(ncclAllReduce(buffer, buffer, (size_t)(i + 1), ncclInt, ncclSum, made[i], stream));
            OK(ncclGroupEnd());
        } else if (round == 1) {
            OK(ncclAllReduce(buffer, buffer, 1, ncclInt, ncclSum, made[0], stream));
        } else {
            OK(ncclRecv(buffer, 1, ncclInt, 1, made[0], stream));
        }
        CUDA(cudaStreamSynchronize(stream));
        if (ncclCommGetAsyncError(made[0], &state) == ncclSuccess && state != ncclSuccess) {
            printf("%s\n", ncclGetLastError(made[0]));
        }
        OK(ncclCommAbort(made[1]));
        if (round > 0) NCCL(ncclAllReduce(buffer, buffer, 1, ncclInt, ncclSum, made[1], stream));
        OK(ncclAllReduce(buffer, buffer, 1, ncclInt, ncclSum, made[0], stream));
        CUDA(cudaStreamSynchronize(stream));
        OK(ncclCommAbort(made[0]));
    }
}

static void of_communicators_that_are_gone(ncclComm_t *all) {
    int count;
    ALL(ncclCommSuspend(comms[i], NCCL_SUSPEND_MEM));
    OK(ncclAllReduce(buffer, buffer, 1, ncclInt, ncclSum, all[0], NULL));
    CUDA(cudaStreamSynchronize(NULL));
    ALL(ncclCommResume(comms[i]));
    OK(ncclCommRevoke(all[0], NCCL_REVOKE_DEFAULT));
    NCCL(ncclAllReduce(buffer, buffer, 1, ncclInt, ncclSum, all[0], NULL));
    for (int i = 0; i < local; i++) OK(ncclCommAbort(all[i]));
    NCCL(ncclCommCount(all[0], &count));
    NCCL(ncclCommDestroy(all[0]));
    NCCL(ncclCommCount(NULL, &count));
}

int main(void) {
    begin();
    join();
    arguments(comms[0]);
    of_cuda();
    on_streams();
    of_communicators_that_are_gone(comms);
    return 0;
}
