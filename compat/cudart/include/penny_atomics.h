/* Atomic operations of kernels: those of the host, so they hold among all threads of the process and between ranks that share the memory.
   Included by cuda_runtime.h in programs of penny-nvcc. */
#ifndef PENNY_ATOMICS_H
#define PENNY_ATOMICS_H

#include "vector_types.h"

#ifdef __cplusplus

namespace penny_cuda {

/* Replaces a value by a function of it. Returns the old one. The bits are compared, so a NaN ends the loop, too. */
template <class Bits, class T, class Fold> inline T atomic_fold(T *at, Fold fold) {
    static_assert(sizeof(Bits) == sizeof(T), "an atomic value has as many bits as its place");
    Bits old = __atomic_load_n(reinterpret_cast<Bits *>(at), __ATOMIC_RELAXED), made;
    T before;
    do {
        __builtin_memcpy(static_cast<void *>(&before), &old, sizeof before);
        const T after = fold(before);
        __builtin_memcpy(&made, &after, sizeof made);
    } while (!__atomic_compare_exchange_n(reinterpret_cast<Bits *>(at), &old, made, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return before;
}

} // namespace penny_cuda

#define PENNY_ATOMIC_WHOLE(type)                                                                                       \
    inline type atomicAdd(type *address, type value) { return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST); }  \
    inline type atomicSub(type *address, type value) { return __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST); }  \
    inline type atomicAnd(type *address, type value) { return __atomic_fetch_and(address, value, __ATOMIC_SEQ_CST); }  \
    inline type atomicOr(type *address, type value) { return __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST); }    \
    inline type atomicXor(type *address, type value) { return __atomic_fetch_xor(address, value, __ATOMIC_SEQ_CST); }  \
    inline type atomicExch(type *address, type value) { return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST); } \
    inline type atomicMin(type *address, type value) {                                                                 \
        return penny_cuda::atomic_fold<type>(address, [=](type old) { return value < old ? value : old; });            \
    }                                                                                                                  \
    inline type atomicMax(type *address, type value) {                                                                 \
        return penny_cuda::atomic_fold<type>(address, [=](type old) { return value > old ? value : old; });            \
    }                                                                                                                  \
    inline type atomicCAS(type *address, type compare, type value) {                                                   \
        __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
        return compare;                                                                                                \
    }
PENNY_ATOMIC_WHOLE(int)
PENNY_ATOMIC_WHOLE(unsigned int)
PENNY_ATOMIC_WHOLE(long long)
PENNY_ATOMIC_WHOLE(unsigned long long)
#undef PENNY_ATOMIC_WHOLE

inline unsigned short atomicCAS(unsigned short *address, unsigned short compare, unsigned short value) {
    __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return compare;
}
inline unsigned int atomicInc(unsigned int *address, unsigned int value) {
    return penny_cuda::atomic_fold<unsigned int>(address, [=](unsigned int old) { return old >= value ? 0 : old + 1; });
}
inline unsigned int atomicDec(unsigned int *address, unsigned int value) {
    return penny_cuda::atomic_fold<unsigned int>(
        address, [=](unsigned int old) { return old == 0 || old > value ? value : old - 1; });
}
inline float atomicAdd(float *address, float value) {
    return penny_cuda::atomic_fold<unsigned int>(address, [=](float old) { return old + value; });
}
inline double atomicAdd(double *address, double value) {
    return penny_cuda::atomic_fold<unsigned long long>(address, [=](double old) { return old + value; });
}
inline float atomicExch(float *address, float value) {
    return penny_cuda::atomic_fold<unsigned int>(address, [=](float) { return value; });
}

/* Within a block and within the system are the same. */
#define PENNY_ATOMIC_SCOPES(name)                                                                                      \
    template <class T, class V> inline T name##_block(T *address, V value) { return name(address, (T)value); }         \
    template <class T, class V> inline T name##_system(T *address, V value) { return name(address, (T)value); }
PENNY_ATOMIC_SCOPES(atomicAdd)
PENNY_ATOMIC_SCOPES(atomicSub)
PENNY_ATOMIC_SCOPES(atomicAnd)
PENNY_ATOMIC_SCOPES(atomicOr)
PENNY_ATOMIC_SCOPES(atomicXor)
PENNY_ATOMIC_SCOPES(atomicExch)
PENNY_ATOMIC_SCOPES(atomicMin)
PENNY_ATOMIC_SCOPES(atomicMax)
PENNY_ATOMIC_SCOPES(atomicInc)
PENNY_ATOMIC_SCOPES(atomicDec)
#undef PENNY_ATOMIC_SCOPES
template <class T, class V> inline T atomicCAS_block(T *address, V compare, V value) {
    return atomicCAS(address, (T)compare, (T)value);
}
template <class T, class V> inline T atomicCAS_system(T *address, V compare, V value) {
    return atomicCAS(address, (T)compare, (T)value);
}

#endif

#endif
