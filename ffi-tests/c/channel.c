/* src/ffi/channel.rs: channels of the data mover on links of a declared machine. Two or four ranks of a T3000. */
#include "machine.h"

enum { MESSAGES = 3, BYTES = 4096 };
static pennyComm_t comm;
/* The ring over the first two or four chips, and this rank's neighbours there. */
static int next, prev, position;

static pennyLinkChannel_t end_of(pennyChannelRole_t role, int peer, size_t messages, size_t bytes, void *data) {
    return (pennyLinkChannel_t){
        .role = role, .peer = peer, .messages = messages, .bytes = bytes, .data = data, .relays = -1};
}

static unsigned char byte_of(int from, int i) { return (unsigned char)(from * 31 + i * 7 + i / 251); }

/* Each rank sends to the next one of the ring. Tells the time from the begin to the last message. */
static uint64_t round_of_neighbours(pennySignalMode_t signal, pennyTermination_t termination) {
    static unsigned char mine[MESSAGES * BYTES], theirs[MESSAGES * BYTES];
    pennyLinkChannel_t ends[] = {end_of(pennyChannelReceiver, prev, MESSAGES, BYTES, theirs),
                                 end_of(pennyChannelSender, next, MESSAGES, BYTES, mine)};
    ends[0].buffers = ends[1].buffers = 2;
    for (int i = 0; i < MESSAGES * BYTES; i++) mine[i] = byte_of(rank, i), theirs[i] = 0;
    /* All begin at one time. */
    static uint64_t before;
    before += 1000000000000;
    OK(pennyFabricAdvanceTo(comm, before));
    OK(pennyLinkChannelsRun(comm, signal, termination, ends, 2));
    for (int i = 0; i < MESSAGES * BYTES; i++) CHECK_INT(theirs[i], byte_of(prev, i));
    for (int i = 0; i < 2; i++) CHECK(before < ends[i].firstPs && ends[i].firstPs < ends[i].lastPs);
    CHECK(now_on(comm) >= ends[0].lastPs);
    return ends[0].lastPs - before;
}

static void neighbours_get_each_others_messages_at_the_machines_time(void) {
    uint64_t merged = round_of_neighbours(pennySignalMerged, pennyTerminationMessageCount);
    CHECK(round_of_neighbours(pennySignalDefault, pennyTerminationDefault) == merged);
    CHECK(round_of_neighbours(pennySignalMerged, pennyTerminationWorkerInitiated) == merged);
    CHECK(round_of_neighbours(pennySignalSeparate, pennyTerminationMessageCount) > merged);
}

/* The ping of the guide: each chip hands on what comes. */
static void a_message_that_is_relayed_round_the_ring_comes_back_650_ns_a_hop_later(void) {
    uint64_t word[2] = {0, 0}, last[4] = {0};
    pennyLinkChannel_t ends[] = {end_of(pennyChannelReceiver, prev, 2, 16, NULL),
                                 end_of(pennyChannelSender, next, 2, 16, NULL)};
    uint64_t own[4] = {42, 43, 44, 45}, got[4] = {0};
    ends[0].data = got;
    ends[1].data = position == 0 ? own : NULL;
    ends[1].relays = position == 0 ? -1 : 0;
    /* The second one comes when all chips have shaken hands. */
    ends[1].everyNs = 10000;
    OK(pennyLinkChannelsRun(comm, pennySignalMerged, pennyTerminationDefault, ends, 2));
    for (int i = 0; i < 4; i++) CHECK_INT(got[i], own[i]);
    word[0] = ends[0].lastPs;
    OK(pennyAllGather(word, last, 1, pennyUint64, comm, NULL));
    /* 87.5 ns over the chip, 48 to send, 6.56 on the wire, 500 of latency, 8 to see it. On one link the core that sends on
       has given the credit back just before: half a nanosecond. */
    if (position != 1) CHECK_INT(last[rank] - last[prev], ranks == 2 ? 650560 : 650060);
}

static void what_cannot_be_is_refused_on_every_rank(void) {
    unsigned char data[64] = {0};
    pennyLinkChannel_t sender = end_of(pennyChannelSender, next, 1, 16, data), wrong = sender;
    /* Nobody receives. */
    FAILS(pennyInvalidUsage, "never receives", pennyLinkChannelsRun(comm, 0, 0, &sender, rank == 0));
    /* A payload that is no whole words: the link says so. */
    pennyLinkChannel_t odd[] = {end_of(pennyChannelReceiver, prev, 1, 20, data),
                                end_of(pennyChannelSender, next, 1, 20, data + 32)};
    FAILS(pennyInvalidArgument, "whole words of 16 B", pennyLinkChannelsRun(comm, 0, 0, odd, 2));
    /* One rank's argument is wrong by itself. */
    wrong.peer = 99;
    if (rank == 0) FAILS(pennyInvalidArgument, "channels[0].peer is 99", pennyLinkChannelsRun(comm, 0, 0, &wrong, 1));
    else FAILS(pennyInvalidUsage, "rank 0 could not do its part", pennyLinkChannelsRun(comm, 0, 0, &sender, 0));
    /* Ranks that ask for something else. */
    FAILS(pennyInvalidUsage, "disagree on channels",
          pennyLinkChannelsRun(comm, rank == 0 ? pennySignalMerged : pennySignalSeparate, 0, NULL, 0));
    OK(pennyLinkChannelsRun(comm, 0, 0, NULL, 0));
    /* By every rank alone. */
    FAILS(pennyInvalidArgument, "channels is NULL", pennyLinkChannelsRun(comm, 0, 0, NULL, 1));
    FAILS(pennyInvalidArgument, "count is -1", pennyLinkChannelsRun(comm, 0, 0, &sender, -1));
    FAILS(pennyInvalidArgument, "signal is 7", pennyLinkChannelsRun(comm, 7, 0, NULL, 0));
    FAILS(pennyInvalidArgument, "termination is 7", pennyLinkChannelsRun(comm, 0, 7, NULL, 0));
    wrong = sender;
    wrong.role = 2;
    FAILS(pennyInvalidArgument, "channels[0].role is 2", pennyLinkChannelsRun(comm, 0, 0, &wrong, 1));
    OK(pennyGroupStart());
    FAILS(pennyInvalidUsage, "no group", pennyLinkChannelsRun(comm, 0, 0, NULL, 0));
    OK(pennyGroupEnd());
    CHECK(round_of_neighbours(pennySignalDefault, pennyTerminationDefault) > 0);
}

static void machines_without_a_mover_are_refused_with_the_remedy(void) {
    pennyComm_t bare = join_machine("t3000"), plain = join();
    unsigned char data[64] = {0};
    pennyLinkChannel_t ends[] = {end_of(pennyChannelReceiver, prev, 1, 16, data),
                                 end_of(pennyChannelSender, next, 1, 16, data + 32)};
    FAILS(pennyInvalidArgument, "take t3000:mover=ethernet", pennyLinkChannelsRun(bare, 0, 0, ends, 2));
    FAILS(pennyInvalidUsage, "PENNY_FABRIC", pennyLinkChannelsRun(plain, 0, 0, ends, 2));
    OK(pennyCommDestroy(plain));
    OK(pennyCommDestroy(bare));
}

int main(void) {
    static const int ring[] = {0, 1, 3, 2};
    begin();
    while (ring[position] != rank) position++;
    next = ring[(position + 1) % ranks];
    prev = ring[(position + ranks - 1) % ranks];
    comm = join_machine("t3000:mover=ethernet");
    RUN(neighbours_get_each_others_messages_at_the_machines_time);
    RUN(a_message_that_is_relayed_round_the_ring_comes_back_650_ns_a_hop_later);
    RUN(what_cannot_be_is_refused_on_every_rank);
    RUN(machines_without_a_mover_are_refused_with_the_remedy);
    OK(pennyCommDestroy(comm));
    return 0;
}
