/* Functions of half precision and bfloat16 that CUDA's headers have beside the types: conversions, arithmetic of single numbers and of
   pairs, comparisons, mathematics. All are float's, rounded. Included by cuda_fp16.h and cuda_bf16.h. */
#ifndef PENNY_HALF_FUNCTIONS_H
#define PENNY_HALF_FUNCTIONS_H

#ifdef __cplusplus

#include <cmath>

#include "penny_small_floats.h"
#include "vector_types.h"

/* name: half or bfloat16; H: its type; P: that of a pair; F: float from H; T: H from float. */
#define PENNY_HALF_CONVERSIONS(name, H, F, T)                                                                          \
    inline H __float2##name##_rz(float value) {                                                                        \
        H made = T(value);                                                                                             \
        if (std::fabs(F(made)) > std::fabs(value)) made.__x--;                                                         \
        return made;                                                                                                   \
    }                                                                                                                  \
    inline H __float2##name##_rd(float value) {                                                                        \
        H made = T(value);                                                                                             \
        if (F(made) > value) made = penny_next(made, -1);                                                              \
        return made;                                                                                                   \
    }                                                                                                                  \
    inline H __float2##name##_ru(float value) {                                                                        \
        H made = T(value);                                                                                             \
        if (F(made) < value) made = penny_next(made, 1);                                                               \
        return made;                                                                                                   \
    }                                                                                                                  \
    PENNY_HALF_CONVERSION(name, H, T, int, int)                                                                        \
    PENNY_HALF_CONVERSION(name, H, T, uint, unsigned int)                                                              \
    PENNY_HALF_CONVERSION(name, H, T, short, short)                                                                    \
    PENNY_HALF_CONVERSION(name, H, T, ushort, unsigned short)                                                          \
    PENNY_HALF_CONVERSION(name, H, T, ll, long long)                                                                   \
    PENNY_HALF_CONVERSION(name, H, T, ull, unsigned long long)                                                         \
    PENNY_HALF_WHOLE(name, H, F, int, int)                                                                             \
    PENNY_HALF_WHOLE(name, H, F, uint, unsigned int)                                                                   \
    PENNY_HALF_WHOLE(name, H, F, short, short)                                                                         \
    PENNY_HALF_WHOLE(name, H, F, ushort, unsigned short)                                                               \
    PENNY_HALF_WHOLE(name, H, F, ll, long long)                                                                        \
    PENNY_HALF_WHOLE(name, H, F, ull, unsigned long long)                                                              \
    inline short __##name##_as_short(H value) { return static_cast<short>(value.__x); }                                \
    inline H __short_as_##name(short bits) {                                                                           \
        H made;                                                                                                        \
        made.__x = static_cast<unsigned short>(bits);                                                                  \
        return made;                                                                                                   \
    }

/* A whole number is rounded once: float holds more than twice the bits, and what it has to drop is kept as its last bit. */
#define PENNY_HALF_CONVERSION(name, H, T, from, type)                                                                  \
    inline H __##from##2##name##_rn(type value) { return T(penny_odd_float(value)); }
/* To a whole number: the nearest, towards zero, down, up; what is beyond its range becomes its least or greatest. */
#define PENNY_HALF_WHOLE(name, H, F, to, type)                                                                         \
    inline type __##name##2##to##_rn(H value) { return penny_whole<type>(std::nearbyint(F(value))); }                  \
    inline type __##name##2##to##_rz(H value) { return penny_whole<type>(std::trunc(F(value))); }                      \
    inline type __##name##2##to##_rd(H value) { return penny_whole<type>(std::floor(F(value))); }                      \
    inline type __##name##2##to##_ru(H value) { return penny_whole<type>(std::ceil(F(value))); }

/* A float whose last bit says that something was cut off, so that rounding it again is right. */
template <class T> inline float penny_odd_float(T value) {
    float made = static_cast<float>(value);
    const long double exact = static_cast<long double>(value), got = static_cast<long double>(made);
    if (got == exact) return made;
    unsigned int bits = penny_float_bits(made);
    if ((got > exact) == (exact > 0)) bits--;
    return penny_bits_float(bits | 1);
}
template <class T> inline T penny_whole(float value) {
    const T least = static_cast<T>(static_cast<T>(-1) < 0 ? static_cast<T>(1ull << (8 * sizeof(T) - 1)) : 0);
    const T most = static_cast<T>(~least);
    if (value != value) return 0;
    if (value < static_cast<float>(least)) return least;
    return value >= static_cast<float>(most) ? most : static_cast<T>(value);
}
/* The next number up or down. */
template <class H> inline H penny_next(H value, int up) {
    unsigned short &bits = value.__x;
    if ((bits & 0x7fff) == 0) bits = static_cast<unsigned short>(up > 0 ? 1 : 0x8001);
    else bits = static_cast<unsigned short>(bits + (((bits & 0x8000) == 0) == (up > 0) ? 1 : -1));
    return value;
}

#define PENNY_HALF_ARITHMETIC(H, P, F, T)                                                                              \
    inline H penny_saturate(H a) { return T(std::fmin(std::fmax(F(a), 0.0f), 1.0f)); }                                 \
    inline H __hadd_rn(H a, H b) { return T(F(a) + F(b)); }                                                            \
    inline H __hsub_rn(H a, H b) { return T(F(a) - F(b)); }                                                            \
    inline H __hmul_rn(H a, H b) { return T(F(a) * F(b)); }                                                            \
    inline H __hadd_sat(H a, H b) { return penny_saturate(T(F(a) + F(b))); }                                           \
    inline H __hsub_sat(H a, H b) { return penny_saturate(T(F(a) - F(b))); }                                           \
    inline H __hmul_sat(H a, H b) { return penny_saturate(T(F(a) * F(b))); }                                           \
    inline H __hfma(H a, H b, H c) { return T(penny_fma(F(a), F(b), F(c))); }                                          \
    inline H __hfma_relu(H a, H b, H c) { return T(std::fmax(penny_fma(F(a), F(b), F(c)), 0.0f)); }                    \
    inline H __hneg(H a) {                                                                                             \
        a.__x ^= 0x8000;                                                                                               \
        return a;                                                                                                      \
    }                                                                                                                  \
    inline H __habs(H a) {                                                                                             \
        a.__x &= 0x7fff;                                                                                               \
        return a;                                                                                                      \
    }                                                                                                                  \
    inline bool __heq(H a, H b) { return F(a) == F(b); }                                                               \
    inline bool __hne(H a, H b) { return F(a) < F(b) || F(a) > F(b); }                                                 \
    inline bool __hlt(H a, H b) { return F(a) < F(b); }                                                                \
    inline bool __hle(H a, H b) { return F(a) <= F(b); }                                                               \
    inline bool __hgt(H a, H b) { return F(a) > F(b); }                                                                \
    inline bool __hge(H a, H b) { return F(a) >= F(b); }                                                               \
    inline bool __hisnan(H a) { return F(a) != F(a); }                                                                 \
    inline int __hisinf(H a) { return std::isinf(F(a)) ? F(a) > 0 ? 1 : -1 : 0; }                                      \
    inline H __hmax(H a, H b) { return T(std::fmax(F(a), F(b))); }                                                     \
    inline H __hmin(H a, H b) { return T(std::fmin(F(a), F(b))); }                                                     \
    inline H __hmax_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); }                         \
    inline H __hmin_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); }                         \
    inline H hsqrt(H a) { return T(std::sqrt(F(a))); }                                                                 \
    inline H hrsqrt(H a) { return T(1.0f / std::sqrt(F(a))); }                                                         \
    inline H hrcp(H a) { return T(1.0f / F(a)); }                                                                      \
    inline H hexp(H a) { return T(std::exp(F(a))); }                                                                   \
    inline H hexp2(H a) { return T(std::exp2(F(a))); }                                                                 \
    inline H hlog(H a) { return T(std::log(F(a))); }                                                                   \
    inline H hlog2(H a) { return T(std::log2(F(a))); }                                                                 \
    inline H hlog10(H a) { return T(std::log10(F(a))); }                                                               \
    inline H hsin(H a) { return T(std::sin(F(a))); }                                                                   \
    inline H hcos(H a) { return T(std::cos(F(a))); }                                                                   \
    inline H htanh(H a) { return T(std::tanh(F(a))); }                                                                 \
    inline H hfloor(H a) { return T(std::floor(F(a))); }                                                               \
    inline H hceil(H a) { return T(std::ceil(F(a))); }                                                                 \
    inline H htrunc(H a) { return T(std::trunc(F(a))); }                                                               \
    inline H hrint(H a) { return T(std::nearbyint(F(a))); }                                                            \
    inline P penny_pair(H x, H y) {                                                                                    \
        P made;                                                                                                        \
        made.x = x;                                                                                                    \
        made.y = y;                                                                                                    \
        return made;                                                                                                   \
    }                                                                                                                  \
    inline H __low2##P(P a) { return a.x; }                                                                            \
    PENNY_HALF_PAIRS(P, __hadd) PENNY_HALF_PAIRS(P, __hsub) PENNY_HALF_PAIRS(P, __hmul)                                \
    PENNY_HALF_PAIRS(P, __hmax) PENNY_HALF_PAIRS(P, __hmin)                                                          \
    inline P __h2div(P a, P b) { return penny_pair(T(F(a.x) / F(b.x)), T(F(a.y) / F(b.y))); }                          \
    inline P __hfma2(P a, P b, P c) { return penny_pair(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }               \
    inline P __hneg2(P a) { return penny_pair(__hneg(a.x), __hneg(a.y)); }                                             \
    inline P __habs2(P a) { return penny_pair(__habs(a.x), __habs(a.y)); }                                             \
    inline bool __hbeq2(P a, P b) { return __heq(a.x, b.x) && __heq(a.y, b.y); }                                       \
    inline bool __hblt2(P a, P b) { return __hlt(a.x, b.x) && __hlt(a.y, b.y); }                                       \
    inline bool __hbgt2(P a, P b) { return __hgt(a.x, b.x) && __hgt(a.y, b.y); }                                       \
    inline P operator+(const P &a, const P &b) { return __hadd2(a, b); }                                               \
    inline P operator-(const P &a, const P &b) { return __hsub2(a, b); }                                               \
    inline P operator*(const P &a, const P &b) { return __hmul2(a, b); }                                               \
    inline P operator/(const P &a, const P &b) { return __h2div(a, b); }                                               \
    inline P operator-(const P &a) { return __hneg2(a); }                                                              \
    inline P &operator+=(P &a, const P &b) { return a = a + b; }                                                       \
    inline P &operator-=(P &a, const P &b) { return a = a - b; }                                                       \
    inline P &operator*=(P &a, const P &b) { return a = a * b; }                                                       \
    inline bool operator==(const P &a, const P &b) { return __hbeq2(a, b); }

/* The product is exact in double. */
inline float penny_fma(float a, float b, float c) { return penny_odd_float(static_cast<double>(a) * b + c); }
#define PENNY_HALF_PAIRS(P, name)                                                                                      \
    inline P name##2(P a, P b) { return penny_pair(name(a.x, b.x), name(a.y, b.y)); }

#endif

#endif
