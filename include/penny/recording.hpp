// Recordings: calls that are checked once, and made again and again.
//
//     penny::recorder recorder;
//     comm.all_reduce(gradients, gradients, pennySum);             checked and kept, not made
//     penny::recording step = recorder.end();
//     for (...) step.launch();

#ifndef PENNY_RECORDING_HPP
#define PENNY_RECORDING_HPP

#include <penny/error.hpp>

namespace penny {

// Calls that were recorded. The buffers, windows and communicators of its calls must be there at each launch.
template <class Errors>
class basic_recording {
    template <class T>
    using returns = typename Errors::template returned<T>;

public:
    // Takes over a handle that pennyRecordEnd made.
    static basic_recording adopt(pennyRecording_t handle) noexcept { return basic_recording(handle); }

    // Makes the calls, as those of one group; on a stream it queues them. In a group it adds them to the group.
    returns<void> launch(pennyStream_t stream = nullptr) { return Errors::tell(detail::outcome(pennyRecordingLaunch(handle_.get(), stream))); }

private:
    explicit basic_recording(pennyRecording_t handle) noexcept : handle_(handle) {}

    detail::owned<pennyRecording_t, pennyRecordingDestroy> handle_;
};

// Records the calls of this thread, from the recorder's constructor to its end(). A recorder that is destroyed without end() drops them.
template <class Errors>
class basic_recorder {
public:
    basic_recorder() noexcept { (void)pennyRecordStart(); }
    basic_recorder(const basic_recorder &) = delete;
    basic_recorder &operator=(const basic_recorder &) = delete;
    ~basic_recorder() {
        pennyRecording_t dropped = nullptr;
        if (open_ && pennyRecordEnd(&dropped) == pennySuccess) (void)pennyRecordingDestroy(dropped);
    }

    // Ends the recording. If one of its calls was refused, it tells that failure again.
    typename Errors::template returned<basic_recording<Errors>> end() {
        using recorded = basic_recording<Errors>;
        // pennyRecordEnd would end the recording around this one.
        if (!open_) {
            return Errors::template fail<recorded>(
                status(pennyInvalidUsage, "recorder::end: nothing is recorded here: this recording was ended before"));
        }
        open_ = false;
        pennyRecording_t handle = nullptr;
        status done = detail::outcome(pennyRecordEnd(&handle));
        if (!done) return Errors::template fail<recorded>(std::move(done));
        return Errors::give(recorded::adopt(handle));
    }

private:
    bool open_ = true;
};

}  // namespace penny

#endif
