/* Threads of one rank on a declared machine, each with its own place in a mailbox. */
#include "machine_threads.h"

static pennyMailbox_t box;

static void make_box(int slots) {
    pennyMailboxConfig_t config = PENNY_MAILBOX_CONFIG_INITIALIZER;
    config.threads = threads;
    config.slots = slots;
    OK(pennyMailboxCreate(world, &config, &box));
}

static void send_word(int from, int to_rank, int to, int word) {
    void *slot;
    OK(pennyMailboxSendSlot(box, from, &slot));
    memcpy(slot, &word, sizeof word);
    OK(pennyMailboxSend(box, to_rank, to, slot));
}

static int take_word(int t) {
    pennyMailboxMessage_t message;
    int word;
    OK(pennyMailboxRecv(box, t, &message));
    memcpy(&word, message.data, sizeof word);
    OK(pennyMailboxFree(box, t, message.data));
    return word;
}

static void idle_until_all_are(int t) {
    int state = -1;
    OK(pennyMailboxIdle(box, t, 1, &state));
    CHECK_INT(state, PENNY_MAILBOX_ALL_VOTED);
}

static int few(int all) { return threads > 8 ? (all + 15) / 16 : all; }

static void *ping_pong(void *arg) {
    int t = (int)(intptr_t)arg, peer = rank ^ 1;
    unsigned seed = seed_of(t);
    if (peer < ranks) {
        for (int round = 0; round < few(rounds); round++) {
            dawdle(&seed);
            if (rank < peer) send_word(t, peer, t, round);
            CHECK_INT(take_word(t), round);
            if (rank > peer) send_word(t, peer, t, round);
        }
    }
    idle_until_all_are(t);
    return NULL;
}

/* When the word has come back to where it began. */
static uint64_t back;

/* One word that goes round all threads of all ranks. */
static void *ring(void *arg) {
    int t = (int)(intptr_t)arg;
    int next_rank = t + 1 < threads ? rank : (rank + 1) % ranks, next = (t + 1) % threads;
    unsigned seed = seed_of(t);
    for (int lap = 0; lap < few(8); lap++) {
        if (rank != 0 || t != 0) CHECK_INT(take_word(t), lap);
        dawdle(&seed);
        send_word(t, next_rank, next, lap);
        if (rank == 0 && t == 0) {
            CHECK_INT(take_word(t), lap);
            back = now_on(world);
        }
    }
    idle_until_all_are(t);
    return NULL;
}

static void *multicast(void *arg) {
    int t = (int)(intptr_t)arg, total = 0;
    uint64_t all = threads == 64 ? UINT64_MAX : (UINT64_C(1) << threads) - 1;
    unsigned seed = seed_of(t);
    for (int round = 0; round < few(16); round++) {
        dawdle(&seed);
        if (t == round % threads) {
            void *slot;
            OK(pennyMailboxSendSlot(box, t, &slot));
            memcpy(slot, &round, sizeof round);
            for (int dest = 0; dest < ranks; dest++)
                OK(pennyMailboxMulticast(box, dest, (unsigned)(all >> 32), (unsigned)all, slot));
        }
        for (int k = 0; k < ranks; k++) total += take_word(t);
    }
    CHECK_INT(total, ranks * few(16) * (few(16) - 1) / 2);
    idle_until_all_are(t);
    return NULL;
}

static void threads_with_places_in_mailboxes(void) {
    static const int sizes[] = {2, 8, 64};
    void *(*const works[])(void *) = {ping_pong, ring, multicast};
    for (int i = 0; i < 3; i++) {
        threads = sizes[i];
        world = join_machine(fabric);
        for (int w = 0; w < 3; w++) {
            make_box(512);
            uint64_t begun = now_on(world);
            all_threads(works[w]);
            CHECK(now_on(world) > begun || ranks == 1);
            OK(pennyMailboxDestroy(box));
        }
        OK(pennyBarrier(world, NULL));
        OK(pennyCommDestroy(world));
    }
}

/* The same word by one thread after the other, and by one that plays all of them. */
static void a_ring_takes_the_time_of_a_single_thread(void) {
    uint64_t took[2];
    threads = 4;
    for (int alone = 0; alone < 2; alone++) {
        world = join_machine(fabric);
        make_box(8);
        OK(pennyBarrier(world, NULL));
        uint64_t begun = now_on(world);
        if (alone) {
            for (int lap = 0; lap < 8; lap++)
                for (int t = 0; t < threads; t++) {
                    if (rank != 0 || t != 0) CHECK_INT(take_word(t), lap);
                    send_word(t, t + 1 < threads ? rank : (rank + 1) % ranks, (t + 1) % threads, lap);
                    if (rank == 0 && t == threads - 1) {
                        CHECK_INT(take_word(0), lap);
                        back = now_on(world);
                    }
                }
        } else {
            all_threads(ring);
        }
        took[alone] = rank == 0 ? back - begun : 0;
        OK(pennyMailboxDestroy(box));
        OK(pennyCommDestroy(world));
    }
    CHECK_INT(took[0], took[1]);
}

static void *take_in_vain(void *arg) {
    int t = (int)(intptr_t)arg;
    pennyMailboxMessage_t message;
    FAILS(pennyInvalidUsage, "deadlock", pennyMailboxRecv(box, t, &message));
    if (strstr(pennyGetLastError(NULL), "thread ") == NULL) FAIL("no thread in: %s", pennyGetLastError(NULL));
    return NULL;
}

static void threads_that_wait_for_messages_in_vain_are_told(void) {
    static const int sizes[] = {2, 64};
    for (int i = 0; i < 2; i++) {
        threads = sizes[i];
        world = join_machine(fabric);
        make_box(8);
        all_threads(take_in_vain);
        OK(pennyCommAbort(world));
    }
}

int main(void) {
    begin_threads();
    RUN_WANTED(threads_with_places_in_mailboxes);
    RUN_WANTED(a_ring_takes_the_time_of_a_single_thread);
    RUN_WANTED(threads_that_wait_for_messages_in_vain_are_told);
    return 0;
}
