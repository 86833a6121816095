/* Small floating-point numbers on the host: rounding to them and reading them, for the formats of cuda_fp16.h, cuda_bf16.h and
   cuda_fp8.h. A format has `exponent` bits, then `mantissa` bits, below a sign. */
#ifndef PENNY_SMALL_FLOATS_H
#define PENNY_SMALL_FLOATS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t penny_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float penny_bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds the amount of a finite number to nearest, ties to even. What is too large goes on counting above the greatest
   exponent. */
static inline uint32_t penny_round_small(float value, int exponent, int mantissa) {
    uint32_t bits = penny_float_bits(value), above = (bits >> 23) & 255, whole = bits & 0x7fffff, rest, half, kept;
    int place = (above == 0 ? -126 : (int)above - 127) + (1 << (exponent - 1)) - 1, shift = 23 - mantissa;
    if (above != 0) whole |= 0x800000;
    if (place <= 0) {
        shift += 1 - place;
        place = 1;
    }
    if (shift == 0) return ((uint32_t)(place - 1) << mantissa) + whole;
    if (shift > 25) return 0;
    rest = whole & ((1u << shift) - 1);
    half = 1u << (shift - 1);
    kept = whole >> shift;
    if (rest > half || (rest == half && (kept & 1))) kept++;
    return ((uint32_t)(place - 1) << mantissa) + kept;
}

/* Rounds to a format that has infinities. nan: the one that stands for all. */
static inline uint32_t penny_to_small(float value, int exponent, int mantissa, uint32_t nan) {
    uint32_t bits = penny_float_bits(value), sign = bits >> 31 << (exponent + mantissa), amount = bits & 0x7fffffff;
    uint32_t infinity = ((1u << exponent) - 1) << mantissa, rounded;
    if (amount > 0x7f800000) return nan;
    if (amount == 0x7f800000) return sign | infinity;
    rounded = penny_round_small(value, exponent, mantissa);
    return sign | (rounded < infinity ? rounded : infinity);
}

/* Reads a number of a format, in which all exponents are finite unless it has infinities. */
static inline float penny_from_small(uint32_t small, int exponent, int mantissa, int has_infinities) {
    uint32_t sign = (small >> (exponent + mantissa) & 1) << 31, most = (1u << exponent) - 1;
    uint32_t above = small >> mantissa & most, rest = small & ((1u << mantissa) - 1);
    int bias = (1 << (exponent - 1)) - 1;
    float value;
    if (has_infinities && above == most) return penny_bits_float(sign | 0x7f800000 | rest << (23 - mantissa));
    if (above != 0) return penny_bits_float(sign | (above + 127 - (uint32_t)bias) << 23 | rest << (23 - mantissa));
    if (exponent == 8) return penny_bits_float(sign | rest << (23 - mantissa));
    value = (float)rest * penny_bits_float((uint32_t)(127 + 1 - bias - mantissa) << 23);
    return sign != 0 ? -value : value;
}

#endif
