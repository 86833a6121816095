// Mailboxes: short messages between the threads of all ranks, and the detection that no work is left.
//
//     auto box = comm.make_mailbox();                              all ranks
//     auto slot = box.slot();
//     std::memcpy(slot.data(), &work, sizeof work);
//     box.send(peer, slot);
//     while (auto message = box.try_recv()) use(message->data());
//
// thread: the calling thread's number, below the threads of the mailbox's settings.

#ifndef PENNY_MAILBOX_HPP
#define PENNY_MAILBOX_HPP

#include <penny/elements.hpp>

#include <cstdint>
#include <exception>
#include <optional>

namespace penny {

// Settings of a mailbox. Change single fields.
struct mailbox_config : pennyMailboxConfig_t {
    mailbox_config() noexcept : pennyMailboxConfig_t PENNY_MAILBOX_CONFIG_INITIALIZER {}
};

// A message that was received. All its receivers read the same bytes, in the mailbox; the destructor frees it for this thread.
class mailbox_message {
public:
    mailbox_message(pennyMailbox_t box, int thread, const pennyMailboxMessage_t &message) noexcept
        : box_(box), thread_(thread), message_(message) {}
    mailbox_message(mailbox_message &&other) noexcept
        : box_(std::exchange(other.box_, nullptr)), thread_(other.thread_), message_(other.message_) {}
    mailbox_message &operator=(mailbox_message &&other) noexcept {
        std::swap(box_, other.box_);
        std::swap(thread_, other.thread_);
        std::swap(message_, other.message_);
        return *this;
    }
    ~mailbox_message() {
        if (box_ != nullptr) (void)pennyMailboxFree(box_, thread_, message_.data);
    }

    const std::byte *data() const noexcept { return static_cast<const std::byte *>(message_.data); }
    std::size_t size() const noexcept { return static_cast<std::size_t>(message_.flits) * PENNY_MAILBOX_FLIT_BYTES; }
    int source_rank() const noexcept { return message_.sourceRank; }
    int source_thread() const noexcept { return message_.sourceThread; }
    // Returns the local key of the entry by which the message was sent here; 0 if it was sent without a key.
    unsigned local_key() const noexcept { return message_.localKey; }

private:
    pennyMailbox_t box_;
    int thread_;
    pennyMailboxMessage_t message_;
};

// What a thread that has nothing to do is told: there is a message for it, or no thread of any rank has work; in addition all have voted.
enum class idle_state { message = PENNY_MAILBOX_MESSAGE, all_idle = PENNY_MAILBOX_ALL_IDLE, all_voted = PENNY_MAILBOX_ALL_VOTED };

// This rank's mailbox. The destructor destroys the mailboxes of all ranks, on all ranks together; so does the end of the communicator.
template <class Errors>
class basic_mailbox {
    template <class T>
    using returns = typename Errors::template returned<T>;

public:
    basic_mailbox() noexcept = default;
    // For basic_communicator::make_mailbox. bytes: of a slot.
    basic_mailbox(pennyMailbox_t handle, std::size_t bytes) noexcept : handle_(handle), bytes_(bytes) {}
    basic_mailbox(basic_mailbox &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)), bytes_(other.bytes_) {}
    basic_mailbox &operator=(basic_mailbox &&other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~basic_mailbox() {
        if (handle_ != nullptr && std::uncaught_exceptions() <= exceptions_) (void)pennyMailboxDestroy(handle_);
    }

    // Returns the handle for functions of penny.h. This object keeps it.
    pennyMailbox_t get() const noexcept { return handle_; }

    // Returns the slot in which the thread writes its next message.
    returns<span<std::byte>> slot(int thread = 0) {
        void *start = nullptr;
        const pennyResult_t code = pennyMailboxSendSlot(handle_, thread, &start);
        return given(code, span<std::byte>(static_cast<std::byte *>(start), bytes_));
    }

    // Sets the length of the thread's messages from the next one on, in flits of 16 bytes.
    returns<void> set_length(int flits, int thread = 0) { return told(pennyMailboxSetLen(handle_, thread, flits)); }

    // Sends what stands in a slot to one thread of peer's mailbox. Waits while that is full.
    returns<void> send(int peer, span<const std::byte> slot, int to_thread = 0) {
        return told(pennyMailboxSend(handle_, peer, to_thread, slot.data()));
    }

    // Sends to every thread of peer's mailbox whose bit is set: one copy, which all of them read.
    returns<void> multicast(int peer, std::uint64_t threads, span<const std::byte> slot) {
        return told(pennyMailboxMulticast(handle_, peer, high(threads), low(threads), slot.data()));
    }

    // Sends as multicast does, if that need not wait. Tells whether it has.
    returns<bool> try_multicast(int peer, std::uint64_t threads, span<const std::byte> slot) {
        int sent = 0;
        const pennyResult_t code = pennyMailboxTryMulticast(handle_, peer, high(threads), low(threads), slot.data(), &sent);
        return given(code, sent != 0);
    }

    // Receives the thread's oldest message. Waits until there is one.
    returns<mailbox_message> recv(int thread = 0) {
        pennyMailboxMessage_t message{};
        status done = detail::outcome(pennyMailboxRecv(handle_, thread, &message));
        if (!done) return Errors::template fail<mailbox_message>(std::move(done));
        return Errors::give(mailbox_message(handle_, thread, message));
    }

    // Receives the thread's oldest message, if there is one.
    returns<std::optional<mailbox_message>> try_recv(int thread = 0) {
        pennyMailboxMessage_t message{};
        int received = 0;
        const pennyResult_t code = pennyMailboxTryRecv(handle_, thread, &message, &received);
        std::optional<mailbox_message> found;
        if (received != 0) found.emplace(handle_, thread, message);
        return given(code, std::move(found));
    }

    // Declares that the thread has nothing to do, and waits until there is a message for it or until no rank has work left.
    returns<idle_state> idle(bool vote = false, int thread = 0) {
        int state = PENNY_MAILBOX_MESSAGE;
        const pennyResult_t code = pennyMailboxIdle(handle_, thread, vote ? 1 : 0, &state);
        return given(code, static_cast<idle_state>(state));
    }

    // Makes a key: a list of mailboxes with their threads and local keys, to which one send goes.
    returns<std::uint64_t> make_key(span<const pennyMailboxKeyEntry_t> entries) {
        std::uint64_t key = 0;
        const pennyResult_t code = pennyMailboxKeyCreate(handle_, entries.data(), entries.size(), &key);
        return given(code, std::uint64_t(key));
    }

    // Sends what stands in a slot to all receivers of a key.
    returns<void> send_to_key(std::uint64_t key, span<const std::byte> slot) {
        return told(pennyMailboxKeySend(handle_, key, slot.data()));
    }

    // Deletes a key. Messages that were sent by it still arrive.
    returns<void> destroy_key(std::uint64_t key) { return told(pennyMailboxKeyDestroy(handle_, key)); }

private:
    static returns<void> told(pennyResult_t code) { return Errors::tell(detail::outcome(code)); }

    template <class T>
    static returns<T> given(pennyResult_t code, T &&value) {
        if (code != pennySuccess) return Errors::template fail<T>(detail::outcome(code));
        return Errors::give(std::move(value));
    }

    static unsigned high(std::uint64_t threads) noexcept { return static_cast<unsigned>(threads >> 32); }
    static unsigned low(std::uint64_t threads) noexcept { return static_cast<unsigned>(threads & 0xffffffffU); }

    pennyMailbox_t handle_ = nullptr;
    std::size_t bytes_ = 0;
    int exceptions_ = std::uncaught_exceptions();
};

}  // namespace penny

#endif
