/* bfloat16 on the host: the types, their conversions, and in C++ their arithmetic, which is float's. A double is rounded to float
   first. */
#ifndef PENNY_CUDA_BF16_H
#define PENNY_CUDA_BF16_H

#include "host_defines.h"
#include "penny_small_floats.h"
#include "vector_types.h"

typedef struct __align__(2) {
    unsigned short x;
} __nv_bfloat16_raw;

typedef struct __align__(4) {
    unsigned short x, y;
} __nv_bfloat162_raw;

#ifdef __cplusplus
struct __nv_bfloat16;
#else
typedef struct __align__(2) __nv_bfloat16 {
    unsigned short __x;
} __nv_bfloat16;
#endif

static inline __nv_bfloat16 __float2bfloat16(float value);
static inline float __bfloat162float(__nv_bfloat16 value);

#ifdef __cplusplus
struct __align__(2) __nv_bfloat16 {
    unsigned short __x;

    __nv_bfloat16() = default;
    __nv_bfloat16(__nv_bfloat16_raw raw) : __x(raw.x) {}
    __nv_bfloat16(float value) : __x(__float2bfloat16(value).__x) {}
    __nv_bfloat16(double value) : __x(__float2bfloat16(static_cast<float>(value)).__x) {}
    __nv_bfloat16(short value) : __x(__float2bfloat16(static_cast<float>(value)).__x) {}
    __nv_bfloat16(unsigned short value) : __x(__float2bfloat16(static_cast<float>(value)).__x) {}
    __nv_bfloat16(int value) : __x(__float2bfloat16(static_cast<float>(value)).__x) {}
    __nv_bfloat16(unsigned value) : __x(__float2bfloat16(static_cast<float>(value)).__x) {}
    __nv_bfloat16(long value) : __x(__float2bfloat16(static_cast<float>(value)).__x) {}
    __nv_bfloat16(unsigned long value) : __x(__float2bfloat16(static_cast<float>(value)).__x) {}
    __nv_bfloat16(long long value) : __x(__float2bfloat16(static_cast<float>(value)).__x) {}
    __nv_bfloat16(unsigned long long value) : __x(__float2bfloat16(static_cast<float>(value)).__x) {}
    operator float() const { return __bfloat162float(*this); }
    operator __nv_bfloat16_raw() const {
        __nv_bfloat16_raw raw;
        raw.x = __x;
        return raw;
    }
};
#endif

typedef struct __align__(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
} __nv_bfloat162;

static inline __nv_bfloat16 __float2bfloat16(float value) {
    __nv_bfloat16 made;
    made.__x = (unsigned short)penny_to_small(value, 8, 7, 0x7fff);
    return made;
}
static inline float __bfloat162float(__nv_bfloat16 value) {
    return penny_from_small(value.__x, 8, 7, 1);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __float2bfloat16(value); }
static inline __nv_bfloat16 __double2bfloat16(double value) { return __float2bfloat16((float)value); }
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
    __nv_bfloat162 made;
    made.x = __float2bfloat16(a);
    made.y = __float2bfloat16(b);
    return made;
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 value) { return __floats2bfloat162_rn(value.x, value.y); }
static inline float2 __bfloat1622float2(__nv_bfloat162 value) {
    float2 made;
    made.x = __bfloat162float(value.x);
    made.y = __bfloat162float(value.y);
    return made;
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.__x; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    __nv_bfloat16 made;
    made.__x = bits;
    return made;
}

#ifdef __cplusplus
inline __nv_bfloat16 operator+(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return __float2bfloat16(__bfloat162float(a) + __bfloat162float(b)); }
inline __nv_bfloat16 &operator+=(__nv_bfloat16 &a, const __nv_bfloat16 &b) { return a = a + b; }
inline __nv_bfloat16 operator-(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return __float2bfloat16(__bfloat162float(a) - __bfloat162float(b)); }
inline __nv_bfloat16 &operator-=(__nv_bfloat16 &a, const __nv_bfloat16 &b) { return a = a - b; }
inline __nv_bfloat16 operator*(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return __float2bfloat16(__bfloat162float(a) * __bfloat162float(b)); }
inline __nv_bfloat16 &operator*=(__nv_bfloat16 &a, const __nv_bfloat16 &b) { return a = a * b; }
inline __nv_bfloat16 operator/(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return __float2bfloat16(__bfloat162float(a) / __bfloat162float(b)); }
inline __nv_bfloat16 &operator/=(__nv_bfloat16 &a, const __nv_bfloat16 &b) { return a = a / b; }
inline __nv_bfloat16 operator-(const __nv_bfloat16 &a) { return __float2bfloat16(-__bfloat162float(a)); }
inline bool operator==(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return __bfloat162float(a) == __bfloat162float(b); }
inline bool operator!=(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return __bfloat162float(a) != __bfloat162float(b); }
inline bool operator<(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return __bfloat162float(a) < __bfloat162float(b); }
inline bool operator>(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return __bfloat162float(a) > __bfloat162float(b); }
inline bool operator<=(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return __bfloat162float(a) <= __bfloat162float(b); }
inline bool operator>=(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return __bfloat162float(a) >= __bfloat162float(b); }
static inline __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return a + b; }
static inline __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return a - b; }
static inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return a * b; }
static inline __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) { return a / b; }
#endif

#ifdef __cplusplus
#include "penny_half_functions.h"
PENNY_HALF_CONVERSIONS(bfloat16, __nv_bfloat16, __bfloat162float, __float2bfloat16)
PENNY_HALF_ARITHMETIC(__nv_bfloat16, __nv_bfloat162, __bfloat162float, __float2bfloat16)
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return penny_pair(x, y); }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return penny_pair(x, y); }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return penny_pair(x, x); }
inline __nv_bfloat162 __float2bfloat162_rn(float x) { return penny_pair(__float2bfloat16(x), __float2bfloat16(x)); }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 pair) { return pair.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 pair) { return pair.y; }
inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 pair) { return penny_pair(pair.x, pair.x); }
inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 pair) { return penny_pair(pair.y, pair.y); }
inline __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 pair) { return penny_pair(pair.y, pair.x); }
#endif

#define __CUDA_BF16_TYPES_EXIST__

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#if defined(PENNY_NVCC) && defined(__cplusplus)
#include "penny_atomics.h"
inline __nv_bfloat16 atomicAdd(__nv_bfloat16 *address, __nv_bfloat16 value) {
    return penny_cuda::atomic_fold<unsigned short>(address, [=](__nv_bfloat16 old) { return old + value; });
}
#endif

#endif
