/* src/ffi/mailbox.rs: messages to sets of threads, waiting, being idle, keys, what is refused. */
#include "check.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4 };

static pennyComm_t comm;
static int next;

static pennyMailbox_t mailbox(int threads, int slots) {
    pennyMailboxConfig_t config = PENNY_MAILBOX_CONFIG_INITIALIZER;
    pennyMailbox_t mb = NULL;
    config.threads = threads;
    config.slots = slots;
    OK(pennyMailboxCreate(comm, &config, &mb));
    CHECK(mb != NULL);
    return mb;
}

static pennyMailboxStats_t stats(pennyMailbox_t mb) {
    pennyMailboxStats_t stats = PENNY_MAILBOX_STATS_INITIALIZER;
    OK(pennyMailboxStats(mb, &stats));
    return stats;
}

/* One of three processes that send and receive until one of them is killed. */
struct meeting {
    pennyUniqueId id;
    volatile int there, under_way;
};

static void ends_by_the_death_of_rank_1(pennyResult_t result) {
    CHECK_INT(result, pennyRemoteError);
    const char *said = pennyGetLastError(NULL);
    if (strstr(said, "rank 1 (pid") == NULL || strstr(said, "died") == NULL) FAIL("\"%s\" does not name the dead", said);
}

static void *send_on(void *argument) {
    pennyMailbox_t mb = argument;
    pennyResult_t result = pennySuccess;
    void *slot = NULL;
    OK(pennyMailboxSendSlot(mb, 0, &slot));
    memset(slot, 1, 64);
    for (int i = 0; result == pennySuccess; i++) result = pennyMailboxMulticast(mb, i % 3, 0, 6, slot);
    ends_by_the_death_of_rank_1(result);
    return NULL;
}

static void live_until_a_death(int me, struct meeting *meeting) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyMailbox_t mb;
    pthread_t sender;
    rank = me;
    ranks = 3;
    config.timeoutMs = 60000;
    if (me == 0) {
        OK(pennyGetUniqueId(&meeting->id));
        __sync_synchronize();
        meeting->there = 1;
    }
    while (!meeting->there) nap();
    __sync_synchronize();
    OK(pennyCommInitRankConfig(&comm, 3, meeting->id, me, &config));
    mb = mailbox(3, 8);
    CHECK(pthread_create(&sender, NULL, send_on, mb) == 0);
    pennyResult_t result = pennySuccess;
    for (long i = 0; result == pennySuccess; i++) {
        pennyMailboxMessage_t message;
        int thread = 1 + (int)(i % 2); /* both get every message */
        result = pennyMailboxRecv(mb, thread, &message);
        if (result == pennySuccess) OK(pennyMailboxFree(mb, thread, message.data));
        meeting->under_way = 1;
    }
    ends_by_the_death_of_rank_1(result);
    CHECK(pthread_join(sender, NULL) == 0);
    exit(0);
}

/* Before anything else: the children of a process that uses Penny may not. */
static void a_killed_rank_ends_every_wait_of_the_others(void) {
    if (rank != 0) return;
    for (int round = 0; round < 5; round++) {
        pid_t child[3];
        struct meeting *meeting =
            mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(meeting != MAP_FAILED);
        fflush(NULL);
        for (int i = 0; i < 3; i++) {
            if ((child[i] = fork()) == 0) live_until_a_death(i, meeting);
            CHECK(child[i] > 0);
        }
        while (!meeting->under_way) nap();
        for (int i = 0; i < 3 * round; i++) nap();
        CHECK(kill(child[1], SIGKILL) == 0);
        for (int i = 0; i < 3; i++) {
            int status = -1;
            CHECK(waitpid(child[i], &status, 0) == child[i]);
            if (i == 1) {
                CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            } else {
                CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            }
        }
        CHECK(munmap(meeting, sizeof *meeting) == 0);
    }
}

static void all_ranks_make_one_or_none_has_any(void) {
    pennyMailboxConfig_t config = PENNY_MAILBOX_CONFIG_INITIALIZER;
    pennyMailbox_t mb = NULL;
    comm = join();
    next = (rank + 1) % ranks;
    FAILS(pennyInvalidArgument, "config is NULL", pennyMailboxCreate(comm, NULL, &mb));
    FAILS(pennyInvalidArgument, "mb is NULL", pennyMailboxCreate(comm, &config, NULL));
    config.magic = 0;
    FAILS(pennyInvalidArgument, "PENNY_MAILBOX_CONFIG_INITIALIZER", pennyMailboxCreate(comm, &config, &mb));
    config.magic = PENNY_MAILBOX_CONFIG_MAGIC;
    const struct {
        int threads, slots, bytes;
        const char *text;
    } wrong[] = {{65, 8, 64, "threads is 65"},   {0, 8, 64, "threads is 0"},          {-1, 8, 64, "threads is -1"},
                 {1, 0, 64, "slots is 0"},       {1, 65537, 64, "slots is 65537"},    {1, 8, 24, "slotBytes is 24"},
                 {1, 8, 65552, "slotBytes is 65552"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        config.threads = wrong[i].threads;
        config.slots = wrong[i].slots;
        config.slotBytes = wrong[i].bytes;
        FAILS(pennyInvalidArgument, wrong[i].text, pennyMailboxCreate(comm, &config, &mb));
    }
    config = (pennyMailboxConfig_t)PENNY_MAILBOX_CONFIG_INITIALIZER;
    if (ranks > 1) {
        config.threads = rank == ranks - 1 ? 65 : 1;
        if (rank == ranks - 1) {
            FAILS(pennyInvalidArgument, "threads is 65", pennyMailboxCreate(comm, &config, &mb));
        } else {
            FAILS(pennyInvalidUsage, "could not make its mailbox, so no rank did", pennyMailboxCreate(comm, &config, &mb));
        }
        config.threads = 1;
        config.slotBytes = rank == 0 ? 64 : 128;
        FAILS(pennyInvalidUsage, "slotBytes is 64 on rank 0 and 128 on rank 1", pennyMailboxCreate(comm, &config, &mb));
    }
    CHECK(mb == NULL);
    /* Threads and slots may differ. */
    config.threads = 1 + rank;
    config.slots = 10 + rank;
    config.slotBytes = 128;
    OK(pennyMailboxCreate(comm, &config, &mb));
    CHECK_INT(stats(mb).slots, 10 + rank);
    CHECK_INT(stats(mb).slotsFree, 10 + rank);
    OK(pennyMailboxDestroy(mb));
    FAILS(pennyInvalidArgument, "not a live mailbox", pennyMailboxDestroy(mb));
}

static void one_message_reaches_any_set_of_threads(void) {
    pennyMailbox_t mb = mailbox(THREADS, 16);
    pennyMailboxMessage_t message;
    int received = -1;
    uint64_t *slot = NULL, *again = NULL;
    OK(pennyMailboxSendSlot(mb, 1, (void **)&slot));
    OK(pennyMailboxSetLen(mb, 1, 2));
    for (int i = 0; i < 3; i++) {
        for (int w = 0; w < 4; w++) slot[w] = (uint64_t)(rank * 100 + i * 10 + w);
        if (i == 2) {
            OK(pennyMailboxSend(mb, next, 3, slot));
        } else {
            OK(pennyMailboxMulticast(mb, next, 0, 0xb, slot)); /* threads 0, 1 and 3 */
        }
    }
    OK(pennyMailboxSendSlot(mb, 1, (void **)&again));
    CHECK(again == slot);
    int prev = (rank + ranks - 1) % ranks;
    for (int thread = 0; thread < THREADS; thread++) {
        int expected = thread == 2 ? 0 : thread == 3 ? 3 : 2;
        for (int i = 0; i < expected; i++) {
            OK(pennyMailboxRecv(mb, thread, &message));
            CHECK_INT(message.flits, 2);
            CHECK_INT(message.sourceRank, prev);
            CHECK_INT(message.sourceThread, 1);
            CHECK_INT(message.localKey, 0);
            for (int w = 0; w < 4; w++) CHECK_INT(((const uint64_t *)message.data)[w], prev * 100 + i * 10 + w);
            OK(pennyMailboxFree(mb, thread, message.data));
        }
        OK(pennyMailboxTryRecv(mb, thread, &message, &received));
        CHECK_INT(received, 0);
        OK(pennyMailboxCanRecv(mb, thread, &received));
        CHECK_INT(received, 0);
    }
    pennyMailboxStats_t now = stats(mb);
    CHECK_INT(now.sent, 3);
    CHECK_INT(now.received, 7);
    CHECK_INT(now.written, 3);
    CHECK_INT(now.delivered, 7);
    CHECK_INT(now.bytesWritten, 3 * 32);
    CHECK_INT(now.slotsFree, 16);
    OK(pennyMailboxDestroy(mb));
}

static void a_full_mailbox_pushes_back_and_drops_nothing(void) {
    pennyMailbox_t mb = mailbox(1, 4);
    pennyMailboxMessage_t message;
    int can = -1, ready = -1, *slot = NULL;
    OK(pennyMailboxSendSlot(mb, 0, (void **)&slot));
    for (int i = 0; i < 4; i++) {
        OK(pennyMailboxCanSend(mb, 0, rank, &can));
        CHECK_INT(can, 1);
        *slot = i;
        OK(pennyMailboxSend(mb, rank, 0, slot));
    }
    OK(pennyMailboxCanSend(mb, 0, rank, &can));
    CHECK_INT(can, 0);
    *slot = 4;
    OK(pennyMailboxTryMulticast(mb, rank, 0, 1, slot, &can));
    CHECK_INT(can, 0);
    OK(pennyMailboxWaitUntil(mb, 0, PENNY_MAILBOX_CAN_SEND | PENNY_MAILBOX_CAN_RECV, rank, &ready));
    CHECK_INT(ready, PENNY_MAILBOX_CAN_RECV);
    for (int i = 0; i < 5; i++) {
        OK(pennyMailboxRecv(mb, 0, &message));
        CHECK_INT(*(const int *)message.data, i);
        OK(pennyMailboxFree(mb, 0, message.data));
        if (i == 0) {
            OK(pennyMailboxWaitUntil(mb, 0, PENNY_MAILBOX_CAN_SEND, rank, &ready));
            CHECK_INT(ready, PENNY_MAILBOX_CAN_SEND);
            OK(pennyMailboxTryMulticast(mb, rank, 0, 1, slot, &can));
            CHECK_INT(can, 1);
        }
    }
    OK(pennyMailboxDestroy(mb));
}

static void wrong_arguments_are_refused_and_nothing_is_lost(void) {
    pennyMailbox_t mb = mailbox(THREADS, 8);
    pennyMailboxMessage_t message = {0};
    pennyMailboxStats_t blank = {0};
    int out = -7, local = 0;
    uint64_t key = 0;
    void *slot = NULL;
    OK(pennyMailboxSendSlot(mb, 0, &slot));
    FAILS(pennyInvalidArgument, "the mask is empty", pennyMailboxMulticast(mb, rank, 0, 0, slot));
    FAILS(pennyInvalidArgument, "has bit 4", pennyMailboxMulticast(mb, rank, 0, 0x10, slot));
    FAILS(pennyInvalidArgument, "has bit 63", pennyMailboxMulticast(mb, rank, 0x80000000u, 1, slot));
    FAILS(pennyInvalidArgument, "has bit 4", pennyMailboxSend(mb, rank, 4, slot));
    FAILS(pennyInvalidArgument, "destThread is -1", pennyMailboxSend(mb, rank, -1, slot));
    FAILS(pennyInvalidArgument, "destThread is 64", pennyMailboxSend(mb, rank, 64, slot));
    FAILS(pennyInvalidArgument, "dest is -1", pennyMailboxSend(mb, -1, 0, slot));
    FAILS(pennyInvalidArgument, "dest is", pennyMailboxSend(mb, ranks, 0, slot));
    FAILS(pennyInvalidArgument, "no send slot", pennyMailboxSend(mb, rank, 0, &local));
    FAILS(pennyInvalidArgument, "no send slot", pennyMailboxSend(mb, rank, 0, NULL));
    FAILS(pennyInvalidArgument, "flits is 5", pennyMailboxSetLen(mb, 0, 5));
    FAILS(pennyInvalidArgument, "thread 4 is not of this mailbox", pennyMailboxRecv(mb, 4, &message));
    FAILS(pennyInvalidArgument, "thread -1", pennyMailboxTryRecv(mb, -1, &message, &out));
    FAILS(pennyInvalidArgument, "flags is 0x4", pennyMailboxWaitUntil(mb, 0, 4, 0, &out));
    FAILS(pennyInvalidArgument, "flags is 0", pennyMailboxWaitUntil(mb, 0, 0, 0, &out));
    FAILS(pennyInvalidArgument, "message is NULL", pennyMailboxRecv(mb, 0, NULL));
    FAILS(pennyInvalidArgument, "no message", pennyMailboxFree(mb, 0, &local));
    FAILS(pennyInvalidArgument, "entries is NULL", pennyMailboxKeyCreate(mb, NULL, 1, &key));
    FAILS(pennyInvalidArgument, "n is 0", pennyMailboxKeyCreate(mb, NULL, 0, &key));
    FAILS(pennyInvalidArgument, "no key", pennyMailboxKeySend(mb, 7, slot));
    FAILS(pennyInvalidArgument, "PENNY_MAILBOX_STATS_INITIALIZER", pennyMailboxStats(mb, &blank));
    OK(pennyMailboxDestroy(NULL));
    FAILS(pennyInvalidArgument, "mb is NULL", pennyMailboxCanRecv(NULL, 0, &out));
    FAILS(pennyInvalidArgument, "not a live mailbox", pennyMailboxCanRecv((pennyMailbox_t)&local, 0, &out));
    CHECK(out == -7 && message.data == NULL);
    OK(pennyMailboxSend(mb, rank, 2, slot));
    OK(pennyMailboxRecv(mb, 2, &message));
    FAILS(pennyInvalidUsage, "thread 3 of rank", pennyMailboxFree(mb, 3, message.data));
    FAILS(pennyInvalidUsage, "still holds 1 messages", pennyMailboxIdle(mb, 2, 1, &out));
    OK(pennyMailboxFree(mb, 2, message.data));
    FAILS(pennyInvalidUsage, "freed it already", pennyMailboxFree(mb, 2, message.data));
    CHECK_INT(stats(mb).written, 1);
    CHECK_INT(stats(mb).slotsFree, 8);
    OK(pennyMailboxDestroy(mb));
}

static void a_key_stands_for_mailboxes_of_many_ranks(void) {
    pennyMailbox_t mb = mailbox(2, 64);
    pennyMailboxKeyEntry_t entries[16];
    pennyMailboxMessage_t message;
    uint64_t key = 0;
    int *slot = NULL;
    for (int r = 0; r < ranks; r++) entries[r] = (pennyMailboxKeyEntry_t){ranks - 1 - r, 0, 3, (unsigned)(100 + rank)};
    OK(pennyMailboxKeyCreate(mb, entries, (size_t)ranks, &key));
    OK(pennyMailboxSendSlot(mb, 0, (void **)&slot));
    *slot = rank;
    OK(pennyMailboxKeySend(mb, key, slot));
    for (int thread = 0; thread < 2; thread++) {
        int seen = 0;
        for (int i = 0; i < ranks; i++) {
            OK(pennyMailboxRecv(mb, thread, &message));
            CHECK_INT(*(const int *)message.data, message.sourceRank);
            CHECK_INT(message.localKey, 100 + message.sourceRank);
            seen |= 1 << message.sourceRank;
            OK(pennyMailboxFree(mb, thread, message.data));
        }
        CHECK_INT(seen, (1 << ranks) - 1);
    }
    OK(pennyMailboxKeyDestroy(mb, key));
    FAILS(pennyInvalidArgument, "no key of this mailbox", pennyMailboxKeySend(mb, key, slot));
    OK(pennyMailboxDestroy(mb));
}

/* Work that spreads over all threads of all ranks: a message with n left makes two with n - 1 left. */
struct worker {
    pennyMailbox_t mb;
    int thread, first;
    long done;
};

static void *work(void *argument) {
    struct worker *me = argument;
    enum { DEPTH = 9, TODO = 4096 };
    int todo[TODO], count = 0, state = PENNY_MAILBOX_MESSAGE, received = 0, sent = 0, *slot = NULL;
    unsigned dice = (unsigned)(rank * THREADS + me->thread) * 2654435761u + 1;
    pennyMailboxMessage_t message;
    OK(pennyMailboxSendSlot(me->mb, me->thread, (void **)&slot));
    OK(pennyMailboxSetLen(me->mb, me->thread, 1));
    if (me->first) todo[count++] = DEPTH;
    while (state == PENNY_MAILBOX_MESSAGE) {
        for (;;) {
            OK(pennyMailboxTryRecv(me->mb, me->thread, &message, &received));
            if (!received) break;
            int left = *(const int *)message.data;
            OK(pennyMailboxFree(me->mb, me->thread, message.data));
            me->done++;
            if (left > 0) {
                CHECK(count + 2 <= TODO);
                todo[count++] = left - 1;
                todo[count++] = left - 1;
            }
        }
        if (count == 0) {
            OK(pennyMailboxIdle(me->mb, me->thread, me->thread != 0, &state));
            continue;
        }
        dice = dice * 1664525u + 1013904223u;
        *slot = todo[count - 1];
        OK(pennyMailboxTryMulticast(me->mb, (int)(dice >> 8) % ranks, 0, 1u << (dice >> 24) % THREADS, slot, &sent));
        count -= sent;
        if (!sent) sched_yield();
    }
    CHECK_INT(state, PENNY_MAILBOX_ALL_IDLE); /* threads 0 voted false */
    OK(pennyMailboxIdle(me->mb, me->thread, 1, &state));
    CHECK_INT(state, PENNY_MAILBOX_ALL_VOTED);
    return NULL;
}

static void the_end_of_work_that_spreads_is_found(void) {
    for (int round = 0; round < 10; round++) {
        pennyMailbox_t mb = mailbox(THREADS, 16);
        struct worker workers[THREADS];
        pthread_t threads[THREADS];
        long done = 0, all = 0;
        for (int t = 0; t < THREADS; t++) {
            workers[t] = (struct worker){mb, t, rank == round % ranks && t == 1, 0};
            CHECK(pthread_create(&threads[t], NULL, work, &workers[t]) == 0);
        }
        for (int t = 0; t < THREADS; t++) {
            CHECK(pthread_join(threads[t], NULL) == 0);
            done += workers[t].done;
        }
        CHECK_INT(stats(mb).slotsFree, 16);
        OK(pennyAllReduce(&done, &all, 1, pennyInt64, pennySum, comm, NULL));
        CHECK_INT(all, (1 << 10) - 1);
        OK(pennyMailboxDestroy(mb));
    }
}

static void mailboxes_end_with_their_communicator(void) {
    pennyMailbox_t mb = mailbox(1, 4), other = mailbox(1, 4);
    int can = -1;
    OK(pennyMailboxDestroy(other));
    OK(pennyMailboxCanRecv(mb, 0, &can));
    OK(pennyCommDestroy(comm));
    FAILS(pennyInvalidArgument, "not a live mailbox", pennyMailboxCanRecv(mb, 0, &can));
    FAILS(pennyInvalidArgument, "not a live mailbox", pennyMailboxDestroy(mb));
}

int main(void) {
    begin();
    RUN(a_killed_rank_ends_every_wait_of_the_others);
    RUN(all_ranks_make_one_or_none_has_any);
    RUN(one_message_reaches_any_set_of_threads);
    RUN(a_full_mailbox_pushes_back_and_drops_nothing);
    RUN(wrong_arguments_are_refused_and_nothing_is_lost);
    RUN(a_key_stands_for_mailboxes_of_many_ranks);
    RUN(the_end_of_work_that_spreads_is_found);
    RUN(mailboxes_end_with_their_communicator);
    return 0;
}
