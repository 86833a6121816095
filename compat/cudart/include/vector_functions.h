/* Functions that make the vectors of vector_types.h. */
#ifndef PENNY_VECTOR_FUNCTIONS_H
#define PENNY_VECTOR_FUNCTIONS_H

#include "vector_types.h"

#define PENNY_MAKE(name, type)                                                                                         \
    static inline name##1 make_##name##1(type x) {                                                                     \
        name##1 made = {x};                                                                                            \
        return made;                                                                                                   \
    }                                                                                                                  \
    static inline name##2 make_##name##2(type x, type y) {                                                             \
        name##2 made = {x, y};                                                                                         \
        return made;                                                                                                   \
    }                                                                                                                  \
    static inline name##3 make_##name##3(type x, type y, type z) {                                                     \
        name##3 made = {x, y, z};                                                                                      \
        return made;                                                                                                   \
    }                                                                                                                  \
    static inline name##4 make_##name##4(type x, type y, type z, type w) {                                             \
        name##4 made = {x, y, z, w};                                                                                   \
        return made;                                                                                                   \
    }

PENNY_MAKE(char, signed char)
PENNY_MAKE(uchar, unsigned char)
PENNY_MAKE(short, short)
PENNY_MAKE(ushort, unsigned short)
PENNY_MAKE(int, int)
PENNY_MAKE(uint, unsigned int)
PENNY_MAKE(long, long)
PENNY_MAKE(ulong, unsigned long)
PENNY_MAKE(longlong, long long)
PENNY_MAKE(ulonglong, unsigned long long)
PENNY_MAKE(float, float)
PENNY_MAKE(double, double)

#undef PENNY_MAKE

#endif
