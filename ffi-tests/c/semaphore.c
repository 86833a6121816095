/* src/ffi/semaphore.rs and src/ffi/remote_copy.rs: semaphores, the mesh, remote copies, and what is told when they go wrong. */
#include "check.h"

static pennyComm_t comm;
static int right, left;

static pennySemaphore_t make(pennySemaphoreKind_t kind, const char *name, int count) {
    pennySemaphore_t sem = NULL;
    OK(pennySemaphoreCreate(comm, kind, name, count, &sem));
    CHECK(sem != NULL);
    return sem;
}

static uint64_t value_of(pennySemaphore_t sem, int index) {
    uint64_t value = 99;
    OK(pennySemaphoreRead(sem, index, &value));
    return value;
}

static void a_symmetric_heap_comes_first(void) {
    pennySemaphore_t sem = NULL;
    int sides[1] = {ranks};
    FAILS(pennyInvalidUsage, "pennyShmemInit", pennySemaphoreCreate(comm, pennySemaphoreRegular, "s", 1, &sem));
    FAILS(pennyInvalidUsage, "pennyShmemInit", pennyBarrierSemaphore(comm, 0, &sem));
    FAILS(pennyInvalidUsage, "pennyShmemInit", pennyMesh(comm, 1, sides));
    CHECK(sem == NULL);
    OK(pennyShmemInit(comm));
}

static void a_wait_takes_off_what_it_waited_for(void) {
    pennySemaphore_t sem = make(pennySemaphoreRegular, "tokens", 2);
    OK(pennySemaphoreSignal(sem, 1, 2, PENNY_DEVICE(right)));
    OK(pennySemaphoreSignal(sem, 1, 3, PENNY_DEVICE(right)));
    OK(pennySemaphoreWait(sem, 1, 4));
    OK(pennySemaphoreWait(sem, 1, 0));
    OK(pennyShmemBarrierAll(comm));
    CHECK_INT(value_of(sem, 1), 1);
    CHECK_INT(value_of(sem, 0), 0);
    OK(pennySemaphoreWait(sem, 1, 1));
    OK(pennySemaphoreDestroy(sem));
    FAILS(pennyInvalidArgument, "no live semaphore", pennySemaphoreWait(sem, 1, 1));
    FAILS(pennyInvalidArgument, "no live semaphore", pennySemaphoreDestroy(sem));
}

static void barrier_semaphores_are_there_without_a_meeting(void) {
    pennySemaphore_t sem = NULL, again = NULL;
    OK(pennyBarrierSemaphore(comm, 5, &sem));
    OK(pennyBarrierSemaphore(comm, 5, &again));
    CHECK(sem != NULL && sem == again);
    for (int round = 0; round < 50; round++) {
        OK(pennySemaphoreSignal(sem, 0, 1, PENNY_DEVICE(left)));
        OK(pennySemaphoreSignal(sem, 0, 1, PENNY_DEVICE(right)));
        OK(pennySemaphoreWait(sem, 0, 2));
    }
    FAILS(pennyInvalidArgument, "collectiveId is 32", pennyBarrierSemaphore(comm, PENNY_BARRIER_SEMAPHORES, &sem));
    FAILS(pennyInvalidArgument, "collectiveId is -1", pennyBarrierSemaphore(comm, -1, &sem));
    FAILS(pennyInvalidUsage, "barrier semaphore", pennySemaphoreDestroy(again));
}

static void a_mesh_names_ranks_by_coordinates(void) {
    pennySemaphore_t sem = make(pennySemaphoreRegular, "mesh", 1);
    int sides[2] = {ranks > 1 ? 2 : 1, ranks > 1 ? ranks / 2 : 1}, wrong[1] = {ranks + 1};
    int x = rank / sides[1], y = rank % sides[1];
    pennyDevice_t beside = {pennyDeviceDefault, {x, (y + 1) % sides[1], 0, 0}};
    FAILS(pennyInvalidUsage, "no mesh", pennySemaphoreSignal(sem, 0, 1, PENNY_MESH_DEVICE(0, 0)));
    FAILS(pennyInvalidArgument, "dims", pennyMesh(comm, 1, wrong));
    FAILS(pennyInvalidArgument, "ndims is -1", pennyMesh(comm, -1, sides));
    FAILS(pennyInvalidArgument, "dims is NULL", pennyMesh(comm, 2, NULL));
    OK(pennyMesh(comm, 2, sides));
    OK(pennySemaphoreSignal(sem, 0, 1, PENNY_MESH_DEVICE(sides[0] - 1 - x, y)));
    OK(pennySemaphoreSignal(sem, 0, 10, beside));
    OK(pennySemaphoreWait(sem, 0, 11));
    FAILS(pennyInvalidArgument, "coord[1]", pennySemaphoreSignal(sem, 0, 1, PENNY_MESH_DEVICE(0, sides[1])));
    FAILS(pennyInvalidArgument, "coord[2]", pennySemaphoreSignal(sem, 0, 1, PENNY_MESH_DEVICE(0, 0, 1)));
    OK(pennyMesh(comm, 0, NULL));
    FAILS(pennyInvalidUsage, "no mesh", pennySemaphoreSignal(sem, 0, 1, PENNY_MESH_DEVICE(0, 0)));
    OK(pennySemaphoreDestroy(sem));
}

static void a_ring_of_copies_passes_everybodys_words_on(void) {
    enum { WORDS = 300 };
    pennySemaphore_t send = make(pennySemaphoreDma, "sent", 1), recv = make(pennySemaphoreDma, "come", ranks);
    void *all = NULL;
    OK(pennyShmemMalloc(&all, (size_t)ranks * WORDS * sizeof(int), comm));
    int(*rows)[WORDS] = all;
    for (int i = 0; i < WORDS; i++) rows[rank][i] = rank * WORDS + i;
    for (int step = 0; step < ranks - 1; step++) {
        int row = (rank - step + ranks) % ranks, done = -1;
        pennyRemoteCopy_t copy = {
            .src = rows[row],
            .dst = rows[row],
            .bytes = sizeof rows[row],
            .sendSem = send,
            .recvSem = recv,
            .recvIndex = step,
            .device = PENNY_DEVICE(right),
        };
        OK(pennyRemoteCopyStart(comm, &copy));
        if (step % 2 == 0) {
            OK(pennyRemoteCopyWaitSend(comm, &copy));
            OK(pennyRemoteCopyWaitRecv(comm, &copy));
        } else {
            /* The harness ends a loop without end. */
            while (done != 1) OK(pennyRemoteCopyTest(comm, &copy, &done));
        }
    }
    for (int i = 0; i < ranks * WORDS; i++) CHECK_INT(((int *)all)[i], i);
    OK(pennySemaphoreDestroy(send));
    OK(pennySemaphoreDestroy(recv));
    OK(pennyShmemFree(all, comm));
}

static void a_copy_to_oneself_takes_any_memory(void) {
    pennySemaphore_t sem = make(pennySemaphoreDma, "local", 1);
    int from[4] = {rank, 1, 2, 3}, to[4] = {-1, -1, -1, -1};
    pennyRemoteCopy_t copy = {.src = from, .dst = to, .bytes = sizeof from, .recvSem = sem, .device = PENNY_DEVICE(rank)};
    OK(pennyRemoteCopyStart(comm, &copy));
    OK(pennyRemoteCopyWait(comm, &copy));
    CHECK(memcmp(from, to, sizeof from) == 0);
    OK(pennySemaphoreDestroy(sem));
}

static void wrong_arguments_are_refused_and_count_nothing(void) {
    pennySemaphore_t dma = make(pennySemaphoreDma, "dma", 2), go = make(pennySemaphoreRegular, "go", 2), none = NULL;
    void *word = NULL;
    int done, outside = 7;
    uint64_t value;
    OK(pennyShmemMalloc(&word, 8, comm));
    FAILS(pennyInvalidArgument, "sem is NULL", pennySemaphoreSignal(NULL, 0, 1, PENNY_DEVICE(0)));
    FAILS(pennyInvalidArgument, "no live semaphore", pennySemaphoreRead((pennySemaphore_t)(uintptr_t)12345, 0, &value));
    FAILS(pennyInvalidArgument, "value is NULL", pennySemaphoreRead(go, 0, NULL));
    FAILS(pennyInvalidArgument, "index is 2", pennySemaphoreWait(go, 2, 1));
    FAILS(pennyInvalidArgument, "device: rank", pennySemaphoreSignal(go, 0, 1, PENNY_DEVICE(ranks)));
    FAILS(pennyInvalidArgument, "device: rank -1 is out of range", pennySemaphoreSignal(go, 0, 1, PENNY_DEVICE(-1)));
    FAILS(pennyInvalidArgument, "negative", pennySemaphoreSignal(go, 0, (uint64_t)-1, PENNY_DEVICE(0)));
    FAILS(pennyInvalidArgument, "device.kind is 9", pennySemaphoreSignal(go, 0, 1, (pennyDevice_t){9, {0}}));
    FAILS(pennyInvalidUsage, "`dma` counts the bytes", pennySemaphoreSignal(dma, 0, 1, PENNY_DEVICE(0)));
    FAILS(pennyInvalidArgument, "kind is 2", pennySemaphoreCreate(comm, 2, "x", 1, &none));
    FAILS(pennyInvalidArgument, "name is NULL", pennySemaphoreCreate(comm, 0, NULL, 1, &none));
    FAILS(pennyInvalidArgument, "1 to 31 bytes",
          pennySemaphoreCreate(comm, 0, "a name that is longer than thirty", 1, &none));
    FAILS(pennyInvalidArgument, "count", pennySemaphoreCreate(comm, 0, "x", -1, &none));
    FAILS(pennyInvalidArgument, "sem is NULL", pennySemaphoreCreate(comm, 0, "x", 1, NULL));

    const pennyRemoteCopy_t good = {word, word, 8, dma, 0, dma, 1, PENNY_DEVICE(rank)};
    pennyRemoteCopy_t copy = good;
    FAILS(pennyInvalidArgument, "copy is NULL", pennyRemoteCopyStart(comm, NULL));
    FAILS(pennyInvalidArgument, "done is NULL", pennyRemoteCopyTest(comm, &copy, NULL));
    copy.recvSem = NULL;
    FAILS(pennyInvalidArgument, "recvSem is NULL", pennyRemoteCopyWait(comm, &copy));
    copy = good, copy.recvSem = go;
    FAILS(pennyInvalidArgument, "recvSem is `go`", pennyRemoteCopyStart(comm, &copy));
    copy = good, copy.sendSem = go;
    FAILS(pennyInvalidArgument, "sendSem is `go`", pennyRemoteCopyStart(comm, &copy));
    copy = good, copy.sendIndex = 2;
    FAILS(pennyInvalidArgument, "sendIndex is 2", pennyRemoteCopyTest(comm, &copy, &done));
    copy = good, copy.dst = &outside;
    if (ranks > 1) {
        copy.device = PENNY_DEVICE(right);
        FAILS(pennyInvalidArgument, "dst", pennyRemoteCopyStart(comm, &copy));
        copy = good, copy.device = PENNY_DEVICE(right), copy.sendSem = NULL;
        FAILS(pennyInvalidArgument, "sendSem is NULL", pennyRemoteCopyStart(comm, &copy));
    }
    CHECK(outside == 7 && value_of(dma, 0) == 0 && value_of(dma, 1) == 0 && value_of(go, 0) == 0);
    OK(pennySemaphoreDestroy(dma));
    OK(pennySemaphoreDestroy(go));
    OK(pennyShmemFree(word, comm));
}

static void *take_half(void *sem) {
    for (int i = 0; i < often(1000) / 2; i++) OK(pennySemaphoreWait(*(pennySemaphore_t *)sem, 0, (uint64_t)ranks));
    return NULL;
}

static void threads_share_a_semaphore(void) {
    pennySemaphore_t sem = make(pennySemaphoreRegular, "shared", 1);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, take_half, &sem) == 0);
    for (int i = 0; i < often(1000); i++) {
        for (int to = 0; to < ranks; to++) OK(pennySemaphoreSignal(sem, 0, 1, PENNY_DEVICE(to)));
    }
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    OK(pennyShmemBarrierAll(comm));
    OK(pennySemaphoreDestroy(sem));
}

/* One wait too few on rank 0. */
static void what_is_left_is_reported_by_its_name_and_freed(void) {
    pennySemaphore_t sem = make(pennySemaphoreRegular, "capacity", 3);
    if (rank == ranks - 1) OK(pennySemaphoreSignal(sem, 2, 4, PENNY_DEVICE(0)));
    if (rank == 0) {
        OK(pennySemaphoreWait(sem, 2, 3));
        FAILS(pennyInvalidUsage, "`capacity`[2] is 1 (last signalled by rank", pennySemaphoreDestroy(sem));
    } else {
        OK(pennySemaphoreDestroy(sem));
    }
    FAILS(pennyInvalidArgument, "no live semaphore", pennySemaphoreWait(sem, 2, 1));
}

/* One signal too few on the last rank. */
static void a_wait_in_vain_names_who_has_not_signalled(void) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyUniqueId id = shared_id();
    pennyComm_t hasty = NULL;
    pennySemaphore_t go = NULL;
    char never[64];
    /* Enough to join in, on a machine with much else to do. */
    config.timeoutMs = 5000;
    if (ranks == 1) return;
    OK(pennyCommInitRankConfig(&hasty, ranks, id, rank, &config));
    OK(pennyShmemInit(hasty));
    OK(pennySemaphoreCreate(hasty, pennySemaphoreRegular, "go", 1, &go));
    if (rank != ranks - 1) OK(pennySemaphoreSignal(go, 0, 1, PENNY_DEVICE(0)));
    OK(pennyShmemBarrierAll(comm));
    if (rank == 0) {
        snprintf(never, sizeof never, "never by rank %d", ranks - 1);
        FAILS(pennyTimeout, never, pennySemaphoreWait(go, 0, (uint64_t)ranks));
        CHECK(strstr(pennyGetLastError(NULL), "semaphore `go`[0] to be") != NULL);
        OK(pennySemaphoreWait(go, 0, (uint64_t)ranks - 1));
    }
    OK(pennyShmemBarrierAll(comm));
    OK(pennyCommDestroy(hasty));
}

/* The first and the last rank write to one place of rank 0's memory, in an order that the library knows nothing of; then the
 * same with a signal between. */
static void two_unordered_writers_are_told_if_they_are_looked_for(void) {
    pennySemaphore_t go = NULL;
    void *word = NULL;
    uint64_t value = (uint64_t)rank;
    if (ranks == 1) return;
    go = make(pennySemaphoreRegular, "go", 1);
    OK(pennyShmemMalloc(&word, 8, comm));
    if (rank == 0) {
        OK(pennyShmemPutMem(word, &value, 8, 0, comm));
        post("written");
        OK(pennySemaphoreSignal(go, 0, 1, PENNY_DEVICE(ranks - 1)));
    } else if (rank == ranks - 1) {
        await("written");
        if (getenv("PENNY_CHECK") != NULL) {
            FAILS(pennyInvalidUsage, "and a put of rank 0 both write to bytes 0 to 7", pennyShmemPutMem(word, &value, 8, 0, comm));
        }
        OK(pennySemaphoreWait(go, 0, 1));
        OK(pennyShmemPutMem(word, &value, 8, 0, comm));
    }
    OK(pennyShmemBarrierAll(comm));
    if (rank == 0) CHECK_INT(*(uint64_t *)word, ranks - 1);
    OK(pennySemaphoreDestroy(go));
    OK(pennyShmemFree(word, comm));
}

static void the_communicators_end_reports_what_is_left(void) {
    pennySemaphore_t sem = make(pennySemaphoreRegular, "last", 1);
    OK(pennySemaphoreSignal(sem, 0, 1, PENNY_DEVICE(right)));
    OK(pennyShmemBarrierAll(comm));
    FAILS(pennyInvalidUsage, "`last`[0] is 1", pennyCommDestroy(comm));
    FAILS(pennyInvalidArgument, "not a live communicator", pennyCommDestroy(comm));
    FAILS(pennyInvalidArgument, "no live semaphore", pennySemaphoreWait(sem, 0, 1));
}

int main(void) {
    begin();
    right = (rank + 1) % ranks;
    left = (rank + ranks - 1) % ranks;
    comm = join();
    RUN(a_symmetric_heap_comes_first);
    RUN(a_wait_takes_off_what_it_waited_for);
    RUN(barrier_semaphores_are_there_without_a_meeting);
    RUN(a_mesh_names_ranks_by_coordinates);
    RUN(a_ring_of_copies_passes_everybodys_words_on);
    RUN(a_copy_to_oneself_takes_any_memory);
    RUN(wrong_arguments_are_refused_and_count_nothing);
    RUN(threads_share_a_semaphore);
    RUN(what_is_left_is_reported_by_its_name_and_freed);
    RUN(a_wait_in_vain_names_who_has_not_signalled);
    RUN(two_unordered_writers_are_told_if_they_are_looked_for);
    RUN(the_communicators_end_reports_what_is_left);
    return 0;
}
