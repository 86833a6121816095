/* Small numbers, bits, roundings, divisions by zero: what functions of devices give, against C's. */
#include "check.h"

#include <cmath>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

template <class H> __global__ void square(const H *from, H *to, int count) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < count) to[i] = from[i] * from[i] + H(1.0f);
}

__global__ void pairs(const half2 *a, half2 *to) {
    half2 two = __float2half2_rn(2.0f);
    to[threadIdx.x] = __hfma2(a[threadIdx.x], two, __halves2half2(__high2half(a[threadIdx.x]), __low2half(two)));
}

struct Divided {
    int quotient, rest, least, least_rest;
    unsigned int uquotient, urest;
    long long lquotient;
    unsigned long long uquotients[3];
    short shorts;
    int is_behind;
};

__global__ void divide(Divided *to, const volatile int *zero, const volatile long long *zeros, const volatile unsigned long long *table) {
    Divided mine;
    int z = *zero, one = z - 1, least = -2147483647 - 1 + z;
    mine.quotient = 17 / z;
    mine.rest = 17 % z;
    mine.least = least / one;
    mine.least_rest = least % one;
    mine.uquotient = 17u / (unsigned int)z;
    mine.urest = 17u % (unsigned int)z;
    mine.lquotient = -5ll / *zeros;
    for (int i = 0; i < 3; i++) mine.uquotients[i] = 100ull / table[i];
    mine.shorts = (short)((short)(7 + z) / (short)z);
    mine.is_behind = 1;
    to[threadIdx.x] = mine;
}

__global__ void bits(unsigned int *to, float *numbers) {
    to[0] = __popc(0xf0f0u), to[1] = __clz(1), to[2] = __ffs(8), to[3] = __brev(1u), to[4] = __byte_perm(0x33221100, 0x77665544, 0x7150);
    to[5] = __umulhi(0x80000000u, 6u), to[6] = __clzll(1), to[7] = __funnelshift_l(0x80000000u, 1u, 1);
    to[8] = __float_as_uint(1.0f), to[9] = (unsigned int)__float2int_rn(2.5f), to[10] = (unsigned int)__float2int_rz(-2.7f);
    to[11] = (unsigned int)__double2int_ru(2.1), to[12] = __float2uint_rn(-3.0f), to[13] = (unsigned int)__float2int_rn(1e20f);
    to[14] = min(3u, 7u), to[15] = (unsigned int)max(-3, 7), to[16] = __umul64hi(1ull << 63, 6) == 3, to[17] = __sad(3, -4, 10);
    numbers[0] = rsqrtf(4.0f), numbers[1] = __fdividef(1.0f, 4.0f), numbers[2] = __saturatef(1.5f), numbers[3] = __int_as_float(0x40000000);
    numbers[4] = fmaxf(1.0f, 2.0f), numbers[5] = __fmaf_rn(2.0f, 3.0f, 4.0f), numbers[6] = __ldg(numbers + 5), numbers[7] = sinpif(0.5f);
    long long begin = clock64();
    __threadfence();
    numbers[8] = clock64() >= begin;
}

template <class H> static void halves() {
    const int n = 200;
    H *from = device<H>(n, [](int i) { return H(i * 0.25f - 20); }), *to = device<H>(n);
    square<<<4, 64>>>(from, to, n);
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) {
        float x = (float)from[i];
        CHECK((float)to[i] == (float)(H((float)H(x * x) + 1.0f)));
    }
}

int main() {
    halves<half>();
    halves<__nv_bfloat16>();
    half2 *pair = device<half2>(1), *made = device<half2>(1);
    pair[0] = __floats2half2_rn(3.0f, 5.0f);
    pairs<<<1, 1>>>(pair, made);
    CUDA(cudaDeviceSynchronize());
    CHECK(__low2float(made[0]) == 11.0f && __high2float(made[0]) == 12.0f);
    /* Whole numbers are rounded once: 2049 lies between two halves, and so does 4097 * 2^40 + 1 among bfloat16. */
    CHECK(__half2float(__int2half_rn(2049)) == 2048 && __half2float(__ull2half_rn(2051)) == 2052 && __half2int_rz(__float2half(-2.75f)) == -2);
    CHECK(__bfloat162float(__ull2bfloat16_rn((257ull << 40) + 1)) == (float)(258ull << 40));
    CHECK(__half2float(__float2half_rd(2049.0f)) == 2048 && __half2float(__float2half_ru(2049.0f)) == 2050 && __half2float(__float2half_rz(-2051.0f)) == -2050);
    CHECK(__hlt(__float2half(1), __float2half(2)) && __hisnan(__float2half(NAN)) && __half2uint_rn(__float2half(-1)) == 0);
    CHECK((float)__nv_fp8_e4m3(448.0f) == 448 && (float)__nv_fp8_e5m2(3.0f) == 3);

    Divided *divided = device<Divided>(2);
    int *zero = device<int>(1);
    long long *zeros = device<long long>(1);
    unsigned long long *table = device<unsigned long long>(3, [](int i) { return (unsigned long long)(i - 1) * (i - 1) * 10; });
    divide<<<1, 2>>>(divided, zero, zeros, table);
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 2; i++) {
        const Divided &one = divided[i];
        CHECK(one.least == -2147483647 - 1 && one.least_rest == 0 && one.is_behind == 1);
        CHECK(one.uquotients[0] == 10 && one.uquotients[2] == 10);
#if defined(__x86_64__)
        CHECK(one.quotient == -1 && one.rest == 17 && one.uquotient == 0xffffffffu && one.urest == 17 && one.lquotient == -1);
        CHECK(one.uquotients[1] == ~0ull && one.shorts == -1);
#endif
    }

    unsigned int *values = device<unsigned int>(18);
    float *numbers = device<float>(9);
    bits<<<1, 1>>>(values, numbers);
    CUDA(cudaDeviceSynchronize());
    const unsigned int wanted[18] = {8, 31, 4, 0x80000000, 0x77115500, 3, 63, 3, 0x3f800000, 2, -2u, 3, 0, 2147483647, 3, 7, 1, 17};
    for (int i = 0; i < 18; i++) CHECK(values[i] == wanted[i] || (std::fprintf(stderr, "%d: %x\n", i, values[i]), false));
    const float exact[9] = {0.5f, 0.25f, 1, 2, 2, 10, 10, 1, 1};
    for (int i = 0; i < 9; i++) CHECK(numbers[i] == exact[i]);
    std::puts("numbers");
}
