/* Errors: which one a thread is told, and when it is forgotten. */
#include "check.h"

static void the_last_error_stays_until_it_is_taken(void) {
    int device = 0;
    CHECK_INT(cudaSetDevice(77), cudaErrorInvalidDevice);
    OK(cudaGetDevice(&device));
    CHECK_INT(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    CHECK_INT(cudaFree(&device), cudaErrorInvalidValue);
    CHECK_INT(cudaPeekAtLastError(), cudaErrorInvalidValue);
    CHECK_INT(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK_INT(cudaGetLastError(), cudaSuccess);
    CHECK_INT(cudaPeekAtLastError(), cudaSuccess);
    CHECK(strstr(pennyCudaGetLastMessage(), "cudaFree: devPtr is not the beginning") != NULL);
}

static void *fail(void *at) {
    CHECK_INT(cudaGetLastError(), cudaSuccess);
    CHECK_INT(cudaFree(at), cudaErrorInvalidValue);
    return NULL;
}

static void each_thread_has_its_own(void) {
    int here = 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fail, &here) == 0 && pthread_join(thread, NULL) == 0);
    CHECK_INT(cudaGetLastError(), cudaSuccess);
}

static void results_have_names_and_sentences(void) {
    CHECK(strcmp(cudaGetErrorName(cudaSuccess), "cudaSuccess") == 0);
    CHECK(strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0);
    CHECK(strcmp(cudaGetErrorName(cudaErrorStreamCaptureImplicit), "cudaErrorStreamCaptureImplicit") == 0);
    CHECK(strcmp(cudaGetErrorName(cudaErrorUnknown), "cudaErrorUnknown") == 0);
    CHECK(strlen(cudaGetErrorString(cudaErrorMemoryAllocation)) > 0);
    CHECK(strcmp(cudaGetErrorName((cudaError_t)12345), cudaGetErrorString((cudaError_t)12345)) == 0);
}

static void kernel(int number) { (void)number; }

/* What a CUDA compiler makes programs call. */
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFatBinaryEnd(void **image);
void __cudaRegisterFunction(void **image, const char *host, char *function, const char *name, int limit, void *tid,
                            void *bid, dim3 *block, dim3 *grid, int *warp);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, cudaStream_t *stream);

static void kernels_are_refused_by_name(void) {
    dim3 one = {1, 1, 1}, grid = {7, 8, 9}, popped, block;
    size_t shared = 0;
    cudaStream_t stream = NULL;
    struct cudaFuncAttributes attributes;
    void **image = __cudaRegisterFatBinary(&one);
    __cudaRegisterFunction(image, (const char *)(size_t)kernel, NULL, "my_kernel", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(image);
    CHECK_INT(__cudaPushCallConfiguration(grid, one, 48, cudaStreamPerThread), 0);
    OK(__cudaPopCallConfiguration(&popped, &block, &shared, &stream));
    CHECK(memcmp(&popped, &grid, sizeof grid) == 0 && memcmp(&block, &one, sizeof one) == 0);
    CHECK(shared == 48 && stream == cudaStreamPerThread);
    FAILS(cudaErrorNotSupported, cudaLaunchKernel((const void *)(size_t)kernel, one, one, NULL, 0, NULL));
    CHECK(strstr(pennyCudaGetLastMessage(), "my_kernel") != NULL);
    FAILS(cudaErrorInvalidResourceHandle, cudaLaunchKernel((const void *)(size_t)kernel, one, one, NULL, 0, (cudaStream_t)7));
    FAILS(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&attributes, (const void *)(size_t)kernel));
    CHECK_INT(__cudaPopCallConfiguration(&popped, &block, &shared, &stream), cudaErrorMissingConfiguration);
    CHECK_INT(cudaGetLastError(), cudaErrorMissingConfiguration);
}

int main(void) {
    RUN(the_last_error_stays_until_it_is_taken);
    RUN(each_thread_has_its_own);
    RUN(results_have_names_and_sentences);
    RUN(kernels_are_refused_by_name);
    return 0;
}
