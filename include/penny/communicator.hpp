// The communicator: joining, and everything that is called on it.

#ifndef PENNY_COMMUNICATOR_HPP
#define PENNY_COMMUNICATOR_HPP

#include <penny/calls.hpp>
#include <penny/heap.hpp>
#include <penny/mailbox.hpp>
#include <penny/memory.hpp>

#include <exception>
#include <vector>

namespace penny {

// Settings of a communicator. Change single fields; the others come from the environment.
struct config : pennyConfig_t {
    config() noexcept : pennyConfig_t PENNY_CONFIG_INITIALIZER {}
};

// A rank's communicator. It has one owner, moves, and ends with its object: the destructor frees it as pennyCommDestroy does, and
// during an exception as pennyCommAbort does, so that the other ranks do not wait for this one. Call destroy to hear of a failure.
//
// Its calls are those of calls.hpp. A function of penny.h that has no counterpart here takes get().
template <class Errors>
class basic_communicator : public calls<basic_communicator<Errors>, Errors> {
    template <class T>
    using returns = typename Errors::template returned<T>;

public:
    // An object without a communicator: every call on it is refused.
    basic_communicator() noexcept = default;
    basic_communicator(basic_communicator &&other) noexcept = default;
    basic_communicator &operator=(basic_communicator &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~basic_communicator() {
        if (std::uncaught_exceptions() > exceptions_) (void)pennyCommAbort(handle_.release());
    }

    // Joins the communicator of all processes of this launch; see pennyCommInitFromEnv.
    static returns<basic_communicator> from_env(const config &settings = config()) {
        return made([&](pennyComm_t *comm) { return pennyCommInitFromEnv(comm, &settings); });
    }

    // Makes the id of a future communicator. One rank makes it and sends it to the other ranks; all pass it to join.
    static returns<pennyUniqueId> unique_id() {
        pennyUniqueId id;
        return given(pennyGetUniqueId(&id), std::move(id));
    }

    // Joins the communicator of an id as one of its ranks.
    static returns<basic_communicator> join(const pennyUniqueId &id, int ranks, int rank, const config &settings = config()) {
        return made([&](pennyComm_t *comm) { return pennyCommInitRankConfig(comm, ranks, id, rank, &settings); });
    }

    // Makes ranks in this process, with a communicator each. Use each in its own thread, or all of one thread in a group.
    static returns<std::vector<basic_communicator>> all(int ranks) {
        if (in_group()) return Errors::template fail<std::vector<basic_communicator>>(no_group());
        std::vector<pennyComm_t> handles(ranks > 0 ? static_cast<std::size_t>(ranks) : 1);
        const pennyResult_t code = pennyCommInitAll(handles.data(), ranks, nullptr);
        std::vector<basic_communicator> comms;
        if (code == pennySuccess) {
            for (pennyComm_t handle : handles) comms.push_back(adopt(handle));
        }
        return given(code, std::move(comms));
    }

    // Takes over a handle that a function of penny.h made.
    static basic_communicator adopt(pennyComm_t handle) noexcept { return basic_communicator(handle); }

    // Returns the handle for functions of penny.h. This object keeps it.
    pennyComm_t get() const noexcept { return handle_.get(); }

    // Gives the handle to the caller, who destroys it.
    pennyComm_t release() noexcept { return handle_.release(); }

    // Tells whether there is a communicator.
    explicit operator bool() const noexcept { return get() != nullptr; }

    // Returns the caller's rank; -1 where there is no communicator, or while it is being joined.
    int rank() const noexcept { return number(pennyCommUserRank); }

    // Returns the number of ranks; -1 as for rank.
    int size() const noexcept { return number(pennyCommCount); }

    // Returns the caller's index among the ranks of its host; -1 as for rank.
    int device() const noexcept { return number(pennyCommDevice); }

    // Tells whether the communicator takes calls: false while it is being joined, which needs `blocking` 0 in its settings. A failure
    // from which it cannot recover, or of a call on a stream, is told. May be called by any thread.
    returns<bool> is_ready() const {
        pennyResult_t state = pennySuccess;
        pennyResult_t code = pennyCommGetAsyncError(get(), &state);
        const bool ready = state != pennyInProgress;
        if (code == pennySuccess && ready) code = state;
        return given(code, bool(ready));
    }

    // Makes a communicator of the ranks that pass the same color, in the order of key. PENNY_SPLIT_NOCOLOR: this rank is in none, and
    // gets an object without a communicator. All ranks call it.
    returns<basic_communicator> split(int color, int key = 0, const config &settings = config()) const {
        return made([&](pennyComm_t *comm) { return pennyCommSplit(get(), color, key, comm, &settings); });
    }

    // Makes a communicator of the caller's group of `ranks` ranks; see pennyCommGroup. All ranks call it.
    returns<basic_communicator> divide(pennyGroupKind_t kind, int ranks) const {
        return made([&](pennyComm_t *comm) { return pennyCommGroup(get(), kind, ranks, comm); });
    }

    // Makes a communicator of the same ranks, whose calls do not meet those on this one. All ranks call it.
    returns<basic_communicator> dup() const {
        return made([&](pennyComm_t *comm) { return pennyCommDup(get(), comm); });
    }

    // Makes a communicator without some ranks, which may have died. The remaining ranks call it with the same list. flags:
    // PENNY_SHRINK_DEFAULT, or PENNY_SHRINK_ABORT.
    returns<basic_communicator> shrink(span<const int> excluded, int flags = PENNY_SHRINK_DEFAULT,
                                       const config &settings = config()) const {
        const int count = static_cast<int>(excluded.size());
        return made([&](pennyComm_t *comm) { return pennyCommShrink(get(), excluded.data(), count, comm, &settings, flags); });
    }

    // Registers memory of this process, so that calls on it copy less. data: any buffer.
    template <class C>
    returns<registration> register_memory(C &&data) const {
        void *handle = nullptr;
        const pennyResult_t code = pennyCommRegister(get(), writable(data), bytes(data), &handle);
        return given(code, registration(code == pennySuccess ? get() : nullptr, handle));
    }

    // Opens memory of this rank to the other ranks. data: a buffer in memory of pennyMemAlloc, such as a shared_vector; an empty one
    // on a rank to which the others do not write. All ranks call it.
    template <class C>
    returns<window> make_window(C &&data, int flags = PENNY_WIN_DEFAULT) const {
        if (in_group()) return Errors::template fail<window>(no_group());
        pennyWindow_t handle = nullptr;
        const pennyResult_t code = pennyCommWindowRegister(get(), writable(data), bytes(data), &handle, flags);
        return given(code, window(handle != nullptr ? get() : nullptr, handle));
    }

    // Makes the communicator's symmetric heap. All ranks call it.
    returns<basic_heap<Errors>> make_heap() const {
        const pennyResult_t code = pennyShmemInit(get());
        return given(code, basic_heap<Errors>(code == pennySuccess ? get() : nullptr));
    }

    // Makes this rank's mailbox. All ranks call it.
    returns<basic_mailbox<Errors>> make_mailbox(const mailbox_config &settings = mailbox_config()) const {
        pennyMailbox_t handle = nullptr;
        const pennyResult_t code = pennyMailboxCreate(get(), &settings, &handle);
        const int bytes = settings.slotBytes == PENNY_CONFIG_UNDEF_INT ? 64 : settings.slotBytes;
        return given(code, basic_mailbox<Errors>(handle, static_cast<std::size_t>(bytes)));
    }

    // Makes a reduction that multiplies this rank's input by a factor and adds the products of all ranks. It serves the type of the
    // factor.
    template <class T>
    returns<premul_sum> make_premul_sum(const T &factor) const {
        pennyRedOp_t op = pennySum;
        const pennyResult_t code =
            pennyRedOpCreatePreMulSum(&op, &factor, element<T>::type, pennyScalarHostImmediate, get());
        return given(code, premul_sum(code == pennySuccess ? get() : nullptr, op));
    }

    // Makes all calls on the communicator fail, on every rank, and keeps it for shrink and split.
    returns<void> revoke() { return Errors::tell(detail::outcome(pennyCommRevoke(get(), PENNY_REVOKE_DEFAULT))); }

    // Completes all outstanding work on all ranks. Then it can only be destroyed.
    returns<void> finalize() { return Errors::tell(detail::outcome(pennyCommFinalize(get()))); }

    // Frees the communicator, and tells a disagreement between ranks that no call has told.
    returns<void> destroy() { return Errors::tell(detail::outcome(handle_.destroy())); }

    // Makes all calls on the communicator fail, on every rank, and frees it.
    returns<void> abort() { return Errors::tell(detail::outcome(pennyCommAbort(handle_.release()))); }

private:
    explicit basic_communicator(pennyComm_t handle) noexcept : handle_(handle) {}

    // Makes a communicator by a function of penny.h, which may still be joining it.
    template <class Make>
    static returns<basic_communicator> made(Make make) {
        if (in_group()) return Errors::template fail<basic_communicator>(no_group());
        pennyComm_t handle = nullptr;
        const pennyResult_t code = make(&handle);
        return given(code == pennyInProgress ? pennySuccess : code, basic_communicator(handle));
    }

    template <class T>
    static returns<T> given(pennyResult_t code, T &&value) {
        if (code != pennySuccess) return Errors::template fail<T>(detail::outcome(code));
        return Errors::give(std::move(value));
    }

    // What is made in a group is written when the group ends, to a place that this interface does not have by then.
    static bool in_group() noexcept { return detail::open_groups > 0; }
    static status no_group() {
        return detail::refused(pennyInvalidUsage,
                               "penny: communicators and windows are not made in a penny::group; make them before it, or close it first");
    }

    int number(pennyResult_t (*read)(pennyComm_t, int *)) const noexcept {
        int value = -1;
        return read(get(), &value) == pennySuccess ? value : -1;
    }

    template <class C>
    static void *writable(C &data) {
        static_assert(!std::is_const<detail::element_of<C>>::value, "the other ranks write to this buffer, whose elements are const");
        return std::data(data);
    }

    template <class C>
    static std::size_t bytes(const C &data) {
        return std::size(data) * sizeof(detail::element_of<const C>);
    }

    detail::owned<pennyComm_t, pennyCommDestroy> handle_;
    int exceptions_ = std::uncaught_exceptions();
};

}  // namespace penny

#endif
