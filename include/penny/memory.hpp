// What belongs to a communicator: registered memory, windows, reductions with a factor. Each ends with its object, or with the
// communicator if that ends before.

#ifndef PENNY_MEMORY_HPP
#define PENNY_MEMORY_HPP

#include <penny/error.hpp>

namespace penny {
namespace detail {

// A handle that a communicator has given, and that is given back with its object.
template <class Handle, pennyResult_t (*Destroy)(pennyComm_t, Handle)>
class lent {
public:
    lent() noexcept = default;
    lent(pennyComm_t comm, Handle handle) noexcept : comm_(comm), handle_(handle) {}
    lent(lent &&other) noexcept : comm_(std::exchange(other.comm_, nullptr)), handle_(other.handle_) {}
    lent &operator=(lent &&other) noexcept {
        std::swap(comm_, other.comm_);
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~lent() {
        if (comm_ != nullptr) (void)Destroy(comm_, handle_);
    }

protected:
    Handle handle() const noexcept { return handle_; }

private:
    pennyComm_t comm_ = nullptr;
    Handle handle_ = Handle();
};

inline pennyResult_t destroy_reduction(pennyComm_t comm, pennyRedOp_t op) { return pennyRedOpDestroy(op, comm); }

}  // namespace detail

// Memory of the program that the other ranks reach in place while this object lives. Destroy it before the memory is freed.
class registration : public detail::lent<void *, pennyCommDeregister> {
    using lent::lent;
};

// Memory that the other ranks write to with put_signal. Before it is destroyed and the memory freed, its rank must know that no
// other rank writes there: by their signals, or by a barrier.
class window : public detail::lent<pennyWindow_t, pennyCommWindowDeregister> {
public:
    using lent::lent;

    // Tells whether there is a window: there is none if the memory of any rank cannot be reached by the others.
    explicit operator bool() const noexcept { return handle() != nullptr; }
    operator pennyWindow_t() const noexcept { return handle(); }
};

// A sum whose inputs are multiplied by a number before they are added; each rank has its own number.
class premul_sum : public detail::lent<pennyRedOp_t, detail::destroy_reduction> {
public:
    using lent::lent;

    operator pennyRedOp_t() const noexcept { return handle(); }
};

// A signal between two ranks: its index, below PENNY_SIGNALS, and its context, below PENNY_SIGNAL_CONTEXTS.
struct signal_id {
    int index = 0;
    int context = 0;
};

}  // namespace penny

#endif
