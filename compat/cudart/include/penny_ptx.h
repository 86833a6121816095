/* What instructions of a device in asm become: penny-nvcc writes these calls. Included by cuda_runtime.h in its programs. */
#ifndef PENNY_PTX_H
#define PENNY_PTX_H

#include <string.h>

#ifdef __cplusplus
#include <type_traits>

namespace penny_cuda {

template <class T, class A> inline T *ptx_at(A address) { return (T *)(address); }

/* A value in a register: the bits, where one is a number and the other is not; else the number. */
template <class T, class V> inline T ptx_bits(V value, std::true_type) {
    T made;
    memcpy(&made, &value, sizeof made);
    return made;
}
template <class T, class V> inline T ptx_bits(V value, std::false_type) { return (T)(value); }
template <class T, class V> struct IsBits {
    typedef std::integral_constant<bool, sizeof(T) == sizeof(V) && !(std::is_integral<T>::value && std::is_integral<V>::value) &&
                                             !std::is_same<T, V>::value && !std::is_pointer<V>::value &&
                                             !std::is_pointer<T>::value && !std::is_enum<V>::value>
        type;
};
template <class T, class V> inline T ptx_get(V value) { return ptx_bits<T>(value, typename IsBits<T, V>::type()); }
template <class T, class L, class V> inline void ptx_set(L &to, V value) {
    const T typed = ptx_get<T>(value);
    to = ptx_bits<L>(typed, typename IsBits<L, T>::type());
}

/* Loads and stores of devices are those of one thread in its order, and visible to others. */
template <class T, class A> inline T ptx_load(A address, int index) {
    T made;
    __atomic_load(ptx_at<T>(address) + index, &made, __ATOMIC_ACQUIRE);
    return made;
}
template <class T, class A, class V> inline void ptx_store(A address, int index, V value) {
    T typed = ptx_get<T>(value);
    __atomic_store(ptx_at<T>(address) + index, &typed, __ATOMIC_RELEASE);
}

} // namespace penny_cuda
#endif

#endif
