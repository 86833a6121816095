/* Vectors of two, three and four numbers, aligned as a device has them, and dim3. */
#ifndef PENNY_VECTOR_TYPES_H
#define PENNY_VECTOR_TYPES_H

#include "host_defines.h"

#define PENNY_VECTORS(name, type, align2, align4)                                                                      \
    typedef struct name##1 {                                                                                           \
        type x;                                                                                                        \
    } name##1;                                                                                                         \
    typedef struct __attribute__((aligned(align2))) name##2 {                                                          \
        type x, y;                                                                                                     \
    } name##2;                                                                                                         \
    typedef struct name##3 {                                                                                           \
        type x, y, z;                                                                                                  \
    } name##3;                                                                                                         \
    typedef struct __attribute__((aligned(align4))) name##4 {                                                          \
        type x, y, z, w;                                                                                               \
    } name##4

PENNY_VECTORS(char, signed char, 2, 4);
PENNY_VECTORS(uchar, unsigned char, 2, 4);
PENNY_VECTORS(short, short, 4, 8);
PENNY_VECTORS(ushort, unsigned short, 4, 8);
PENNY_VECTORS(int, int, 8, 16);
PENNY_VECTORS(uint, unsigned int, 8, 16);
PENNY_VECTORS(long, long, 16, 16);
PENNY_VECTORS(ulong, unsigned long, 16, 16);
PENNY_VECTORS(longlong, long long, 16, 16);
PENNY_VECTORS(ulonglong, unsigned long long, 16, 16);
PENNY_VECTORS(float, float, 8, 16);
PENNY_VECTORS(double, double, 16, 16);

#undef PENNY_VECTORS

typedef struct dim3 {
    unsigned int x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
#endif
} dim3;

#endif
