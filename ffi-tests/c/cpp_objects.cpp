// The C++ interface to the symmetric heap, mailboxes and recordings.
#include <penny.hpp>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "cpp_rank.h"

static void elements_of_the_heap_are_reached_by_all_ranks() {
    penny::heap heap = comm.make_heap();
    penny::symmetric<int> inbox = heap.allocate<int>(n);
    penny::symmetric<std::uint64_t> signals = heap.allocate<std::uint64_t>(2);
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    CHECK_INT(inbox.size(), ranks);
    CHECK_INT(inbox[me], 0);
    for (int peer = 0; peer < ranks; peer++) heap.put(std::array<int, 1>{100 * rank + peer}, inbox, me, peer);
    heap.fence();
    heap.quiet();
    heap.barrier();
    for (int r = 0; r < ranks; r++) CHECK_INT(inbox[(std::size_t)r], 100 * r + rank);
    int got[1] = {};
    heap.get(got, inbox, (std::size_t)previous, next);
    CHECK_INT(got[0], 100 * previous + next);
    CHECK_INT(heap.reach(inbox, next)[me], 100 * rank + next);
    heap.barrier();
    heap.put_signal(std::vector<int>(1, rank), inbox, 0, signals, 1, 5, PENNY_SIGNAL_ADD, next);
    heap.wait_until(signals, 1, PENNY_CMP_GE, std::uint64_t{5});
    CHECK_INT(inbox[0], previous);
    // It is a buffer like others.
    comm.all_gather(penny::span(&rank, 1), inbox);
    CHECK_INT(inbox[n - 1], ranks - 1);

    penny::symmetric<std::int64_t> words = heap.allocate<std::int64_t>(3);
    heap.add(words, 0, std::int64_t{2}, 0);
    const std::int64_t ticket = heap.fetch_add(words, 1, std::int64_t{1}, 0);
    CHECK(ticket >= 0 && ticket < ranks);
    heap.barrier();
    CHECK_INT(heap.fetch(words, 0, 0), 2 * ranks);
    const bool first = heap.compare_swap(words, 2, std::int64_t{0}, std::int64_t{rank + 1}, 0) == 0;
    heap.barrier();
    CHECK(first == (heap.fetch(words, 2, 0) == rank + 1));
    heap.set(words, 0, std::int64_t{7}, next);
    heap.barrier();
    CHECK_INT(words[0], 7);
    CHECK_INT(heap.swap(words, 0, std::int64_t{8}, rank), 7);

    THROWS(pennyInvalidArgument, "put: elements ", heap.put(got, inbox, n, rank));
    THROWS(pennyInvalidArgument, "are not within an allocation of 3 elements", heap.fetch(words, 3, rank));
    THROWS(pennyInvalidArgument, "put_signal: elements 2 to 3", heap.put_signal(got, inbox, 0, signals, 2, 1, PENNY_SIGNAL_SET, rank));
    THROWS(pennyInvalidArgument, "pennyShmemPutMem", heap.put(got, inbox, 0, ranks));
    penny::symmetric<int> moved = std::move(inbox);
    CHECK(inbox.size() == 0 && moved.size() == n);
}

static void what_is_left_by_an_exception_waits_for_nobody() {
    penny::communicator twin = comm.dup();
    if (rank == 0) {
        try {
            penny::heap heap = twin.make_heap();
            penny::symmetric<int> some = heap.allocate<int>(1);
            penny::mailbox box = twin.make_mailbox();
            throw 5;
        } catch (int) {
        }
    } else {
        pennyMailbox_t box = nullptr;
        void *some = nullptr;
        CHECK(pennyShmemInit(twin.get()) == pennySuccess && pennyShmemCalloc(&some, 1, sizeof(int), twin.get()) == pennySuccess);
        const penny::mailbox_config settings;
        CHECK(pennyMailboxCreate(twin.get(), &settings, &box) == pennySuccess);
    }
    twin.barrier();
}

static void messages_come_to_threads_and_keys() {
    penny::mailbox_config settings;
    settings.threads = 2;
    settings.slotBytes = 32;
    penny::mailbox box = comm.make_mailbox(settings);
    const int next = (rank + 1) % ranks;
    auto slot = box.slot();
    CHECK_INT(slot.size(), 32);
    std::memcpy(slot.data(), &rank, sizeof rank);
    box.set_length(1);
    CHECK(!box.try_recv());
    comm.barrier();
    box.send(next, slot);
    {
        const penny::mailbox_message message = box.recv();
        int from = -1;
        std::memcpy(&from, message.data(), sizeof from);
        CHECK(from == message.source_rank() && message.source_thread() == 0 && message.size() == 16 && message.local_key() == 0);
        CHECK_INT(from, (rank + ranks - 1) % ranks);
    }
    CHECK(box.try_multicast(next, 3, slot));
    box.recv(0);
    box.recv(1);
    const std::vector<pennyMailboxKeyEntry_t> entries = {{next, 0, 2, 77}};
    const std::uint64_t key = box.make_key(entries);
    box.send_to_key(key, slot);
    box.destroy_key(key);
    {
        std::optional<penny::mailbox_message> by_key = box.recv(1);
        CHECK_INT(by_key->local_key(), 77);
        THROWS(pennyInvalidUsage, "pennyMailboxIdle", box.idle(true, 1));
    }
    THROWS(pennyInvalidArgument, "pennyMailboxSend", box.send(ranks, slot));
    penny::mailbox moved = std::move(box);
    CHECK(box.get() == nullptr && moved.get() != nullptr);
}

static void all_ranks_agree_that_no_work_is_left() {
    penny::mailbox box = comm.make_mailbox();
    auto slot = box.slot();
    int hops = 3 * ranks;
    std::memcpy(slot.data(), &hops, sizeof hops);
    if (rank == 0) box.multicast((rank + 1) % ranks, 1, slot);
    penny::idle_state state = penny::idle_state::message;
    while ((state = box.idle(true)) == penny::idle_state::message) {
        int left = 0;
        std::memcpy(&left, box.recv().data(), sizeof left);
        if (--left == 0) continue;
        std::memcpy(slot.data(), &left, sizeof left);
        box.send((rank + 1) % ranks, slot);
    }
    CHECK(state == penny::idle_state::all_voted);
}

static void recorded_calls_are_made_again_and_again() {
    std::vector<int> data(4, 1);
    penny::recorder recorder;
    comm.all_reduce(data, data, pennySum);
    comm.all_reduce(data, data, pennyMax);
    CHECK_INT(data[0], 1);
    penny::recording step = recorder.end();
    int expected = 1;
    penny::stream stream = penny::stream::make();
    for (int i = 0; i < 3; i++, expected *= ranks) {
        CHECK_INT(data[3], expected);
        i % 2 == 0 ? step.launch() : step.launch(stream);
        stream.synchronize();
    }
    THROWS(pennyInvalidUsage, "recorder::end: nothing is recorded", recorder.end());
    {
        penny::recorder dropped;
        comm.barrier();
    }
    THROWS(pennyInvalidArgument, "pennyRecordEnd", {
        penny::recorder refused;
        THROWS(pennyInvalidArgument, "root", comm.broadcast(data, ranks));
        refused.end();
    });
    comm.barrier();
}

int main() {
    join();
    RUN(elements_of_the_heap_are_reached_by_all_ranks);
    RUN(what_is_left_by_an_exception_waits_for_nobody);
    RUN(messages_come_to_threads_and_keys);
    RUN(all_ranks_agree_that_no_work_is_left);
    RUN(recorded_calls_are_made_again_and_again);
    comm.destroy();
}
