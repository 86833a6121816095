// Elements and buffers: what a call takes, and the type that it tells the library.
//
// A buffer is anything contiguous with data() and size(): std::vector, std::array, a built-in array, penny::span. A pointer with a
// number of elements is penny::span(pointer, count).

#ifndef PENNY_ELEMENTS_HPP
#define PENNY_ELEMENTS_HPP

#include <penny/error.hpp>

#include <cstddef>
#include <iterator>
#include <new>
#include <type_traits>
#include <vector>

#if __cplusplus >= 202002L
#include <span>
#endif
#if __cplusplus > 202002L && __has_include(<stdfloat>)
#include <stdfloat>
#endif

namespace penny {

// The element type of T for the library. A program declares its own types, such as a class for 16-bit floats:
//
//     template <> struct penny::element<half> { static constexpr pennyDataType_t type = pennyFloat16; };
template <class T, class = void>
struct element {
    static_assert(sizeof(T) == 0, "Penny has no such element type; specialise penny::element for it");
};

namespace detail {
template <class T>
constexpr pennyDataType_t integer() {
    constexpr bool is_signed = std::is_signed<T>::value;
    return sizeof(T) == 1   ? is_signed ? pennyInt8 : pennyUint8
           : sizeof(T) == 2 ? is_signed ? pennyInt16 : pennyUint16
           : sizeof(T) == 4 ? is_signed ? pennyInt32 : pennyUint32
                            : is_signed ? pennyInt64 : pennyUint64;
}
}  // namespace detail

template <class T>
struct element<T, std::enable_if_t<std::is_integral<T>::value && sizeof(T) <= 8>> {
    static constexpr pennyDataType_t type = detail::integer<T>();
};
template <>
struct element<bool> {
    static constexpr pennyDataType_t type = pennyBool;
};
template <>
struct element<std::byte> {
    static constexpr pennyDataType_t type = pennyUint8;
};
template <>
struct element<float> {
    static constexpr pennyDataType_t type = pennyFloat32;
};
template <>
struct element<double> {
    static constexpr pennyDataType_t type = pennyFloat64;
};
#if defined(__STDCPP_FLOAT16_T__)
template <>
struct element<std::float16_t> {
    static constexpr pennyDataType_t type = pennyFloat16;
};
#endif
#if defined(__STDCPP_BFLOAT16_T__)
template <>
struct element<std::bfloat16_t> {
    static constexpr pennyDataType_t type = pennyBfloat16;
};
#endif

#if __cplusplus >= 202002L
using std::span;
#else
// A view of elements that another object owns: std::span, for C++17.
template <class T>
class span {
public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <class C, class = std::enable_if_t<std::is_convertible<decltype(std::data(std::declval<C &>())), T *>::value>>
    constexpr span(C &&buffer) noexcept : data_(std::data(buffer)), size_(std::size(buffer)) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const { return data_[i]; }
    constexpr span subspan(std::size_t offset, std::size_t count) const { return {data_ + offset, count}; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
template <class T>
span(T *, std::size_t) -> span<T>;
template <class C>
span(C &&buffer) -> span<std::remove_pointer_t<decltype(std::data(buffer))>>;
#endif

// The blocks of a call with a count for each rank: the counts, and where each block begins, in elements. Without displacements the
// blocks follow each other. Both lists are read during the call only.
struct blocks {
    blocks(span<const std::size_t> block_counts, span<const std::size_t> block_displacements = {})
        : counts(block_counts), displacements(block_displacements) {}
    template <class C, class = std::enable_if_t<std::is_convertible<const C &, span<const std::size_t>>::value>>
    blocks(const C &block_counts) : counts(block_counts) {}

    span<const std::size_t> counts;
    span<const std::size_t> displacements;
};

namespace detail {
template <class C>
using element_of = std::remove_pointer_t<decltype(std::data(std::declval<C &>()))>;

// Returns the elements of an input.
template <class C>
span<const element_of<const C>> input(const C &buffer) {
    return {std::data(buffer), std::size(buffer)};
}

// Returns the elements of an output.
template <class C>
span<element_of<C>> output(C &buffer) {
    static_assert(!std::is_const<element_of<C>>::value, "the call writes to this buffer, whose elements are const");
    return {std::data(buffer), std::size(buffer)};
}

template <class C>
constexpr pennyDataType_t type_of = element<std::remove_cv_t<element_of<C>>>::type;

template <class S, class R>
constexpr void same_elements() {
    static_assert(std::is_same<std::remove_cv_t<element_of<S>>, std::remove_cv_t<element_of<R>>>::value,
                  "the elements of both buffers must have one type");
}
}  // namespace detail

// An allocator of memory that the other ranks can reach (pennyMemAlloc): calls on it copy less. Do not free it while a call of any
// rank uses it. Where there is no memory it throws penny::error; without exceptions it ends the process with the sentence.
template <class T>
struct allocator {
    using value_type = T;

    allocator() noexcept = default;
    template <class U>
    allocator(const allocator<U> &) noexcept {}

    T *allocate(std::size_t count) {
        static_assert(alignof(T) <= 64, "memory of pennyMemAlloc is aligned to 64 bytes");
        void *start = nullptr;
        if (count > static_cast<std::size_t>(-1) / sizeof(T)) {
            detail::fail(status(pennyInvalidArgument, "penny::allocator: more elements than memory has addresses"));
        }
        status outcome = detail::outcome(pennyMemAlloc(&start, count * sizeof(T)));
        if (!outcome) detail::fail(outcome);
        return static_cast<T *>(start);
    }
    void deallocate(T *start, std::size_t) noexcept { (void)pennyMemFree(start); }

    template <class U>
    bool operator==(const allocator<U> &) const noexcept { return true; }
    template <class U>
    bool operator!=(const allocator<U> &) const noexcept { return false; }
};

// A vector in memory that the other ranks can reach.
template <class T>
using shared_vector = std::vector<T, allocator<T>>;

}  // namespace penny

#endif
