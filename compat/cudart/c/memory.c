/* Memory: its kinds, what is told of it, what is refused. */
#include "check.h"

static void device_memory_is_aligned_and_told(void) {
    struct cudaPointerAttributes told;
    char *memory = NULL, *together[32];
    for (int i = 0; i < 32; i++) {
        OK(cudaMalloc((void **)&together[i], 60 + i));
        CHECK_INT((size_t)together[i] % 256, 0);
    }
    for (int i = 0; i < 32; i++) OK(cudaFree(together[i]));
    for (size_t size = 1; size < 1 << 22; size = size * 5 + 3) {
        OK(cudaMalloc((void **)&memory, size));
        CHECK_INT((size_t)memory % 256, 0);
        memset(memory, 1, size);
        OK(cudaPointerGetAttributes(&told, memory + size - 1));
        CHECK_INT(told.type, cudaMemoryTypeDevice);
        CHECK_INT(told.device, 0);
        CHECK(told.devicePointer == memory + size - 1 && told.hostPointer == NULL);
        OK(cudaPointerGetAttributes(&told, memory + size));
        CHECK_INT(told.type, cudaMemoryTypeUnregistered);
        OK(cudaFree(memory));
    }
    OK(cudaMalloc((void **)&memory, 0));
    CHECK(memory == NULL);
    OK(cudaFree(NULL));
}

static void what_was_not_allocated_is_not_freed(void) {
    char *memory = NULL, *pinned = NULL, here[8];
    OK(cudaMalloc((void **)&memory, 512));
    OK(cudaMallocHost((void **)&pinned, 512));
    FAILS(cudaErrorInvalidValue, cudaFree(here));
    FAILS(cudaErrorInvalidValue, cudaFree(memory + 256));
    FAILS(cudaErrorInvalidValue, cudaFree(pinned));
    FAILS(cudaErrorInvalidValue, cudaFreeHost(memory));
    OK(cudaFree(memory));
    FAILS(cudaErrorInvalidValue, cudaFree(memory));
    OK(cudaFreeHost(pinned));
    FAILS(cudaErrorInvalidValue, cudaMalloc(NULL, 8));
    memory = here;
    FAILS(cudaErrorMemoryAllocation, cudaMalloc((void **)&memory, (size_t)-1));
    FAILS(cudaErrorMemoryAllocation, cudaMalloc((void **)&memory, (size_t)1 << 60));
    CHECK(memory == here);
}

static void a_full_heap_is_no_end(void) {
    /* The harness has set PENNY_HEAP_SIZE to 64 MiB. */
    char *memory[4];
    struct cudaPointerAttributes told;
    for (int i = 0; i < 4; i++) {
        OK(cudaMalloc((void **)&memory[i], 30 << 20));
        CHECK_INT((size_t)memory[i] % 256, 0);
        memory[i][(30 << 20) - 1] = 1;
        OK(cudaPointerGetAttributes(&told, memory[i]));
        CHECK_INT(told.type, cudaMemoryTypeDevice);
    }
    for (int i = 0; i < 4; i++) OK(cudaFree(memory[i]));
    FAILS(cudaErrorInvalidValue, cudaFree(memory[3]));
}

static void pinned_memory_is_told(void) {
    struct cudaPointerAttributes told;
    unsigned flags = 77;
    void *memory = NULL, *device = NULL;
    OK(cudaHostAlloc(&memory, 100, cudaHostAllocMapped | cudaHostAllocPortable));
    OK(cudaHostGetFlags(&flags, memory));
    CHECK_INT(flags, cudaHostAllocMapped | cudaHostAllocPortable);
    OK(cudaHostGetDevicePointer(&device, memory, 0));
    CHECK(device == memory);
    OK(cudaPointerGetAttributes(&told, memory));
    CHECK_INT(told.type, cudaMemoryTypeHost);
    CHECK(told.hostPointer == memory && told.devicePointer == memory);
    FAILS(cudaErrorInvalidValue, cudaHostAlloc(&device, 100, 64));
    FAILS(cudaErrorInvalidValue, cudaHostGetDevicePointer(&device, &flags, 0));
    OK(cudaFreeHost(memory));
    OK(cudaMallocManaged(&memory, 100, cudaMemAttachGlobal));
    OK(cudaPointerGetAttributes(&told, memory));
    CHECK_INT(told.type, cudaMemoryTypeManaged);
    CHECK(told.hostPointer == memory);
    OK(cudaMemPrefetchAsync(memory, 100, cudaCpuDeviceId, NULL));
    OK(cudaMemAdvise(memory, 100, cudaMemAdviseSetReadMostly, 0));
    OK(cudaFree(memory));
    FAILS(cudaErrorInvalidValue, cudaMemPrefetchAsync(memory, 100, 0, NULL));
}

static void memory_of_the_program_is_registered_once(void) {
    struct cudaPointerAttributes told;
    static char mine[4096];
    OK(cudaPointerGetAttributes(&told, mine));
    CHECK_INT(told.type, cudaMemoryTypeUnregistered);
    CHECK_INT(told.device, cudaInvalidDeviceId);
    OK(cudaHostRegister(mine + 1024, 1024, cudaHostRegisterDefault));
    FAILS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(mine, 1025, 0));
    FAILS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(mine + 2047, 10, 0));
    OK(cudaHostRegister(mine, 1024, 0));
    OK(cudaPointerGetAttributes(&told, mine + 1500));
    CHECK_INT(told.type, cudaMemoryTypeHost);
    FAILS(cudaErrorInvalidValue, cudaFreeHost(mine));
    FAILS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(mine + 8));
    OK(cudaHostUnregister(mine));
    OK(cudaHostUnregister(mine + 1024));
    FAILS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(mine));
    FAILS(cudaErrorInvalidValue, cudaHostRegister(NULL, 8, 0));
}

static void copies_of_every_direction_are_made(void) {
    char *device, *other, from[256], to[256];
    for (int i = 0; i < 256; i++) from[i] = (char)i;
    OK(cudaMalloc((void **)&device, 256));
    OK(cudaMalloc((void **)&other, 256));
    OK(cudaMemcpy(device, from, 256, cudaMemcpyHostToDevice));
    OK(cudaMemcpyPeer(other, 1, device, 0, 256));
    OK(cudaMemcpyPeerAsync(other, 1, device, 0, 128, NULL));
    OK(cudaMemcpy(to, other, 256, cudaMemcpyDeviceToHost));
    CHECK(memcmp(from, to, 256) == 0);
    OK(cudaMemcpy(device + 1, device, 255, cudaMemcpyDefault));
    CHECK(memcmp(device + 1, from, 255) == 0);
    FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(to, other, 1, (enum cudaMemcpyKind)5));
    FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpyAsync(to, other, 1, (enum cudaMemcpyKind)-1, NULL));
    FAILS(cudaErrorInvalidValue, cudaMemcpy(NULL, other, 1, cudaMemcpyDefault));
    FAILS(cudaErrorInvalidValue, cudaMemcpy(to, NULL, 1, cudaMemcpyDefault));
    FAILS(cudaErrorInvalidValue, cudaMemcpy(to, other, (size_t)-1, cudaMemcpyDefault));
    FAILS(cudaErrorInvalidDevice, cudaMemcpyPeer(other, 9, device, 0, 1));
    OK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyDefault));
    OK(cudaFree(device));
    OK(cudaFree(other));
}

static void rows_are_copied_and_set(void) {
    char *device, rows[4][10], back[4][6];
    size_t pitch;
    memset(rows, 1, sizeof rows);
    memset(back, 9, sizeof back);
    OK(cudaMallocPitch((void **)&device, &pitch, 10, 4));
    CHECK(pitch >= 10 && pitch % 256 == 0);
    OK(cudaMemset2D(device, pitch, 3, 10, 4));
    OK(cudaMemcpy2D(device, pitch, rows, 10, 5, 3, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DAsync(back, 6, device + 2, pitch, 6, 4, cudaMemcpyDeviceToHost, NULL));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++) CHECK(all_are(back[i], i < 3 ? 1 : 3, 3) && all_are(back[i] + 3, 3, 3));
    FAILS(cudaErrorInvalidPitchValue, cudaMemcpy2D(back, 6, device, pitch, 7, 4, cudaMemcpyDefault));
    FAILS(cudaErrorInvalidPitchValue, cudaMemset2D(device, 4, 0, 5, 2));
    OK(cudaMemset2DAsync(device, pitch, 4, 10, 1, NULL));
    OK(cudaDeviceSynchronize());
    CHECK(all_are(device, 4, 10) && all_are(device + pitch, 1, 5));
    OK(cudaFree(device));
}

/* The refusal names both sizes. */
static void says(const char *what) {
    if (strstr(pennyCudaGetLastMessage(), what) == NULL) FAIL("%s is not in: %s", what, pennyCudaGetLastMessage());
}

static void ranges_beyond_an_allocation_are_refused(void) {
    static char mine[3000], registered[3000];
    char *memory = NULL, *pinned = NULL;
    size_t pitch = 0;
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc((void **)&memory, 1000));
    OK(cudaMallocHost((void **)&pinned, 1000));
    OK(cudaHostRegister(registered, 1000, 0));
    FAILS(cudaErrorInvalidValue, cudaMemcpy(memory, mine, 1001, cudaMemcpyHostToDevice));
    says("dst has 1000 bytes up to the end of its allocation of 1000 bytes, and 1001 are asked for");
    FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(mine, memory + 999, 2, cudaMemcpyDeviceToHost, stream));
    says("src has 1 bytes up to the end of its allocation of 1000 bytes, and 2 are asked for");
    FAILS(cudaErrorInvalidValue, cudaMemcpyPeer(mine, 0, pinned, 1, 1001));
    FAILS(cudaErrorInvalidValue, cudaMemcpy(mine, registered + 1, 1000, cudaMemcpyDefault));
    FAILS(cudaErrorInvalidValue, cudaMemset(memory + 500, 7, 501));
    says("devPtr has 500 bytes");
    FAILS(cudaErrorInvalidValue, cudaMemsetAsync(pinned, 7, 4000, stream));
    FAILS(cudaErrorInvalidValue, cudaMemset2D(memory, 100, 7, 1, 11));
    FAILS(cudaErrorInvalidValue, cudaMemcpy2D(mine, 100, memory + 1, 100, 100, 10, cudaMemcpyDefault));
    OK(cudaStreamSynchronize(stream));
    CHECK(all_are(mine, 0, sizeof mine));
    /* To the last byte, and no longer than the rows: their last pitch need not be there. */
    OK(cudaMemset(memory, 7, 1000));
    OK(cudaMemset2D(memory + 1, 100, 8, 99, 10));
    OK(cudaMemcpyAsync(mine, memory, 1000, cudaMemcpyDeviceToHost, stream));
    OK(cudaMemcpy(pinned + 999, mine, 1, cudaMemcpyDefault));
    OK(cudaStreamSynchronize(stream));
    CHECK(mine[0] == 7 && mine[1] == 8 && mine[100] == 7 && mine[999] == 8 && mine[1000] == 0);
    OK(cudaHostUnregister(registered));
    OK(cudaMemcpy(mine, registered, sizeof mine, cudaMemcpyDefault));
    OK(cudaFree(memory));
    OK(cudaMallocPitch((void **)&memory, &pitch, 100, 3));
    OK(cudaMemset2D(memory, pitch, 1, 100, 3));
    FAILS(cudaErrorInvalidValue, cudaMemset2D(memory, pitch, 1, 100, 4));
    OK(cudaFree(memory));
    OK(cudaFreeHost(pinned));
    OK(cudaStreamDestroy(stream));
}

static void memory_is_freed_in_the_streams_turn(void) {
    cudaStream_t stream;
    gate here = {0};
    char *memory, *copy, *again;
    OK(cudaStreamCreate(&stream));
    OK(cudaMallocAsync((void **)&memory, 1 << 20, stream));
    OK(cudaMalloc((void **)&copy, 1 << 20));
    OK(cudaLaunchHostFunc(stream, hold, &here));
    OK(cudaMemsetAsync(memory, 5, 1 << 20, stream));
    OK(cudaMemcpyAsync(copy, memory, 1 << 20, cudaMemcpyDefault, stream));
    OK(cudaFreeAsync(memory, stream));
    FAILS(cudaErrorInvalidValue, cudaFreeAsync(memory, stream));
    OK(cudaMalloc((void **)&again, 1 << 20));
    CHECK(again != memory);
    memset(again, 6, 1 << 20);
    open_gate(&here);
    OK(cudaStreamSynchronize(stream));
    CHECK(all_are(copy, 5, 1 << 20) && all_are(again, 6, 1 << 20));
    OK(cudaFree(again));
    OK(cudaFree(copy));
    OK(cudaStreamDestroy(stream));
}

static void memory_in_use_is_freed_after_its_use(void) {
    cudaStream_t stream;
    gate here = {0};
    pthread_t opener;
    static char copy[1 << 20];
    char *memory;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&memory, sizeof copy));
    memset(memory, 3, sizeof copy);
    OK(cudaLaunchHostFunc(stream, hold, &here));
    OK(cudaMemcpyAsync(copy, memory, sizeof copy, cudaMemcpyDefault, stream));
    CHECK(pthread_create(&opener, NULL, open_gate_later, &here) == 0);
    OK(cudaFree(memory));
    CHECK(all_are(copy, 3, sizeof copy));
    CHECK(pthread_join(opener, NULL) == 0);
    OK(cudaStreamDestroy(stream));
}

static void pools_count_what_they_give(void) {
    cudaMemPool_t first, pool, used;
    struct cudaMemPoolProps props;
    unsigned long long bytes = 0, keep = 1 << 20;
    void *memory, *other;
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    OK(cudaDeviceGetDefaultMemPool(&first, 0));
    OK(cudaDeviceGetMemPool(&used, 0));
    CHECK(first == used);
    OK(cudaMemPoolCreate(&pool, &props));
    OK(cudaDeviceSetMemPool(0, pool));
    OK(cudaMallocAsync(&memory, 1000, NULL));
    OK(cudaMallocFromPoolAsync(&other, 24, pool, NULL));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &bytes));
    CHECK_INT(bytes, 1024);
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    bytes = 0;
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes));
    CHECK_INT(bytes, 1 << 20);
    OK(cudaFreeAsync(memory, NULL));
    OK(cudaFree(other));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &bytes));
    CHECK_INT(bytes, 0);
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &bytes));
    CHECK_INT(bytes, 1024);
    OK(cudaMemPoolTrimTo(pool, 0));
    OK(cudaMemPoolDestroy(pool));
    OK(cudaDeviceGetMemPool(&used, 0));
    CHECK(used == first);
    FAILS(cudaErrorInvalidValue, cudaMemPoolDestroy(pool));
    FAILS(cudaErrorInvalidValue, cudaMemPoolDestroy(first));
    FAILS(cudaErrorInvalidValue, cudaMallocFromPoolAsync(&other, 24, pool, NULL));
}

static void free_memory_and_other_processes_are_told_of(void) {
    size_t available = 0, total = 0;
    cudaIpcMemHandle_t handle;
    void *memory;
    OK(cudaMemGetInfo(&available, &total));
    CHECK(available > 0 && available <= total);
    OK(cudaMalloc(&memory, 64));
    FAILS(cudaErrorNotSupported, cudaIpcGetMemHandle(&handle, memory));
    OK(cudaFree(memory));
}

int main(void) {
    RUN(device_memory_is_aligned_and_told);
    RUN(what_was_not_allocated_is_not_freed);
    RUN(a_full_heap_is_no_end);
    RUN(pinned_memory_is_told);
    RUN(memory_of_the_program_is_registered_once);
    RUN(copies_of_every_direction_are_made);
    RUN(rows_are_copied_and_set);
    RUN(ranges_beyond_an_allocation_are_refused);
    RUN(memory_is_freed_in_the_streams_turn);
    RUN(memory_in_use_is_freed_after_its_use);
    RUN(pools_count_what_they_give);
    RUN(free_memory_and_other_processes_are_told_of);
    return 0;
}
