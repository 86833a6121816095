/* Remote copies round a ring through two slots, with and without the semaphore that says that a slot is free again: after JAX's guide to
 * Pallas on TPU. Run with PENNY_CHECK=race; TEST_TRIALS says how often. */
#include "check.h"

#include <unistd.h>

enum { BYTES = 4096, STEPS = 4 };

static pennyComm_t world;

/* A rank is late now and then. */
static void dawdle(unsigned dice) {
    if (dice % 3 == 0) usleep(dice % 500);
}

/* Passes slots on. Returns the first failure, whose sentence is the last error then. */
static pennyResult_t ring(pennyComm_t comm, int waits_for_free_slots, unsigned trial) {
    pennySemaphore_t sent, received, is_free;
    char *slots;
    pennyDevice_t left = PENNY_DEVICE((rank + ranks - 1) % ranks);
    OK(pennyShmemMalloc((void **)&slots, 2 * BYTES, comm));
    OK(pennySemaphoreCreate(comm, pennySemaphoreDma, "sent", 1, &sent));
    OK(pennySemaphoreCreate(comm, pennySemaphoreDma, "received", 1, &received));
    OK(pennySemaphoreCreate(comm, pennySemaphoreRegular, "is free", 1, &is_free));
    memset(slots, rank, 2 * BYTES);
    /* A rank that has left the barrier may be told of the race and abort before this one has left it. */
    pennyResult_t met = pennyShmemBarrierAll(comm);
    if (met != pennySuccess) return met;
    for (int step = 0; step < STEPS; step++) {
        pennyRemoteCopy_t copy = {
            .src = slots + step % 2 * BYTES,
            .dst = slots + (step + 1) % 2 * BYTES,
            .bytes = BYTES,
            .sendSem = sent,
            .recvSem = received,
            .device = PENNY_DEVICE((rank + 1) % ranks),
        };
        if (waits_for_free_slots && step > 0) OK(pennySemaphoreWait(is_free, 0, 1));
        pennyResult_t result = pennyRemoteCopyStart(comm, &copy);
        if (result == pennySuccess) result = pennyRemoteCopyWait(comm, &copy);
        if (result != pennySuccess) return result;
        dawdle(trial * 7919 + (unsigned)(rank * 31 + step) * 104729);
        if (waits_for_free_slots && step + 1 < STEPS) OK(pennySemaphoreSignal(is_free, 0, 1, left));
    }
    OK(pennySemaphoreDestroy(is_free));
    OK(pennySemaphoreDestroy(received));
    OK(pennySemaphoreDestroy(sent));
    return pennySuccess;
}

/* Plays it on a communicator of its own. Returns whether this rank was told of a race. */
static int is_told(int waits_for_free_slots, unsigned trial) {
    pennyComm_t comm;
    OK(pennyCommDup(world, &comm));
    OK(pennyShmemInit(comm));
    pennyResult_t result = ring(comm, waits_for_free_slots, trial);
    const char *said = pennyGetLastError(NULL);
    int told = result == pennyInvalidUsage;
    if (told && strstr(said, "a race: ") == NULL) FAIL("\"%s\" tells of no race", said);
    /* The others are told that this one has ended it. */
    if (result != pennySuccess && !told) CHECK_INT(result, pennyRemoteError);
    if (waits_for_free_slots) {
        CHECK_INT(result, pennySuccess);
        OK(pennyShmemFinalize(comm));
        OK(pennyCommDestroy(comm));
    } else {
        OK(pennyCommAbort(comm));
    }
    return told;
}

static void trials(int waits_for_free_slots, int expected) {
    for (int trial = 0; trial < number_of("TEST_TRIALS"); trial++) {
        int told = is_told(waits_for_free_slots, (unsigned)trial), any = 0;
        OK(pennyAllReduce(&told, &any, 1, pennyInt32, pennyMax, world, NULL));
        if (any != expected) FAIL("trial %d: told %d, not %d", trial, any, expected);
    }
}

static void a_slot_that_is_written_while_it_is_read_is_told_each_time(void) { trials(0, 1); }
static void a_ring_that_waits_for_free_slots_has_no_race(void) { trials(1, 0); }

int main(void) {
    begin();
    world = join();
    RUN(a_slot_that_is_written_while_it_is_read_is_told_each_time);
    RUN(a_ring_that_waits_for_free_slots_has_no_race);
    OK(pennyCommDestroy(world));
    return 0;
}
