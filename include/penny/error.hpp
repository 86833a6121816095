// Errors of Penny in C++: as exceptions, or as results.
//
// Each class of this interface is written once, over a policy that says how it tells failures:
//
//     penny::communicator               exceptions        comm.barrier();                       throws penny::error
//     penny::nothrow::communicator      results           if (auto done = comm.barrier(); !done) puts(done.what());

#ifndef PENNY_ERROR_HPP
#define PENNY_ERROR_HPP

#include <penny.h>

#include <optional>
#include <string>
#include <utility>

#if defined(__cpp_exceptions)
#include <stdexcept>
#else
#include <cstdio>
#include <cstdlib>
#endif

namespace penny {

#if defined(__cpp_exceptions)
// The failure of a call. what() is the sentence of pennyGetLastError: the function, the argument, the rank, the remedy.
class error : public std::runtime_error {
public:
    error(pennyResult_t code, const std::string &sentence) : std::runtime_error(sentence), code_(code) {}

    // Returns the result of the call, which is not pennySuccess. include/README.md says what each means for the communicator.
    pennyResult_t code() const noexcept { return code_; }

private:
    pennyResult_t code_;
};
#endif

// The outcome of a call: success, or a failure with its sentence.
class [[nodiscard]] status {
public:
    status() noexcept = default;
    status(pennyResult_t code, std::string sentence) : code_(code), sentence_(std::move(sentence)) {}

    // Tells whether the call succeeded.
    explicit operator bool() const noexcept { return code_ == pennySuccess; }

    pennyResult_t code() const noexcept { return code_; }

    // Returns the sentence of the failure; empty after a success.
    const char *what() const noexcept { return sentence_.c_str(); }

private:
    pennyResult_t code_ = pennySuccess;
    std::string sentence_;
};

// The outcome of a call that returns something: a value, or a failure with its sentence.
template <class T>
class [[nodiscard]] result : public status {
public:
    result(T &&value) : value_(std::move(value)) {}
    result(status &&failure) : status(std::move(failure)) {}

    // Returns the value. Only after a success; a result that was not looked at has undefined behaviour, as std::optional has.
    T &operator*() & noexcept { return *value_; }
    T &&operator*() && noexcept { return *std::move(value_); }
    T *operator->() noexcept { return &*value_; }

private:
    std::optional<T> value_;
};

template <>
class [[nodiscard]] result<void> : public status {
public:
    result(status &&outcome) : status(std::move(outcome)) {}
};

// The policy of penny::nothrow: a call returns what came of it.
struct as_results {
    template <class T>
    using returned = result<T>;

    static result<void> tell(status &&outcome) { return std::move(outcome); }
    template <class T>
    static result<T> give(T &&value) { return std::move(value); }
    template <class T>
    static result<T> fail(status &&failure) { return std::move(failure); }
};

#if defined(__cpp_exceptions)
// The default policy: a failure is a penny::error, and a call returns only its value.
struct as_exceptions {
    template <class T>
    using returned = T;

    static void tell(status &&outcome) {
        if (!outcome) throw error(outcome.code(), outcome.what());
    }
    template <class T>
    static T give(T &&value) { return std::move(value); }
    template <class T>
    static T fail(status &&failure) { throw error(failure.code(), failure.what()); }
};
#endif

namespace detail {

// Makes the outcome of a function of penny.h.
inline status outcome(pennyResult_t code) {
    return code == pennySuccess ? status() : status(code, pennyGetLastError(nullptr));
}

// Refuses a call before it reaches the library. A group that is open on this thread then runs nothing, as after any call that is
// refused: the call on no communicator tells it so.
inline status refused(pennyResult_t code, std::string sentence) {
    (void)pennyBarrier(nullptr, nullptr);
    return status(code, std::move(sentence));
}

// Ends what cannot return a failure, such as an allocator.
[[noreturn]] inline void fail(const status &failure) {
#if defined(__cpp_exceptions)
    throw error(failure.code(), failure.what());
#else
    std::fprintf(stderr, "%s\n", failure.what());
    std::abort();
#endif
}

// A handle that has one owner, and is destroyed with it.
template <class Handle, pennyResult_t (*Destroy)(Handle)>
class owned {
public:
    owned() noexcept = default;
    explicit owned(Handle handle) noexcept : handle_(handle) {}
    owned(owned &&other) noexcept : handle_(other.release()) {}
    owned &operator=(owned &&other) noexcept {
        if (this != &other) {
            (void)destroy();
            handle_ = other.release();
        }
        return *this;
    }
    ~owned() { (void)destroy(); }

    Handle get() const noexcept { return handle_; }
    Handle release() noexcept { return std::exchange(handle_, Handle()); }
    // A handle that was moved from has nothing to destroy.
    pennyResult_t destroy() noexcept { return handle_ == Handle() ? pennySuccess : Destroy(release()); }

private:
    Handle handle_ = Handle();
};

}  // namespace detail
}  // namespace penny

#endif
