/* src/handle.rs: every handle names its kind, and a handle of one kind is refused wherever another is wanted. */
#include "check.h"

enum { COMM, STREAM, EVENT, WINDOW, MAILBOX, SEMAPHORE, KEY, REGISTRATION, KINDS };

static const char *const called[KINDS] = {
    "a communicator", "a stream", "an event", "a window", "a mailbox", "a semaphore", "a key of a mailbox",
    "a registration of a buffer",
};

static pennyComm_t comm;
static pennyStream_t stream;
static pennyEvent_t event;
static pennyWindow_t window;
static pennyMailbox_t mailbox;
static pennySemaphore_t semaphore;
static uint64_t key;
static void *registration;

static int *inbox;
static char buffer[1 << 16];
static uintptr_t made[KINDS];
static char text[128];

/* What the refusal of a handle says where another kind is wanted; NULL for the wanted kind itself. */
static const char *refusal(int wanted, int passed) {
    if (wanted == passed) return NULL;
    snprintf(text, sizeof text, "is not %s: that is %s; pass %s", called[wanted], called[passed], called[wanted]);
    return text;
}

static void one_of_each_kind_is_made(void) {
    pennyMailboxConfig_t config = PENNY_MAILBOX_CONFIG_INITIALIZER;
    pennyMailboxKeyEntry_t entry = {rank, 0, 1, 7};
    OK(pennyShmemInit(comm));
    OK(pennyStreamCreate(&stream));
    OK(pennyEventCreate(&event));
    OK(pennyMemAlloc((void **)&inbox, 4096));
    OK(pennyCommWindowRegister(comm, inbox, 4096, &window, PENNY_WIN_DEFAULT));
    OK(pennyMailboxCreate(comm, &config, &mailbox));
    OK(pennySemaphoreCreate(comm, pennySemaphoreRegular, "one", 1, &semaphore));
    OK(pennyMailboxKeyCreate(mailbox, &entry, 1, &key));
    OK(pennyCommRegister(comm, buffer, sizeof buffer, &registration));
    const uintptr_t all[KINDS] = {(uintptr_t)comm, (uintptr_t)stream, (uintptr_t)event, (uintptr_t)window,
                                  (uintptr_t)mailbox, (uintptr_t)semaphore, (uintptr_t)key, (uintptr_t)registration};
    memcpy(made, all, sizeof made);
}

static void no_two_handles_are_equal(void) {
    for (int i = 0; i < KINDS; i++) {
        for (int j = 0; j < i; j++) CHECK(made[i] != made[j]);
    }
}

static void a_handle_of_another_kind_is_no_communicator(void) {
    for (int k = 0; k < KINDS; k++) {
        const char *said = refusal(COMM, k);
        pennyComm_t foreign = (pennyComm_t)made[k];
        int number = 0;
        if (said == NULL) continue;
        FAILS(pennyInvalidArgument, said, pennyCommDestroy(foreign));
        FAILS(pennyInvalidArgument, said, pennyCommAbort(foreign));
        FAILS(pennyInvalidArgument, said, pennyCommFinalize(foreign));
        FAILS(pennyInvalidArgument, said, pennyCommUserRank(foreign, &number));
        FAILS(pennyInvalidArgument, said, pennyAllReduce(inbox, inbox, 1, pennyInt, pennySum, foreign, NULL));
        FAILS(pennyInvalidArgument, said, pennyAllReduce(inbox, inbox, 1, pennyInt, pennySum, foreign, stream));
    }
}

static void a_handle_of_another_kind_is_no_stream_and_no_event(void) {
    for (int k = 0; k < KINDS; k++) {
        const char *said = refusal(STREAM, k);
        if (said != NULL) {
            pennyStream_t foreign = (pennyStream_t)made[k];
            FAILS(pennyInvalidArgument, said, pennyStreamDestroy(foreign));
            FAILS(pennyInvalidArgument, said, pennyStreamSynchronize(foreign));
            FAILS(pennyInvalidArgument, said, pennyStreamQuery(foreign));
            FAILS(pennyInvalidArgument, said, pennyEventRecord(event, foreign));
            FAILS(pennyInvalidArgument, said, pennyBarrier(comm, foreign));
        }
        said = refusal(EVENT, k);
        if (said != NULL) {
            pennyEvent_t foreign = (pennyEvent_t)made[k];
            FAILS(pennyInvalidArgument, said, pennyEventDestroy(foreign));
            FAILS(pennyInvalidArgument, said, pennyEventQuery(foreign));
            FAILS(pennyInvalidArgument, said, pennyStreamWaitEvent(stream, foreign));
        }
    }
}

static void a_handle_of_another_kind_is_no_window_and_no_registration(void) {
    for (int k = 0; k < KINDS; k++) {
        const char *said = refusal(WINDOW, k);
        if (said != NULL) {
            void *ptr = NULL;
            FAILS(pennyInvalidArgument, said, pennyWinGetUserPtr(comm, (pennyWindow_t)made[k], &ptr));
            FAILS(pennyInvalidArgument, said, pennyCommWindowDeregister(comm, (pennyWindow_t)made[k]));
        }
        said = refusal(REGISTRATION, k);
        if (said != NULL) FAILS(pennyInvalidArgument, said, pennyCommDeregister(comm, (void *)made[k]));
    }
}

static void a_handle_of_another_kind_is_no_mailbox_no_semaphore_and_no_key(void) {
    for (int k = 0; k < KINDS; k++) {
        const char *said = refusal(MAILBOX, k);
        if (said != NULL) {
            int can = 0;
            FAILS(pennyInvalidArgument, said, pennyMailboxDestroy((pennyMailbox_t)made[k]));
            FAILS(pennyInvalidArgument, said, pennyMailboxCanRecv((pennyMailbox_t)made[k], 0, &can));
        }
        said = refusal(SEMAPHORE, k);
        if (said != NULL) {
            uint64_t value = 0;
            FAILS(pennyInvalidArgument, said, pennySemaphoreDestroy((pennySemaphore_t)made[k]));
            FAILS(pennyInvalidArgument, said, pennySemaphoreRead((pennySemaphore_t)made[k], 0, &value));
        }
        said = refusal(KEY, k);
        if (said != NULL) FAILS(pennyInvalidArgument, said, pennyMailboxKeyDestroy(mailbox, made[k]));
    }
}

static void all_of_them_are_still_there(void) {
    int number = -1, can = -1;
    uint64_t value = 9;
    void *ptr = NULL;
    OK(pennyCommUserRank(comm, &number));
    CHECK_INT(number, rank);
    OK(pennyBarrier(comm, stream));
    OK(pennyEventRecord(event, stream));
    OK(pennyEventSynchronize(event));
    OK(pennyWinGetUserPtr(comm, window, &ptr));
    CHECK(ptr == inbox);
    OK(pennyMailboxCanRecv(mailbox, 0, &can));
    OK(pennySemaphoreRead(semaphore, 0, &value));
    CHECK_INT(value, 0);
    OK(pennyMailboxKeyDestroy(mailbox, key));
    FAILS(pennyInvalidArgument, "is no key of this mailbox", pennyMailboxKeyDestroy(mailbox, key));
    OK(pennyCommDeregister(comm, registration));
    FAILS(pennyInvalidArgument, "deregistered already", pennyCommDeregister(comm, registration));
    OK(pennySemaphoreDestroy(semaphore));
    OK(pennyMailboxDestroy(mailbox));
    OK(pennyCommWindowDeregister(comm, window));
    OK(pennyEventDestroy(event));
    OK(pennyStreamDestroy(stream));
    OK(pennyMemFree(inbox));
}

static void no_handle_is_destroyed_without_a_word(void) {
    OK(pennyCommDestroy(NULL));
    OK(pennyCommAbort(NULL));
    OK(pennyStreamDestroy(NULL));
    OK(pennyEventDestroy(NULL));
    OK(pennyRecordingDestroy(NULL));
    OK(pennyMailboxDestroy(NULL));
    OK(pennySemaphoreDestroy(NULL));
    OK(pennyCommWindowDeregister(comm, NULL));
    OK(pennyMemFree(NULL));
}

/* A stale handle of another kind is told by its kind, too. */
static void a_destroyed_stream_is_no_communicator_either(void) {
    FAILS(pennyInvalidArgument, refusal(COMM, STREAM), pennyCommDestroy((pennyComm_t)made[STREAM]));
    FAILS(pennyInvalidArgument, "not a live stream", pennyStreamDestroy(stream));
    FAILS(pennyInvalidArgument, "not a live communicator", pennyCommDestroy((pennyComm_t)&comm));
}

int main(void) {
    begin();
    comm = join();
    RUN(one_of_each_kind_is_made);
    RUN(no_two_handles_are_equal);
    RUN(a_handle_of_another_kind_is_no_communicator);
    RUN(a_handle_of_another_kind_is_no_stream_and_no_event);
    RUN(a_handle_of_another_kind_is_no_window_and_no_registration);
    RUN(a_handle_of_another_kind_is_no_mailbox_no_semaphore_and_no_key);
    RUN(all_of_them_are_still_there);
    RUN(no_handle_is_destroyed_without_a_word);
    RUN(a_destroyed_stream_is_no_communicator_either);
    OK(pennyCommDestroy(comm));
    return 0;
}
