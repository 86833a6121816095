/* Functions of a warp, the 32 threads of a block whose numbers follow each other. Each waits until all threads that `mask` names and that
   have not ended have called it. Included by cuda_runtime.h in programs of penny-nvcc. */
#ifndef PENNY_WARP_H
#define PENNY_WARP_H

#include <string.h>

#include "penny_kernel.h"

#ifdef __cplusplus

/* What pennyCudaWarp is asked for; src/warp.rs has the same numbers. */
enum { penny_warp_sync, penny_warp_shuffle, penny_warp_ballot, penny_warp_match, penny_warp_active };

inline unsigned long long penny_warp(unsigned int mask, int what, unsigned long long value, unsigned int lane) {
    const uint3 mine = threadIdx;
    const unsigned long long answer = pennyCudaWarp(penny_cuda::thread_number(), mask, what, value, lane);
    threadIdx = mine;
    return answer;
}

inline void __syncwarp(unsigned int mask = 0xffffffffu) { penny_warp(mask, penny_warp_sync, 0, 0); }
inline unsigned int __activemask() { return (unsigned int)penny_warp(0, penny_warp_active, 0, 0); }
inline unsigned int __ballot_sync(unsigned int mask, int predicate) {
    return (unsigned int)penny_warp(mask, penny_warp_ballot, predicate != 0, 0);
}
inline int __any_sync(unsigned int mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned int mask, int predicate) { return __ballot_sync(mask, predicate == 0) == 0; }

namespace penny_cuda {

/* The bits of a value, up to eight bytes, and back. */
template <class T> inline unsigned long long to_bits(const T &value) {
    static_assert(sizeof(T) <= sizeof(unsigned long long), "functions of a warp take values of up to eight bytes");
    unsigned long long bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T> inline T from_bits(unsigned long long bits) {
    T value;
    memcpy(static_cast<void *>(&value), &bits, sizeof value);
    return value;
}

/* The value of the thread `lane`, or the own one if that is not in the thread's part of the warp. */
template <class T> inline T shuffle(unsigned int mask, const T &value, bool is_there, unsigned int lane) {
    const unsigned int mine = thread_number() % 32;
    return from_bits<T>(penny_warp(mask, penny_warp_shuffle, to_bits(value), is_there ? lane : mine));
}

} // namespace penny_cuda

template <class T> inline T __shfl_sync(unsigned int mask, T value, int lane, int width = 32) {
    const unsigned int mine = penny_cuda::thread_number() % 32, part = (unsigned int)width;
    return penny_cuda::shuffle(mask, value, true, mine / part * part + (unsigned int)lane % part);
}
template <class T> inline T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {
    const unsigned int mine = penny_cuda::thread_number() % 32, part = (unsigned int)width;
    return penny_cuda::shuffle(mask, value, mine % part >= delta, mine - delta);
}
template <class T> inline T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32) {
    const unsigned int mine = penny_cuda::thread_number() % 32, part = (unsigned int)width;
    return penny_cuda::shuffle(mask, value, mine % part + delta < part, mine + delta);
}
template <class T> inline T __shfl_xor_sync(unsigned int mask, T value, int lanes, int width = 32) {
    const unsigned int mine = penny_cuda::thread_number() % 32, part = (unsigned int)width;
    const unsigned int lane = mine ^ (unsigned int)lanes;
    return penny_cuda::shuffle(mask, value, lane / part <= mine / part, lane);
}
template <class T> inline unsigned int __match_any_sync(unsigned int mask, T value) {
    return (unsigned int)penny_warp(mask, penny_warp_match, penny_cuda::to_bits(value), 0);
}
template <class T> inline unsigned int __match_all_sync(unsigned int mask, T value, int *predicate) {
    const unsigned int same = __match_any_sync(mask, value), all = (unsigned int)penny_warp(mask, penny_warp_sync, 0, 0);
    *predicate = same == all;
    return *predicate ? all : 0;
}

#define PENNY_WARP_REDUCE(name, type, fold)                                                                            \
    inline type name(unsigned int mask, type value) {                                                                  \
        type total = value;                                                                                            \
        for (unsigned int lane = 0, mine = penny_cuda::thread_number() % 32; lane < 32; lane++) {                      \
            if ((mask >> lane & 1) == 0) continue;                                                                     \
            const type other = __shfl_sync(mask, value, (int)lane);                                                    \
            if (lane != mine) total = fold;                                                                            \
        }                                                                                                              \
        return total;                                                                                                  \
    }
PENNY_WARP_REDUCE(__reduce_add_sync, unsigned int, total + other)
PENNY_WARP_REDUCE(__reduce_add_sync, int, total + other)
PENNY_WARP_REDUCE(__reduce_min_sync, unsigned int, other < total ? other : total)
PENNY_WARP_REDUCE(__reduce_min_sync, int, other < total ? other : total)
PENNY_WARP_REDUCE(__reduce_max_sync, unsigned int, other > total ? other : total)
PENNY_WARP_REDUCE(__reduce_max_sync, int, other > total ? other : total)
PENNY_WARP_REDUCE(__reduce_and_sync, unsigned int, total &other)
PENNY_WARP_REDUCE(__reduce_or_sync, unsigned int, total | other)
PENNY_WARP_REDUCE(__reduce_xor_sync, unsigned int, total ^ other)
#undef PENNY_WARP_REDUCE

#endif

#endif
