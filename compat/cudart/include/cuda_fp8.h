/* Numbers of 8 bits on the host: E4M3, which has no infinities, and E5M2; the functions, and in C++ the types. */
#ifndef PENNY_CUDA_FP8_H
#define PENNY_CUDA_FP8_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;

/* What is too large: NaN in E4M3 and infinity in E5M2, or the greatest number. */
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

static inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                                       __nv_fp8_interpretation_t interpretation) {
    uint32_t bits = penny_float_bits(x), amount = bits & 0x7fffffff, sign = bits >> 31 << 7, rounded;
    uint32_t greatest = interpretation == __NV_E4M3 ? 0x7e : 0x7b, beyond = interpretation == __NV_E4M3 ? 0x7f : 0x7c;
    if (amount > 0x7f800000) return interpretation == __NV_E4M3 ? 0x7f : 0x7e;
    if (amount == 0x7f800000) {
        rounded = beyond;
    } else {
        rounded = interpretation == __NV_E4M3 ? penny_round_small(x, 4, 3) : penny_round_small(x, 5, 2);
    }
    if (rounded > greatest) rounded = saturate == __NV_SATFINITE ? greatest : beyond;
    return (__nv_fp8_storage_t)(sign | rounded);
}
static inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate,
                                                        __nv_fp8_interpretation_t interpretation) {
    return __nv_cvt_float_to_fp8((float)x, saturate, interpretation);
}
static inline float penny_fp8_to_float(__nv_fp8_storage_t x, __nv_fp8_interpretation_t interpretation) {
    if (interpretation == __NV_E5M2) return penny_from_small(x, 5, 2, 1);
    return (x & 0x7f) == 0x7f ? penny_bits_float(0x7fffffff) : penny_from_small(x, 4, 3, 0);
}
static inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t interpretation) {
    __half_raw made;
    made.x = (unsigned short)penny_to_small(penny_fp8_to_float(x, interpretation), 5, 10, 0x7fff);
    return made;
}
static inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate,
                                                         __nv_fp8_interpretation_t interpretation) {
    return __nv_cvt_float_to_fp8(penny_from_small(x.x, 5, 10, 1), saturate, interpretation);
}
static inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturate,
                                                             __nv_fp8_interpretation_t interpretation) {
    return __nv_cvt_float_to_fp8(penny_from_small(x.x, 8, 7, 1), saturate, interpretation);
}

#ifdef __cplusplus
template <__nv_fp8_interpretation_t interpretation> struct penny_fp8 {
    __nv_fp8_storage_t __x;

    penny_fp8() = default;
    explicit penny_fp8(float value) : __x(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, interpretation)) {}
    explicit penny_fp8(double value) : penny_fp8(static_cast<float>(value)) {}
    explicit penny_fp8(int value) : penny_fp8(static_cast<float>(value)) {}
    explicit penny_fp8(__half value) : penny_fp8(static_cast<float>(value)) {}
    explicit penny_fp8(__nv_bfloat16 value) : penny_fp8(static_cast<float>(value)) {}
    explicit operator float() const { return penny_fp8_to_float(__x, interpretation); }
    explicit operator double() const { return penny_fp8_to_float(__x, interpretation); }
    explicit operator __half() const { return __half(penny_fp8_to_float(__x, interpretation)); }
};
typedef penny_fp8<__NV_E4M3> __nv_fp8_e4m3;
typedef penny_fp8<__NV_E5M2> __nv_fp8_e5m2;
#else
typedef struct {
    __nv_fp8_storage_t __x;
} __nv_fp8_e4m3;
typedef struct {
    __nv_fp8_storage_t __x;
} __nv_fp8_e5m2;
#endif

#define __CUDA_FP8_TYPES_EXIST__

#endif
