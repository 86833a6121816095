/* Half precision on the host: the types, their conversions, and in C++ their arithmetic, which is float's. A double is rounded to float
   first. */
#ifndef PENNY_CUDA_FP16_H
#define PENNY_CUDA_FP16_H

#include "host_defines.h"
#include "penny_small_floats.h"
#include "vector_types.h"

typedef struct __align__(2) {
    unsigned short x;
} __half_raw;

typedef struct __align__(4) {
    unsigned short x, y;
} __half2_raw;

#ifdef __cplusplus
struct __half;
#else
typedef struct __align__(2) __half {
    unsigned short __x;
} __half;
#endif

static inline __half __float2half(float value);
static inline float __half2float(__half value);

#ifdef __cplusplus
struct __align__(2) __half {
    unsigned short __x;

    __half() = default;
    __half(__half_raw raw) : __x(raw.x) {}
    __half(float value) : __x(__float2half(value).__x) {}
    __half(double value) : __x(__float2half(static_cast<float>(value)).__x) {}
    __half(short value) : __x(__float2half(static_cast<float>(value)).__x) {}
    __half(unsigned short value) : __x(__float2half(static_cast<float>(value)).__x) {}
    __half(int value) : __x(__float2half(static_cast<float>(value)).__x) {}
    __half(unsigned value) : __x(__float2half(static_cast<float>(value)).__x) {}
    __half(long value) : __x(__float2half(static_cast<float>(value)).__x) {}
    __half(unsigned long value) : __x(__float2half(static_cast<float>(value)).__x) {}
    __half(long long value) : __x(__float2half(static_cast<float>(value)).__x) {}
    __half(unsigned long long value) : __x(__float2half(static_cast<float>(value)).__x) {}
    operator float() const { return __half2float(*this); }
    operator __half_raw() const {
        __half_raw raw;
        raw.x = __x;
        return raw;
    }
};
#endif

typedef struct __align__(4) __half2 {
    __half x, y;
} __half2;

static inline __half __float2half(float value) {
    __half made;
    made.__x = (unsigned short)penny_to_small(value, 5, 10, 0x7fff);
    return made;
}
static inline float __half2float(__half value) {
    return penny_from_small(value.__x, 5, 10, 1);
}
static inline __half __float2half_rn(float value) { return __float2half(value); }
static inline __half __double2half(double value) { return __float2half((float)value); }
static inline __half2 __floats2half2_rn(float a, float b) {
    __half2 made;
    made.x = __float2half(a);
    made.y = __float2half(b);
    return made;
}
static inline __half2 __float22half2_rn(float2 value) { return __floats2half2_rn(value.x, value.y); }
static inline float2 __half22float2(__half2 value) {
    float2 made;
    made.x = __half2float(value.x);
    made.y = __half2float(value.y);
    return made;
}
static inline float __low2float(__half2 value) { return __half2float(value.x); }
static inline float __high2float(__half2 value) { return __half2float(value.y); }
static inline unsigned short __half_as_ushort(__half value) { return value.__x; }
static inline __half __ushort_as_half(unsigned short bits) {
    __half made;
    made.__x = bits;
    return made;
}

#ifdef __cplusplus
inline __half operator+(const __half &a, const __half &b) { return __float2half(__half2float(a) + __half2float(b)); }
inline __half &operator+=(__half &a, const __half &b) { return a = a + b; }
inline __half operator-(const __half &a, const __half &b) { return __float2half(__half2float(a) - __half2float(b)); }
inline __half &operator-=(__half &a, const __half &b) { return a = a - b; }
inline __half operator*(const __half &a, const __half &b) { return __float2half(__half2float(a) * __half2float(b)); }
inline __half &operator*=(__half &a, const __half &b) { return a = a * b; }
inline __half operator/(const __half &a, const __half &b) { return __float2half(__half2float(a) / __half2float(b)); }
inline __half &operator/=(__half &a, const __half &b) { return a = a / b; }
inline __half operator-(const __half &a) { return __float2half(-__half2float(a)); }
inline bool operator==(const __half &a, const __half &b) { return __half2float(a) == __half2float(b); }
inline bool operator!=(const __half &a, const __half &b) { return __half2float(a) != __half2float(b); }
inline bool operator<(const __half &a, const __half &b) { return __half2float(a) < __half2float(b); }
inline bool operator>(const __half &a, const __half &b) { return __half2float(a) > __half2float(b); }
inline bool operator<=(const __half &a, const __half &b) { return __half2float(a) <= __half2float(b); }
inline bool operator>=(const __half &a, const __half &b) { return __half2float(a) >= __half2float(b); }
#endif

static inline __half __hadd(__half a, __half b) { return __float2half(__half2float(a) + __half2float(b)); }
static inline __half __hsub(__half a, __half b) { return __float2half(__half2float(a) - __half2float(b)); }
static inline __half __hmul(__half a, __half b) { return __float2half(__half2float(a) * __half2float(b)); }
static inline __half __hdiv(__half a, __half b) { return __float2half(__half2float(a) / __half2float(b)); }

#ifdef __cplusplus
#include "penny_half_functions.h"
PENNY_HALF_CONVERSIONS(half, __half, __half2float, __float2half)
PENNY_HALF_ARITHMETIC(__half, __half2, __half2float, __float2half)
inline __half2 __halves2half2(__half x, __half y) { return penny_pair(x, y); }
inline __half2 make_half2(__half x, __half y) { return penny_pair(x, y); }
inline __half2 __half2half2(__half x) { return penny_pair(x, x); }
inline __half2 __float2half2_rn(float x) { return penny_pair(__float2half(x), __float2half(x)); }
inline __half __low2half(__half2 pair) { return pair.x; }
inline __half __high2half(__half2 pair) { return pair.y; }
inline __half2 __low2half2(__half2 pair) { return penny_pair(pair.x, pair.x); }
inline __half2 __high2half2(__half2 pair) { return penny_pair(pair.y, pair.y); }
inline __half2 __lowhigh2highlow(__half2 pair) { return penny_pair(pair.y, pair.x); }
#endif

#define __CUDA_FP16_TYPES_EXIST__

typedef __half half;
typedef __half2 half2;

#if defined(PENNY_NVCC) && defined(__cplusplus)
#include "penny_atomics.h"
inline __half atomicAdd(__half *address, __half value) {
    return penny_cuda::atomic_fold<unsigned short>(address, [=](__half old) { return old + value; });
}
#endif

#endif
