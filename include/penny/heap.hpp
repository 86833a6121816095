// The symmetric heap: memory that all ranks allocate together, and one-sided access to it.
//
//     auto heap = comm.make_heap();                                all ranks
//     auto inbox = heap.allocate<int>(ranks);                      all ranks, the same number
//     heap.put(word, inbox, rank, peer);                           writes peer's inbox[rank]; peer need not be in a call
//     heap.barrier();

#ifndef PENNY_HEAP_HPP
#define PENNY_HEAP_HPP

#include <penny/elements.hpp>

#include <cstdint>
#include <exception>
#include <string>

namespace penny {

// An allocation of the symmetric heap: this rank's elements, whose counterparts on the other ranks the functions of the heap name by it.
// It is a buffer for every call of the communicator.
//
// The destructor frees the allocation, on all ranks together: all destroy their objects in one order. During an exception it leaves it
// to the end of the heap, because the other ranks would wait.
template <class T>
class symmetric {
public:
    symmetric() noexcept = default;
    symmetric(pennyComm_t comm, T *data, std::size_t size) noexcept : comm_(comm), data_(data), size_(size) {}
    symmetric(symmetric &&other) noexcept
        : comm_(std::exchange(other.comm_, nullptr)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    symmetric &operator=(symmetric &&other) noexcept {
        std::swap(comm_, other.comm_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~symmetric() {
        if (data_ != nullptr && std::uncaught_exceptions() <= exceptions_) (void)pennyShmemFree(data_, comm_);
    }

    T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    T *begin() const noexcept { return data_; }
    T *end() const noexcept { return data_ + size_; }
    T &operator[](std::size_t i) const { return data_[i]; }

private:
    pennyComm_t comm_ = nullptr;
    T *data_ = nullptr;
    std::size_t size_ = 0;
    int exceptions_ = std::uncaught_exceptions();
};

// A communicator's symmetric heap. Its functions may be called by any number of threads at once. An element is named by an allocation, an
// index and a rank.
//
// The destructor destroys the heap with all allocations, on all ranks together; so does the end of the communicator.
template <class Errors>
class basic_heap {
    template <class T>
    using returns = typename Errors::template returned<T>;

public:
    basic_heap() noexcept = default;
    // For basic_communicator::make_heap.
    explicit basic_heap(pennyComm_t comm) noexcept : comm_(comm) {}
    basic_heap(basic_heap &&other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
    basic_heap &operator=(basic_heap &&other) noexcept {
        std::swap(comm_, other.comm_);
        return *this;
    }
    ~basic_heap() {
        if (comm_ != nullptr && std::uncaught_exceptions() <= exceptions_) (void)pennyShmemFinalize(comm_);
    }

    // Allocates count elements, all zero. All ranks call it with the same count.
    template <class T>
    returns<symmetric<T>> allocate(std::size_t count) {
        static_assert(std::is_trivially_copyable<T>::value && alignof(T) <= 64, "other ranks write these elements byte by byte");
        void *start = nullptr;
        status made = detail::outcome(pennyShmemCalloc(&start, count, sizeof(T), comm_));
        if (!made) return Errors::template fail<symmetric<T>>(std::move(made));
        return Errors::give(symmetric<T>(comm_, static_cast<T *>(start), count));
    }

    // Writes data to peer's elements from `first` on. Returns when data may be reused; peer may see the elements later.
    template <class S, class T>
    returns<void> put(const S &data, const symmetric<T> &to, std::size_t first, int peer) {
        const auto in = elements<T>(data);
        return within("put", to, first, in.size(), [&](T *at) { return pennyShmemPutMem(at, in.data(), in.size() * sizeof(T), peer, comm_); });
    }

    // Reads peer's elements from `first` on into data.
    template <class R, class T>
    returns<void> get(R &&data, const symmetric<T> &from, std::size_t first, int peer) {
        const auto out = detail::output(data);
        detail::same_elements<R, const symmetric<T>>();
        return within("get", from, first, out.size(),
                      [&](T *at) { return pennyShmemGetMem(out.data(), at, out.size() * sizeof(T), peer, comm_); });
    }

    // Writes data as put does, then sets peer's signal to value or adds it (op: PENNY_SIGNAL_SET, PENNY_SIGNAL_ADD): a rank that sees the
    // signal sees the elements.
    template <class S, class T>
    returns<void> put_signal(const S &data, const symmetric<T> &to, std::size_t first, const symmetric<std::uint64_t> &signals,
                             std::size_t index, std::uint64_t value, pennySignalOp_t op, int peer) {
        const auto in = elements<T>(data);
        status fits = fitting("put_signal", signals.size(), index, 1);
        if (!fits) return Errors::tell(std::move(fits));
        return within("put_signal", to, first, in.size(), [&](T *at) {
            return pennyShmemPutMemSignal(at, in.data(), in.size() * sizeof(T), signals.data() + index, value, op, peer, comm_);
        });
    }

    // Waits until the comparison of this rank's element with value holds, such as PENNY_CMP_GE.
    template <class T>
    returns<void> wait_until(const symmetric<T> &in, std::size_t index, pennyCmp_t comparison, T value) {
        return within("wait_until", in, index, 1,
                      [&](T *at) { return pennyShmemWaitUntil(at, comparison, &value, element<T>::type, comm_); });
    }

    // Reads an element of peer in one piece.
    template <class T>
    returns<T> fetch(const symmetric<T> &from, std::size_t index, int peer) {
        return fetched("fetch", from, index, [&](T *old, T *at) { return pennyShmemAtomicFetch(old, at, element<T>::type, peer, comm_); });
    }

    // Writes an element of peer in one piece.
    template <class T>
    returns<void> set(const symmetric<T> &to, std::size_t index, T value, int peer) {
        return within("set", to, index, 1, [&](T *at) { return pennyShmemAtomicSet(at, &value, element<T>::type, peer, comm_); });
    }

    // Adds to an element of peer.
    template <class T>
    returns<void> add(const symmetric<T> &to, std::size_t index, T value, int peer) {
        return within("add", to, index, 1, [&](T *at) { return pennyShmemAtomicAdd(at, &value, element<T>::type, peer, comm_); });
    }

    // Adds to an element of peer, and returns what it was.
    template <class T>
    returns<T> fetch_add(const symmetric<T> &to, std::size_t index, T value, int peer) {
        return fetched("fetch_add", to, index,
                       [&](T *old, T *at) { return pennyShmemAtomicFetchAdd(old, at, &value, element<T>::type, peer, comm_); });
    }

    // Writes an element of peer, and returns what it was.
    template <class T>
    returns<T> swap(const symmetric<T> &to, std::size_t index, T value, int peer) {
        return fetched("swap", to, index,
                       [&](T *old, T *at) { return pennyShmemAtomicSwap(old, at, &value, element<T>::type, peer, comm_); });
    }

    // Writes an element of peer if it equals expected. Returns what it was: expected, if value was written.
    template <class T>
    returns<T> compare_swap(const symmetric<T> &to, std::size_t index, T expected, T value, int peer) {
        return fetched("compare_swap", to, index, [&](T *old, T *at) {
            return pennyShmemAtomicCompareSwap(old, at, &expected, &value, element<T>::type, peer, comm_);
        });
    }

    // Returns peer's elements for plain loads and stores; none where this process cannot reach them: peer is on another host, or the
    // ranks run on a simulated cluster.
    template <class T>
    returns<span<T>> reach(const symmetric<T> &of, int peer) {
        void *start = nullptr;
        status found = detail::outcome(pennyShmemPtr(&start, of.data(), peer, comm_));
        if (!found) return Errors::template fail<span<T>>(std::move(found));
        return Errors::give(span<T>(static_cast<T *>(start), start == nullptr ? 0 : of.size()));
    }

    // Orders puts: each rank sees this thread's earlier puts to it before its later ones.
    returns<void> fence() { return told(pennyShmemFence(comm_)); }

    // Completes all puts of this thread and makes them visible to all ranks.
    returns<void> quiet() { return told(pennyShmemQuiet(comm_)); }

    // Waits until all ranks have called it; all their earlier puts are then complete.
    returns<void> barrier() { return told(pennyShmemBarrierAll(comm_)); }

private:
    static returns<void> told(pennyResult_t code) { return Errors::tell(detail::outcome(code)); }

    template <class T, class S>
    static auto elements(const S &data) {
        detail::same_elements<const S, const symmetric<T>>();
        return detail::input(data);
    }

    static status fitting(const char *name, std::size_t size, std::size_t first, std::size_t count) {
        if (first <= size && count <= size - first) return status();
        return detail::refused(pennyInvalidArgument, std::string("penny::heap::") + name + ": elements " + std::to_string(first) + " to " +
                                                         std::to_string(first + count) + " are not within an allocation of " +
                                                         std::to_string(size) + " elements");
    }

    template <class T, class Call>
    static returns<void> within(const char *name, const symmetric<T> &in, std::size_t first, std::size_t count, Call call) {
        status fits = fitting(name, in.size(), first, count);
        return fits ? told(call(in.data() + first)) : Errors::tell(std::move(fits));
    }

    template <class T, class Call>
    static returns<T> fetched(const char *name, const symmetric<T> &in, std::size_t index, Call call) {
        T old{};
        status done = fitting(name, in.size(), index, 1);
        if (done) done = detail::outcome(call(&old, in.data() + index));
        if (!done) return Errors::template fail<T>(std::move(done));
        return Errors::give(T(old));
    }

    pennyComm_t comm_ = nullptr;
    int exceptions_ = std::uncaught_exceptions();
};

}  // namespace penny

#endif
