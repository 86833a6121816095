/* Floats of any width by their definition: the references of test programs compute with these. */
#ifndef FLOATS_H
#define FLOATS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* A format: bytes, the widths of exponent and mantissa, and the bits of the largest number and of what is beyond it. */
typedef struct {
    size_t size;
    int exponent, mantissa;
    uint64_t most, beyond;
} format;

#define HALF {2, 5, 10, 0x7bff, 0x7c00}
#define BFLOAT {2, 8, 7, 0x7f7f, 0x7f80}
#define E4M3 {1, 4, 3, 0x7e, 0x7e}
#define E5M2 {1, 5, 2, 0x7b, 0x7b}
#define SINGLE {4, 8, 23, 0x7f7fffff, 0x7f800000}
#define DOUBLE {8, 11, 52, 0x7fefffffffffffff, 0x7ff0000000000000}

static inline uint64_t sign_of(format f) { return (uint64_t)1 << (8 * f.size - 1); }

/* The value of bits that are a number. */
static inline double value_of(format f, uint64_t bits) {
    int bias = (1 << (f.exponent - 1)) - 1;
    uint64_t hidden = (uint64_t)1 << f.mantissa;
    int exponent = (int)((bits & (sign_of(f) - 1)) >> f.mantissa);
    double digits = (double)((bits & (hidden - 1)) + (exponent > 0 ? hidden : 0));
    double value = ldexp(digits, (exponent > 0 ? exponent : 1) - bias - f.mantissa);
    return bits & sign_of(f) ? -value : value;
}

/* The bits nearest to a number, ties to even. */
static inline uint64_t nearest(format f, double x) {
    int bias = (1 << (f.exponent - 1)) - 1;
    uint64_t sign = signbit(x) ? sign_of(f) : 0, bits;
    if (x == 0) return sign;
    int power = ilogb(x) < 1 - bias ? 1 - bias : ilogb(x);
    bits = ((uint64_t)(power + bias - 1) << f.mantissa) + (uint64_t)nearbyint(ldexp(fabs(x), f.mantissa - power));
    return sign | (bits > f.most ? f.beyond : bits);
}

/* The product of two elements, rounded. */
static inline uint64_t product_of(format f, uint64_t a, uint64_t b) { return nearest(f, value_of(f, a) * value_of(f, b)); }

/* 1/n, by which the inputs of an average are multiplied. */
static inline uint64_t one_nth(format f, int n) { return nearest(f, f.size < 8 ? (float)(1.0 / n) : 1.0 / n); }

static inline uint64_t noise(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* A number near 1 made of noise. Sums of two are rounded once in every type, and no product of two leaves the type. */
static inline uint64_t number_of_noise(format f, uint64_t bits) {
    uint64_t around = (uint64_t)(1 << (f.exponent - 1)) - 3 + bits % 6;
    return (bits >> 8 & (((uint64_t)1 << f.mantissa) - 1)) | (bits & 1 << 7 ? sign_of(f) : 0) | around << f.mantissa;
}

#endif
