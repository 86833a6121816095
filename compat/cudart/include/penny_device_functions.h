/* Functions that kernels have beside those of C: fences, clocks, bits, rounding, fast mathematics. Included by cuda_runtime.h in programs of
   penny-nvcc. */
#ifndef PENNY_DEVICE_FUNCTIONS_H
#define PENNY_DEVICE_FUNCTIONS_H

#include <stdlib.h>
#include <time.h>

#include "penny_small_floats.h"
#include "vector_types.h"

#ifdef __cplusplus

#include <cmath>
#include <cstdio>

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __trap() { abort(); }
inline void __brkpt() {}
#define __builtin_assume(condition) ((void)0)
inline void __prof_trigger(int) {}

namespace penny_cuda {
inline unsigned long long global_timer() {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}
} // namespace penny_cuda
/* A device of 1 GHz, as its properties say. */
inline long long clock64() { return (long long)penny_cuda::global_timer(); }

/* Loads and stores with hints to caches. */
#define PENNY_LOADS(name)                                                                                              \
    template <class T> inline T name(const T *address) { return *address; }
PENNY_LOADS(__ldg)
PENNY_LOADS(__ldca)
PENNY_LOADS(__ldcg)
PENNY_LOADS(__ldcs)
PENNY_LOADS(__ldcv)
PENNY_LOADS(__ldlu)
#undef PENNY_LOADS
template <class T> inline void __stwb(T *address, T value) { *address = value; }
template <class T> inline void __stcg(T *address, T value) { *address = value; }
template <class T> inline void __stcs(T *address, T value) { *address = value; }
template <class T> inline void __stwt(T *address, T value) { *address = value; }
inline size_t __cvta_generic_to_global(const void *address) { return (size_t)address; }
inline size_t __cvta_generic_to_shared(const void *address) { return (size_t)address; }
inline unsigned int __isGlobal(const void *) { return 1; }

/* Least and greatest, as CUDA has them for all numbers. */
#define PENNY_LEAST(type)                                                                                              \
    inline type min(type a, type b) { return b < a ? b : a; }                                                          \
    inline type max(type a, type b) { return a < b ? b : a; }
PENNY_LEAST(int)
PENNY_LEAST(unsigned int)
PENNY_LEAST(long)
PENNY_LEAST(unsigned long)
PENNY_LEAST(long long)
PENNY_LEAST(unsigned long long)
#undef PENNY_LEAST
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline unsigned int min(int a, unsigned int b) { return min((unsigned int)a, b); }
inline unsigned int min(unsigned int a, int b) { return min(a, (unsigned int)b); }
inline unsigned int max(int a, unsigned int b) { return max((unsigned int)a, b); }
inline unsigned int max(unsigned int a, int b) { return max(a, (unsigned int)b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double max(double a, float b) { return fmax(a, b); }
inline int umin(unsigned int a, unsigned int b) { return (int)min(a, b); }
inline int umax(unsigned int a, unsigned int b) { return (int)max(a, b); }

/* Bits */
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned int)x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned int __brev(unsigned int x) {
    unsigned int made = 0;
    for (int bit = 0; bit < 32; bit++) made |= (x >> bit & 1) << (31 - bit);
    return made;
}
inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned int)x) << 32 | __brev((unsigned int)(x >> 32));
}
inline unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector) {
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned int made = 0;
    for (int i = 0; i < 4; i++) {
        unsigned int chosen = selector >> 4 * i & 15, byte = (unsigned int)(both >> 8 * (chosen & 7)) & 255;
        if (chosen & 8) byte = byte & 128 ? 255 : 0;
        made |= byte << 8 * i;
    }
    return made;
}
inline unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
    return (unsigned int)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
    return (unsigned int)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline unsigned int __umul24(unsigned int a, unsigned int b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned int __umulhi(unsigned int a, unsigned int b) { return (unsigned int)((unsigned long long)a * b >> 32); }
__extension__ typedef __int128 penny_int128;
__extension__ typedef unsigned __int128 penny_uint128;
inline long long __mul64hi(long long a, long long b) { return (long long)((penny_int128)a * b >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((penny_uint128)a * b >> 64);
}
inline unsigned int __sad(int a, int b, unsigned int c) {
    return c + (a < b ? (unsigned int)b - (unsigned int)a : (unsigned int)a - (unsigned int)b);
}

/* Bits of floating-point numbers */
inline int __float_as_int(float x) { return (int)penny_float_bits(x); }
inline unsigned int __float_as_uint(float x) { return penny_float_bits(x); }
inline float __int_as_float(int x) { return penny_bits_float((unsigned int)x); }
inline float __uint_as_float(unsigned int x) { return penny_bits_float(x); }
inline long long __double_as_longlong(double x) {
    long long made;
    memcpy(&made, &x, sizeof made);
    return made;
}
inline double __longlong_as_double(long long x) {
    double made;
    memcpy(&made, &x, sizeof made);
    return made;
}
inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned int)high << 32 | (unsigned int)low));
}

/* Conversions; what lies beyond the type becomes its least or greatest number. */
namespace penny_cuda {
template <class T> inline T saturated(double x, double least, double beyond, T lowest, T highest) {
    if (x != x) return 0;
    return x < least ? lowest : x >= beyond ? highest : (T)x;
}
inline int to_int(double x) { return saturated<int>(x, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647); }
inline unsigned int to_uint(double x) { return saturated<unsigned int>(x, 0.0, 4294967296.0, 0u, 4294967295u); }
inline long long to_ll(double x) {
    return saturated<long long>(x, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807ll - 1,
                                9223372036854775807ll);
}
inline unsigned long long to_ull(double x) {
    return saturated<unsigned long long>(x, 0.0, 18446744073709551616.0, 0ull, 18446744073709551615ull);
}
} // namespace penny_cuda
#define PENNY_ROUNDINGS(from, type)                                                                                    \
    inline int __##from##2int_rn(type x) { return penny_cuda::to_int(nearbyint((double)x)); }                          \
    inline int __##from##2int_rz(type x) { return penny_cuda::to_int(trunc((double)x)); }                              \
    inline int __##from##2int_rd(type x) { return penny_cuda::to_int(floor((double)x)); }                              \
    inline int __##from##2int_ru(type x) { return penny_cuda::to_int(ceil((double)x)); }                               \
    inline unsigned int __##from##2uint_rn(type x) { return penny_cuda::to_uint(nearbyint((double)x)); }               \
    inline unsigned int __##from##2uint_rz(type x) { return penny_cuda::to_uint(trunc((double)x)); }                   \
    inline unsigned int __##from##2uint_rd(type x) { return penny_cuda::to_uint(floor((double)x)); }                   \
    inline unsigned int __##from##2uint_ru(type x) { return penny_cuda::to_uint(ceil((double)x)); }                    \
    inline long long __##from##2ll_rn(type x) { return penny_cuda::to_ll(nearbyint((double)x)); }                      \
    inline long long __##from##2ll_rz(type x) { return penny_cuda::to_ll(trunc((double)x)); }                          \
    inline unsigned long long __##from##2ull_rn(type x) { return penny_cuda::to_ull(nearbyint((double)x)); }           \
    inline unsigned long long __##from##2ull_rz(type x) { return penny_cuda::to_ull(trunc((double)x)); }
PENNY_ROUNDINGS(float, float)
PENNY_ROUNDINGS(double, double)
#undef PENNY_ROUNDINGS
inline float __double2float_rn(double x) { return (float)x; }
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned int x) { return (float)x; }
inline float __ll2float_rn(long long x) { return (float)x; }
inline float __ull2float_rn(unsigned long long x) { return (float)x; }
inline double __int2double_rn(int x) { return (double)x; }
inline double __uint2double_rn(unsigned int x) { return (double)x; }
inline double __ll2double_rn(long long x) { return (double)x; }
inline double __ull2double_rn(unsigned long long x) { return (double)x; }

/* Mathematics. The fast functions are the precise ones. */
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline float __saturatef(float x) { return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f; }
inline float saturate(float x) { return __saturatef(x); }
inline float fdividef(float x, float y) { return x / y; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }
inline void __sincosf(float x, float *sine, float *cosine) {
    *sine = sinf(x);
    *cosine = cosf(x);
}
inline float sinpif(float x) { return (float)sin((double)fmodf(x, 2.0f) * 3.14159265358979323846); }
inline float cospif(float x) { return (float)cos((double)fmodf(x, 2.0f) * 3.14159265358979323846); }
inline double sinpi(double x) { return sin(fmod(x, 2.0) * 3.14159265358979323846); }
inline double cospi(double x) { return cos(fmod(x, 2.0) * 3.14159265358979323846); }
inline float normcdff(float x) { return 0.5f * erfcf(x * -0.70710678f); }
inline double normcdf(double x) { return 0.5 * erfc(x * -0.70710678118654752440); }

/* The rounding is the process's: to nearest, unless the program changes it. */
#define PENNY_ARITHMETIC(f, type, root)                                                                                \
    inline type __##f##add_rn(type a, type b) { return a + b; }                                                        \
    inline type __##f##sub_rn(type a, type b) { return a - b; }                                                        \
    inline type __##f##mul_rn(type a, type b) { return a * b; }                                                        \
    inline type __##f##div_rn(type a, type b) { return a / b; }                                                        \
    inline type __##f##rcp_rn(type a) { return 1 / a; }                                                                \
    inline type __##f##sqrt_rn(type a) { return root(a); }
PENNY_ARITHMETIC(f, float, sqrtf)
PENNY_ARITHMETIC(d, double, sqrt)
#undef PENNY_ARITHMETIC
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

#endif

#endif
