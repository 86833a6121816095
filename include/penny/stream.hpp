// Streams, events and groups: calls that run later, and calls that run together.

#ifndef PENNY_STREAM_HPP
#define PENNY_STREAM_HPP

#include <penny/error.hpp>

namespace penny {

// An ordered queue of calls. A call that names a stream is checked, queued, and returns; its buffers belong to it until the stream,
// or an event behind it, is complete. Pass a stream wherever penny.h has pennyStream_t.
//
// The destructor waits for all queued work; a failure that nothing has told is lost, so call synchronize first.
template <class Errors>
class basic_stream {
    template <class T>
    using returns = typename Errors::template returned<T>;

public:
    // Makes a stream.
    static returns<basic_stream> make() {
        pennyStream_t handle = nullptr;
        status made = detail::outcome(pennyStreamCreate(&handle));
        if (!made) return Errors::template fail<basic_stream>(std::move(made));
        return Errors::give(basic_stream(handle));
    }

    // Waits until all queued work has completed, and tells the first failure since the last synchronization.
    returns<void> synchronize() { return Errors::tell(detail::outcome(pennyStreamSynchronize(handle_.get()))); }

    // Tells, without waiting, whether all queued work has completed.
    returns<bool> is_complete() const {
        const pennyResult_t code = pennyStreamQuery(handle_.get());
        if (code == pennyInProgress) return Errors::give(false);
        status outcome = detail::outcome(code);
        if (!outcome) return Errors::template fail<bool>(std::move(outcome));
        return Errors::give(true);
    }

    // Queues a call of function(data), which the stream's thread makes in its turn. It must not wait for streams, and no exception
    // may leave it.
    returns<void> launch(pennyHostFn_t function, void *data) {
        return Errors::tell(detail::outcome(pennyStreamLaunchHostFunc(handle_.get(), function, data)));
    }

    // Makes work that is queued from now on wait for an event.
    returns<void> wait(pennyEvent_t event) {
        return Errors::tell(detail::outcome(pennyStreamWaitEvent(handle_.get(), event)));
    }

    operator pennyStream_t() const noexcept { return handle_.get(); }

private:
    explicit basic_stream(pennyStream_t handle) noexcept : handle_(handle) {}

    detail::owned<pennyStream_t, pennyStreamDestroy> handle_;
};

// A point in a stream's work, and the outcome of the work before it. An event that was never recorded counts as complete.
template <class Errors>
class basic_event {
    template <class T>
    using returns = typename Errors::template returned<T>;

public:
    // Makes an event.
    static returns<basic_event> make() {
        pennyEvent_t handle = nullptr;
        status made = detail::outcome(pennyEventCreate(&handle));
        if (!made) return Errors::template fail<basic_event>(std::move(made));
        return Errors::give(basic_event(handle));
    }

    // Marks the work that is queued on the stream so far. A later call replaces the mark.
    returns<void> record(pennyStream_t stream) {
        return Errors::tell(detail::outcome(pennyEventRecord(handle_.get(), stream)));
    }

    // Waits until the event is complete, and tells the first failure of the work between the event recorded before it on the stream
    // and this one.
    returns<void> synchronize() const { return Errors::tell(detail::outcome(pennyEventSynchronize(handle_.get()))); }

    // Tells, without waiting, whether the event is complete; fails as synchronize does.
    returns<bool> is_complete() const {
        const pennyResult_t code = pennyEventQuery(handle_.get());
        if (code == pennyInProgress) return Errors::give(false);
        status outcome = detail::outcome(code);
        if (!outcome) return Errors::template fail<bool>(std::move(outcome));
        return Errors::give(true);
    }

    operator pennyEvent_t() const noexcept { return handle_.get(); }

private:
    explicit basic_event(pennyEvent_t handle) noexcept : handle_(handle) {}

    detail::owned<pennyEvent_t, pennyEventDestroy> handle_;
};

namespace detail {
// Groups of this interface that are open on this thread.
inline thread_local int open_groups = 0;
}  // namespace detail

// Calls of this thread that are made together, from the group's constructor to its end(). Groups nest.
//
//     penny::group group;
//     comm.send(right, next);
//     comm.recv(left, previous);
//     group.end();
//
// A group that is destroyed without end(), such as by an exception, makes none of its calls, nor does one around it.
// Communicators and windows are not made in a group; penny::communicator::all makes several ranks of one thread.
template <class Errors>
class basic_group {
public:
    basic_group() noexcept {
        (void)pennyGroupStart();
        detail::open_groups++;
    }
    basic_group(const basic_group &) = delete;
    basic_group &operator=(const basic_group &) = delete;
    ~basic_group() {
        if (!open_) return;
        (void)detail::refused(pennyInvalidUsage, {});
        (void)close();
    }

    // Closes the group. The outermost makes the calls and returns when they are done; if one of them was refused, it tells that
    // failure again and makes none. Tells pennyInvalidUsage if the group is closed already.
    typename Errors::template returned<void> end() {
        // pennyGroupEnd would close the group around this one.
        if (!open_) return Errors::tell(status(pennyInvalidUsage, "group::end: no group is open here: this one was closed before"));
        return Errors::tell(detail::outcome(close()));
    }

private:
    pennyResult_t close() noexcept {
        detail::open_groups--;
        open_ = false;
        return pennyGroupEnd();
    }

    bool open_ = true;
};

}  // namespace penny

#endif
