/* Devices: their number, what they say about themselves, which one a thread uses. PENNY_DEVICES is 4. */
#include "check.h"
#include <stddef.h>

static void there_are_as_many_as_the_variable_says(void) {
    int count = -1;
    OK(cudaGetDeviceCount(&count));
    CHECK_INT(count, 4);
    FAILS(cudaErrorInvalidValue, cudaGetDeviceCount(NULL));
}

static void a_thread_uses_the_device_that_it_sets(void) {
    int device = -1;
    OK(cudaGetDevice(&device));
    CHECK_INT(device, 0);
    OK(cudaSetDevice(3));
    OK(cudaGetDevice(&device));
    CHECK_INT(device, 3);
    FAILS(cudaErrorInvalidDevice, cudaSetDevice(4));
    FAILS(cudaErrorInvalidDevice, cudaSetDevice(-1));
    OK(cudaGetDevice(&device));
    CHECK_INT(device, 3);
    OK(cudaSetDevice(0));
}

static void *on_device(void *at) {
    int wanted = *(int *)at, device = -1, *memory = NULL;
    cudaStream_t stream;
    struct cudaPointerAttributes attributes;
    OK(cudaGetDevice(&device));
    CHECK_INT(device, 0);
    OK(cudaSetDevice(wanted));
    OK(cudaMalloc((void **)&memory, 4096));
    OK(cudaStreamCreate(&stream));
    for (int i = 0; i < 200; i++) {
        OK(cudaMemsetAsync(memory, wanted, 4096, i % 2 ? stream : NULL));
        OK(cudaGetDevice(&device));
        CHECK_INT(device, wanted);
    }
    OK(cudaStreamGetDevice(stream, &device));
    CHECK_INT(device, wanted);
    OK(cudaDeviceSynchronize());
    CHECK(all_are(memory, wanted, 4096));
    OK(cudaPointerGetAttributes(&attributes, memory));
    CHECK_INT(attributes.device, wanted);
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(memory));
    return NULL;
}

static void two_threads_use_different_devices(void) {
    pthread_t threads[2];
    int devices[2] = {1, 2}, device = -1;
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, on_device, &devices[i]) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    OK(cudaGetDevice(&device));
    CHECK_INT(device, 0);
}

static void the_structure_has_the_layout_of_cuda_12(void) {
    CHECK_INT(sizeof(struct cudaDeviceProp), 1032);
    CHECK_INT(offsetof(struct cudaDeviceProp, totalGlobalMem), 288);
    CHECK_INT(offsetof(struct cudaDeviceProp, multiProcessorCount), 388);
    CHECK_INT(offsetof(struct cudaDeviceProp, pciBusID), 584);
    CHECK_INT(offsetof(struct cudaDeviceProp, unifiedFunctionPointers), 776);
    CHECK_INT(sizeof(struct cudaPointerAttributes), 24);
    CHECK_INT(sizeof(struct cudaMemPoolProps), 88);
    CHECK_INT(sizeof(cudaIpcMemHandle_t), 64);
}

static void properties_and_attributes_agree(void) {
    struct cudaDeviceProp prop;
    memset(&prop, 0xff, sizeof prop);
    OK(cudaGetDeviceProperties(&prop, 2));
    CHECK(strcmp(prop.name, "Penny host device") == 0);
    CHECK(prop.totalGlobalMem > 0 && prop.multiProcessorCount > 0);
    CHECK_INT(prop.maxTexture1D, 0);
    CHECK_INT(prop.unifiedFunctionPointers, 0);
    struct {
        enum cudaDeviceAttr attr;
        int value;
    } const rows[] = {
        {cudaDevAttrComputeCapabilityMajor, prop.major},
        {cudaDevAttrComputeCapabilityMinor, prop.minor},
        {cudaDevAttrMultiProcessorCount, prop.multiProcessorCount},
        {cudaDevAttrPciBusId, prop.pciBusID},
        {cudaDevAttrWarpSize, 32},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)prop.sharedMemPerBlockOptin},
        {cudaDevAttrGPUDirectRDMASupported, 0},
        {cudaDevAttrMemoryPoolsSupported, 1},
        {cudaDevAttrMaxBlockDimZ, prop.maxThreadsDim[2]},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int value = -1;
        OK(cudaDeviceGetAttribute(&value, rows[i].attr, 2));
        CHECK_INT(value, rows[i].value);
    }
    int value = -1;
    FAILS(cudaErrorInvalidValue, cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)4000, 2));
    FAILS(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 9));
    FAILS(cudaErrorInvalidDevice, cudaGetDeviceProperties(&prop, 9));
    CHECK_INT(value, -1);
}

static void devices_are_found_by_their_place(void) {
    char place[16], other[16];
    int device = -1;
    OK(cudaDeviceGetPCIBusId(place, sizeof place, 3));
    OK(cudaDeviceGetPCIBusId(other, sizeof other, 2));
    CHECK(strcmp(place, other) != 0);
    OK(cudaDeviceGetByPCIBusId(&device, place));
    CHECK_INT(device, 3);
    FAILS(cudaErrorInvalidDevice, cudaDeviceGetByPCIBusId(&device, "0000:77:00.0"));
    FAILS(cudaErrorInvalidValue, cudaDeviceGetPCIBusId(place, 4, 3));
}

static void peers_are_always_reached(void) {
    int can = -1;
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    CHECK_INT(can, 1);
    OK(cudaDeviceCanAccessPeer(&can, 1, 1));
    CHECK_INT(can, 0);
    FAILS(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
    OK(cudaDeviceEnablePeerAccess(1, 0));
    FAILS(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
    FAILS(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(0, 0));
    OK(cudaDeviceDisablePeerAccess(1));
    OK(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrAccessSupported, 0, 1));
    CHECK_INT(can, 1);
}

static void versions_flags_and_limits_are_told(void) {
    int version = 0;
    unsigned flags = 0;
    size_t limit = 0;
    OK(cudaRuntimeGetVersion(&version));
    CHECK_INT(version, CUDART_VERSION);
    OK(cudaDriverGetVersion(&version));
    CHECK(version >= CUDART_VERSION);
    OK(cudaSetDeviceFlags(cudaDeviceScheduleYield));
    OK(cudaGetDeviceFlags(&flags));
    CHECK(flags & cudaDeviceScheduleYield);
    OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    OK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
    CHECK_INT(limit, 4096);
    FAILS(cudaErrorUnsupportedLimit, cudaDeviceSetLimit((enum cudaLimit)70, 1));
    OK(cudaProfilerStart());
    OK(cudaProfilerStop());
}

static void a_reset_gives_back_what_the_device_has(void) {
    void *mine, *other;
    cudaStream_t stream;
    cudaEvent_t event;
    OK(cudaMalloc(&other, 64));
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&mine, 64));
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    OK(cudaDeviceReset());
    FAILS(cudaErrorInvalidValue, cudaFree(mine));
    FAILS(cudaErrorInvalidResourceHandle, cudaStreamQuery(stream));
    FAILS(cudaErrorInvalidResourceHandle, cudaEventQuery(event));
    OK(cudaFree(other));
    OK(cudaMalloc(&mine, 64));
    OK(cudaFree(mine));
    OK(cudaSetDevice(0));
}

int main(void) {
    RUN(there_are_as_many_as_the_variable_says);
    RUN(a_thread_uses_the_device_that_it_sets);
    RUN(two_threads_use_different_devices);
    RUN(the_structure_has_the_layout_of_cuda_12);
    RUN(properties_and_attributes_agree);
    RUN(devices_are_found_by_their_place);
    RUN(peers_are_always_reached);
    RUN(versions_flags_and_limits_are_told);
    RUN(a_reset_gives_back_what_the_device_has);
    return 0;
}
