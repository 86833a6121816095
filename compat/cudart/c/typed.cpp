/* What the headers have for C++, and small floating-point numbers. */
#include "check.h"
#include <cmath>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

__device__ int table[16];
__constant__ float factor;
static struct {
    int before, three[3], behind;
} between;

__global__ void kernel(int *) {}

static void functions_know_types() {
    float *device, *host;
    OK(cudaMalloc(&device, 16 * sizeof *device));
    OK(cudaMallocHost(&host, 16 * sizeof *host));
    host[15] = 2.5f;
    OK(cudaMemcpyAsync(device, host, 16 * sizeof *host, cudaMemcpyHostToDevice));
    OK(cudaDeviceSynchronize());
    CHECK(device[15] == 2.5f);
    OK(cudaFreeHost(host));
    OK(cudaFree(device));
    OK(cudaMallocManaged(&device, 64));
    OK(cudaFree(device));
    OK(cudaMallocAsync(&device, 64, 0));
    OK(cudaFreeAsync(device, 0));
    cudaEvent_t event;
    OK(cudaEventCreate(&event, cudaEventDisableTiming));
    OK(cudaEventRecord(event));
    OK(cudaStreamWaitEvent(0, event));
    OK(cudaEventDestroy(event));
    dim3 grid(4), block(32, 2);
    CHECK(grid.y == 1 && block.x == 32 && make_float4(1, 2, 3, 4).w == 4 && sizeof(float4) == 16);
    FAILS(cudaErrorNotSupported, cudaLaunchKernel(kernel, grid, block, nullptr, 0, 0));
}

static void symbols_are_variables() {
    int in[16], out[16];
    void *address = nullptr;
    size_t size = 0;
    for (int i = 0; i < 16; i++) in[i] = i * i;
    OK(cudaMemcpyToSymbol(table, in, sizeof in));
    OK(cudaMemcpyFromSymbol(out, table, sizeof *out, 15 * sizeof *out));
    CHECK_INT(out[0], 225);
    float two = 2;
    OK(cudaMemcpyToSymbol(factor, &two, sizeof two));
    CHECK(factor == 2);
    OK(cudaGetSymbolAddress(&address, table));
    CHECK(address == table);
    OK(cudaGetSymbolSize(&size, table));
    CHECK_INT(size, sizeof table);
}

extern __device__ int elsewhere[];

/* A copy goes no further than its symbol, whatever lies behind. */
static void copies_end_where_a_symbol_ends() {
    int in[4] = {1, 2, 3, 4}, out[4] = {0, 0, 0, 0};
    const size_t wrong[][2] = {
        {sizeof in, 0}, {4, 12}, {16, static_cast<size_t>(-64)}, {64, static_cast<size_t>(-64)}, {4, 1 << 20}};
    between.before = between.behind = 7;
    for (const auto &row : wrong) {
        const size_t count = row[0], offset = row[1];
        FAILS(cudaErrorInvalidValue, cudaMemcpyToSymbol(between.three, in, count, offset));
        CHECK(strstr(pennyCudaGetLastMessage(), "cudaMemcpyToSymbol: offset") != nullptr);
        FAILS(cudaErrorInvalidValue, cudaMemcpyFromSymbol(out, between.three, count, offset));
        FAILS(cudaErrorInvalidValue, cudaMemcpyToSymbolAsync(between.three, in, count, offset));
        FAILS(cudaErrorInvalidValue, cudaMemcpyFromSymbolAsync(out, between.three, count, offset));
    }
    CHECK(between.before == 7 && between.behind == 7 && out[0] == 0);
    OK(cudaMemcpyToSymbol(between.three, in, 12));
    OK(cudaMemcpyToSymbolAsync(between.three, in, 4, 8));
    OK(cudaMemcpyFromSymbolAsync(out, between.three, 12));
    OK(cudaDeviceSynchronize());
    CHECK(out[1] == 2 && out[2] == 1 && out[3] == 0 && between.behind == 7);
    OK(cudaMemcpyToSymbol(elsewhere, in, sizeof in));
    CHECK(elsewhere[3] == 4);
}
__device__ int elsewhere[4];

static void graphs_have_their_older_form() {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(cudaMemsetAsync(table, 0, sizeof table, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(all_are(table, 0, sizeof table));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
}

/* Rounds by looking at all numbers of a format: the nearest, and of two the even one. */
template <class Read> static unsigned nearest(double value, unsigned count, Read read) {
    unsigned best = 0;
    for (unsigned i = 0; i < count; i++) {
        double here = std::fabs(read(i) - value), least = std::fabs(read(best) - value);
        if (here < least || (here == least && i % 2 == 0)) best = i;
    }
    return best;
}

static void every_small_number_comes_back() {
    for (unsigned i = 0; i < 65536; i++) {
        __half_raw h = {static_cast<unsigned short>(i)};
        __nv_bfloat16_raw b = {static_cast<unsigned short>(i)};
        float half_ = __half2float(__half(h)), bf = __bfloat162float(__nv_bfloat16(b));
        if (std::isnan(half_)) CHECK_INT(__float2half(half_).__x, 0x7fff);
        else CHECK_INT(__float2half(half_).__x, i);
        if (std::isnan(bf)) CHECK_INT(__float2bfloat16(bf).__x, 0x7fff);
        else CHECK_INT(__float2bfloat16(bf).__x, i);
    }
    for (unsigned i = 0; i < 256; i++) {
        float e4m3 = penny_fp8_to_float(i, __NV_E4M3), e5m2 = penny_fp8_to_float(i, __NV_E5M2);
        if (!std::isnan(e4m3)) CHECK_INT(__nv_cvt_float_to_fp8(e4m3, __NV_NOSAT, __NV_E4M3), i);
        if (!std::isnan(e5m2)) CHECK_INT(__nv_cvt_float_to_fp8(e5m2, __NV_NOSAT, __NV_E5M2), i);
    }
}

static void numbers_are_rounded_to_the_nearest() {
    auto e4m3 = [](unsigned i) { return static_cast<double>(penny_fp8_to_float(i, __NV_E4M3)); };
    auto e5m2 = [](unsigned i) { return static_cast<double>(penny_fp8_to_float(i, __NV_E5M2)); };
    for (int i = 0; i < 4000; i++) {
        float value = std::ldexp(static_cast<float>(i % 97) / 32, i % 23 - 15);
        if (value < 448) CHECK_INT(__nv_cvt_float_to_fp8(value, __NV_NOSAT, __NV_E4M3), nearest(value, 0x7f, e4m3));
        CHECK_INT(__nv_cvt_float_to_fp8(value, __NV_NOSAT, __NV_E5M2), nearest(value, 0x7c, e5m2));
    }
    CHECK_INT(__float2half(1.0f).__x, 0x3c00);
    CHECK_INT(__float2half(65504.0f).__x, 0x7bff);
    CHECK_INT(__float2half(65519.0f).__x, 0x7bff);
    CHECK_INT(__float2half(65520.0f).__x, 0x7c00);
    CHECK_INT(__float2half(-2.98023224e-8f).__x, 0x8000);
    CHECK_INT(__float2half(2.98023259e-8f).__x, 0x0001);
    CHECK_INT(__float2half(1.00048828125f).__x, 0x3c00);
    CHECK_INT(__float2half(1.00146484375f).__x, 0x3c02);
    CHECK_INT(__float2bfloat16(3.3961775e38f).__x, 0x7f80);
    CHECK_INT(__float2bfloat16(1.00390625f).__x, 0x3f80);
    CHECK_INT(__nv_cvt_float_to_fp8(1000.0f, __NV_SATFINITE, __NV_E4M3), 0x7e);
    CHECK_INT(__nv_cvt_float_to_fp8(-1000.0f, __NV_NOSAT, __NV_E4M3), 0xff);
    CHECK_INT(__nv_cvt_float_to_fp8(1e6f, __NV_SATFINITE, __NV_E5M2), 0x7b);
    CHECK_INT(__nv_cvt_float_to_fp8(1e6f, __NV_NOSAT, __NV_E5M2), 0x7c);
}

static void small_numbers_are_computed_with() {
    half a = 1.5f, b = 2;
    CHECK(float(a * b) == 3.0f && float(a + b) == 3.5f && a < b && float(-a) == -1.5f);
    nv_bfloat16 c = 3, d = 4;
    CHECK(float(c - d) == -1.0f && float(__hadd(c, d)) == 7.0f && c != d);
    CHECK(float(__nv_fp8_e4m3(0.3f)) == 0.3125f && float(__nv_fp8_e5m2(3.4f)) == 3.5f);
    CHECK(__half2float(__half(__nv_cvt_fp8_to_halfraw(0x38, __NV_E4M3))) == 1.0f);
    CHECK(sizeof(half) == 2 && sizeof(__half2) == 4 && sizeof(__nv_fp8_e4m3) == 1);
}

int main() {
    RUN(functions_know_types);
    RUN(symbols_are_variables);
    RUN(copies_end_where_a_symbol_ends);
    RUN(graphs_have_their_older_form);
    RUN(every_small_number_comes_back);
    RUN(numbers_are_rounded_to_the_nearest);
    RUN(small_numbers_are_computed_with);
    return 0;
}
