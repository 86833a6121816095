/* src/ffi/window.rs: windows, puts with signals, waiting for signals. */
#include "check.h"
#include <limits.h>

enum { MOST = 8, COUNT = 5000 };
static pennyComm_t comm;
static int *inbox;          /* MOST blocks of COUNT, one for each sender */
static pennyWindow_t win;
static int out[MOST][COUNT];

static size_t block_of(int sender) { return (size_t)sender * COUNT * sizeof(int); }

static void put(int to, size_t count, int sigIdx, int ctx) {
    OK(pennyPutSignal(out[to], count, pennyInt, to, win, block_of(rank), sigIdx, ctx, 0, comm, NULL));
}

static void await_signals(int from, int opCnt, int sigIdx, int ctx) {
    pennyWaitSignalDesc_t desc = {opCnt, from, sigIdx, ctx};
    OK(pennyWaitSignal(1, &desc, comm, NULL));
}

static void a_window_is_made_by_all_ranks(void) {
    void *ptr = NULL;
    CHECK(ranks <= MOST);
    OK(pennyMemAlloc((void **)&inbox, MOST * COUNT * sizeof *inbox));
    OK(pennyCommWindowRegister(comm, inbox, ranks * COUNT * sizeof *inbox, &win, PENNY_WIN_COLL_SYMMETRIC));
    CHECK(win != NULL);
    OK(pennyWinGetUserPtr(comm, win, &ptr));
    CHECK(ptr == inbox);
}

static void a_put_to_every_peer_arrives_with_its_signal(void) {
    const size_t counts[] = {0, 1, 100, COUNT};
    for (int k = 0; k < 4; k++) {
        for (int to = 0; to < ranks; to++) {
            for (size_t i = 0; i < counts[k]; i++) out[to][i] = rank * 1000000 + to * 100000 + k * 10000 + (int)i;
            put(to, counts[k], 0, 0);
        }
        for (int from = 0; from < ranks; from++) {
            await_signals(from, 1, 0, 0);
            for (size_t i = 0; i < counts[k]; i++) {
                CHECK_INT(inbox[from * COUNT + i], from * 1000000 + rank * 100000 + k * 10000 + (int)i);
            }
        }
        OK(pennyBarrier(comm, NULL));
    }
}

/* The last of many signals says that all before have come, whatever their number in the context. */
static void a_signal_speaks_for_all_earlier_puts(void) {
    int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 100; i++) {
            int number = round * 100 + i;
            size_t at = block_of(rank) + i * sizeof(int);
            OK(pennyPutSignal(&number, 1, pennyInt, next, win, at, 1 + i % 50, 3, 0, comm, NULL));
            number = -1;
        }
        OK(pennySignal(next, 63, 3, 0, comm, NULL));
        await_signals(prev, 1, 63, 3);
        for (int i = 0; i < 100; i++) CHECK_INT(inbox[prev * COUNT + i], round * 100 + i);
        OK(pennyBarrier(comm, NULL));
    }
    /* The others are still there to be taken, two from each of fifty in each round. */
    for (int i = 0; i < 50; i++) await_signals(prev, 40, 1 + i, 3);
}

static void a_signal_is_counted_and_taken_once(void) {
    int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;
    for (int i = 0; i < 6; i++) OK(pennySignal(next, 7, 7, 0, comm, NULL));
    await_signals(prev, 1, 7, 7);
    await_signals(prev, 2, 7, 7);
    pennyWaitSignalDesc_t twice[] = {{1, prev, 7, 7}, {2, prev, 7, 7}};
    OK(pennyWaitSignal(2, twice, comm, NULL));
    /* None is left: to oneself that is known at once. */
    pennyWaitSignalDesc_t own = {1, rank, 7, 7};
    FAILS(pennyInvalidUsage, "of which 0 came", pennyWaitSignal(1, &own, comm, NULL));
    OK(pennySignal(rank, 7, 7, 0, comm, NULL));
    own.opCnt = 2;
    FAILS(pennyInvalidUsage, "2 signals from rank", pennyWaitSignal(1, &own, comm, NULL));
    own.opCnt = 1;
    OK(pennyWaitSignal(1, &own, comm, NULL));
    OK(pennyBarrier(comm, NULL));
}

/* Waits in the reverse of the order in which the signals were given. */
static void every_signal_of_every_context_counts_for_itself(void) {
    int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;
    for (int ctx = 0; ctx < PENNY_SIGNAL_CONTEXTS; ctx++) {
        for (int i = 0; i < PENNY_SIGNALS; i++) OK(pennySignal(next, i, ctx, 0, comm, NULL));
    }
    for (int ctx = PENNY_SIGNAL_CONTEXTS - 1; ctx >= 0; ctx--) {
        for (int i = PENNY_SIGNALS - 1; i >= 0; i--) await_signals(prev, 1, i, ctx);
    }
    for (int ctx = 0; ctx < PENNY_SIGNAL_CONTEXTS; ctx++) {
        pennyWaitSignalDesc_t own = {1, rank, 5, ctx};
        FAILS(pennyInvalidUsage, "sigIdx 5", pennyWaitSignal(1, &own, comm, NULL));
    }
    OK(pennyBarrier(comm, NULL));
}

static void all_to_all_is_one_group(void) {
    for (int round = 0; round < 5; round++) {
        pennyWaitSignalDesc_t descs[MOST];
        int sum = -1;
        for (int r = 0; r < ranks; r++) {
            for (int i = 0; i < COUNT; i++) out[r][i] = rank * 1000000 + r * 100000 + i + round;
            descs[r] = (pennyWaitSignalDesc_t){1, r, 2, 1};
        }
        OK(pennyGroupStart());
        /* The order within the group is of no account: what is waited for is given first. */
        if (round % 2 == 0) OK(pennyWaitSignal(ranks, descs, comm, NULL));
        for (int r = 0; r < ranks; r++) put(r, COUNT, 2, 1);
        OK(pennyAllReduce(&rank, &sum, 1, pennyInt, pennySum, comm, NULL));
        if (round % 2 == 1) OK(pennyWaitSignal(ranks, descs, comm, NULL));
        CHECK_INT(sum, -1);
        OK(pennyGroupEnd());
        CHECK_INT(sum, ranks * (ranks - 1) / 2);
        for (int r = 0; r < ranks; r++) {
            for (int i = 0; i < COUNT; i++) CHECK_INT(inbox[r * COUNT + i], r * 1000000 + rank * 100000 + i + round);
        }
        OK(pennyBarrier(comm, NULL));
    }
}

static void a_bad_argument_in_a_group_is_told_twice_and_nothing_goes_out(void) {
    inbox[rank * COUNT] = -7;
    out[rank][0] = 7;
    OK(pennyGroupStart());
    put(rank, 1, 9, 0);
    FAILS(pennyInvalidArgument, "sigIdx", pennySignal(rank, PENNY_SIGNALS, 0, 0, comm, NULL));
    CHECK(pennyGroupEnd() == pennyInvalidArgument);
    CHECK(strstr(pennyGetLastError(comm), "sigIdx is 64; it must be from 0 to 63") != NULL);
    CHECK_INT(inbox[rank * COUNT], -7);
    pennyWaitSignalDesc_t own = {1, rank, 9, 0};
    FAILS(pennyInvalidUsage, "0 came", pennyWaitSignal(1, &own, comm, NULL));
}

static void wrong_arguments_are_refused_by_name(void) {
    int other = (rank + 1) % ranks, x = 0;
    size_t size = ranks * COUNT * sizeof(int);
    const int no_index[] = {-1, PENNY_SIGNALS, INT_MAX, INT_MIN}, no_ctx[] = {-1, PENNY_SIGNAL_CONTEXTS, INT_MAX, INT_MIN};
    const int no_peer[] = {-1, ranks, INT_MAX, INT_MIN}, no_count[] = {0, -1, INT_MIN, INT_MIN};
    pennyWindow_t none = (pennyWindow_t)(uintptr_t)0x123450000;
    for (int i = 0; i < 4; i++) {
        FAILS(pennyInvalidArgument, "sigIdx", pennyPutSignal(&x, 1, pennyInt, other, win, 0, no_index[i], 0, 0, comm, NULL));
        FAILS(pennyInvalidArgument, "ctx", pennyPutSignal(&x, 1, pennyInt, other, win, 0, 0, no_ctx[i], 0, comm, NULL));
        FAILS(pennyInvalidArgument, "peer", pennyPutSignal(&x, 1, pennyInt, no_peer[i], win, 0, 0, 0, 0, comm, NULL));
        FAILS(pennyInvalidArgument, "sigIdx", pennySignal(other, no_index[i], 0, 0, comm, NULL));
        FAILS(pennyInvalidArgument, "ctx", pennySignal(other, 0, no_ctx[i], 0, comm, NULL));
        FAILS(pennyInvalidArgument, "peer", pennySignal(no_peer[i], 0, 0, 0, comm, NULL));
        pennyWaitSignalDesc_t wrong[] = {
            {1, other, no_index[i], 0}, {1, other, 0, no_ctx[i]}, {1, no_peer[i], 0, 0}, {no_count[i], other, 0, 0}};
        const char *const names[] = {"[0].sigIdx", "[0].ctx", "[0].peer", "[0].opCnt"};
        for (int k = 0; k < 4; k++) FAILS(pennyInvalidArgument, names[k], pennyWaitSignal(1, &wrong[k], comm, NULL));
        FAILS(pennyInvalidArgument, "nDesc", pennyWaitSignal(no_count[i], wrong, comm, NULL));
    }
    pennyWaitSignalDesc_t right = {1, rank, 0, 0};
    FAILS(pennyInvalidArgument, "nDesc is 2147483647", pennyWaitSignal(INT_MAX, &right, comm, NULL));
    FAILS(pennyInvalidArgument, "signalDescs", pennyWaitSignal(1, NULL, comm, NULL));
    FAILS(pennyInvalidArgument, "not a live stream", pennyWaitSignal(1, &right, comm, (pennyStream_t)(uintptr_t)8));
    FAILS(pennyInvalidArgument, "comm", pennyWaitSignal(1, &right, NULL, NULL));
    FAILS(pennyInvalidArgument, "flags", pennySignal(other, 0, 0, 1, comm, NULL));
    FAILS(pennyInvalidArgument, "flags", pennyPutSignal(&x, 1, pennyInt, other, win, 0, 0, 0, 9, comm, NULL));
    FAILS(pennyInvalidArgument, "localbuff", pennyPutSignal(NULL, 1, pennyInt, other, win, 0, 0, 0, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "count", pennyPutSignal(&x, SIZE_MAX, pennyInt, other, win, 0, 0, 0, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "datatype",
          pennyPutSignal(&x, 1, (pennyDataType_t)77, other, win, 0, 0, 0, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "peerWin", pennyPutSignal(&x, 1, pennyInt, other, none, 0, 0, 0, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "peerWin", pennyPutSignal(&x, 1, pennyInt, other, NULL, 0, 0, 0, 0, comm, NULL));
    /* Past the end, by one byte and by a number that overflows. */
    FAILS(pennyInvalidArgument, "window", pennyPutSignal(&x, 1, pennyInt, other, win, size - 3, 0, 0, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "window", pennyPutSignal(&x, 1, pennyInt, other, win, SIZE_MAX, 0, 0, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "window", pennyPutSignal(NULL, 0, pennyInt, other, win, size + 1, 0, 0, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "win", pennyWinGetUserPtr(comm, none, (void **)&inbox));
    FAILS(pennyInvalidArgument, "outUserPtr", pennyWinGetUserPtr(comm, win, NULL));
    /* Nothing of all this was signalled. */
    FAILS(pennyInvalidUsage, "of which 0 came", pennyWaitSignal(1, &right, comm, NULL));
    OK(pennyBarrier(comm, NULL));
}

static void each_rank_opens_as_much_as_it_likes(void) {
    pennyWindow_t uneven = NULL;
    size_t mine = (size_t)rank * 10;
    char ten[10] = "penny-ten", *bytes = (char *)inbox + 1;
    OK(pennyCommWindowRegister(comm, rank == 0 ? NULL : bytes, mine, &uneven, PENNY_WIN_DEFAULT));
    for (int to = 0; to < ranks; to++) {
        size_t at = (size_t)to * 10;
        FAILS(pennyInvalidArgument, "past the end of rank",
              pennyPutSignal(ten, 10, pennyChar, to, uneven, at - 9, 0, 0, 0, comm, NULL));
        if (to > 0 && rank == 0) OK(pennyPutSignal(ten, 10, pennyChar, to, uneven, at - 10, 0, 0, 0, comm, NULL));
    }
    if (rank > 0) {
        await_signals(0, 1, 0, 0);
        CHECK(memcmp(bytes + mine - 10, ten, 10) == 0);
    }
    OK(pennyCommWindowDeregister(comm, uneven));
}

/* What one rank does wrong the others are told, and nobody waits. */
static void a_window_is_made_on_all_ranks_or_on_none(void) {
    pennyWindow_t made = NULL;
    const int no_flags[] = {4, -1, INT_MIN};
    for (int i = 0; i < 3; i++) {
        FAILS(pennyInvalidArgument, "winFlags", pennyCommWindowRegister(comm, inbox, 64, &made, no_flags[i]));
    }
    if (ranks > 1) {
        FAILS(pennyInvalidUsage, "winFlags 2", pennyCommWindowRegister(comm, inbox, 64, &made, rank == 0 ? 2 : 0));
        if (rank == ranks - 1) {
            FAILS(pennyInvalidArgument, "winFlags", pennyCommWindowRegister(comm, inbox, 64, &made, 4));
        } else {
            FAILS(pennyInvalidUsage, "disagree", pennyCommWindowRegister(comm, inbox, 64, &made, 0));
        }
    }
    CHECK(made == NULL);
    FAILS(pennyInvalidArgument, "win", pennyCommWindowRegister(comm, inbox, 64, NULL, 0));
    OK(pennyCommWindowRegister(comm, inbox, 64, &made, 3));
    put(rank, 1, 0, 0);
    await_signals(rank, 1, 0, 0);
    OK(pennyCommWindowDeregister(comm, made));
}

/* Memory that the others do not reach is no error, and no rank has a window. */
static void ordinary_memory_of_a_rank_gives_no_window_on_all(void) {
    static int private_memory[16];
    pennyWindow_t made = win;
    OK(pennyCommWindowRegister(comm, rank == ranks - 1 ? private_memory : inbox, 64, &made, 0));
    CHECK(made == NULL);
    FAILS(pennyInvalidArgument, "not a live window", pennyPutSignal(out, 1, pennyInt, 0, made, 0, 0, 0, 0, comm, NULL));
    OK(pennyCommWindowDeregister(comm, made));
    made = win;
    OK(pennyGroupStart());
    OK(pennyCommWindowRegister(comm, rank == 0 ? private_memory : inbox, 64, &made, 0));
    CHECK(made != NULL && made != win);
    OK(pennyGroupEnd());
    CHECK(made == NULL);
}

/* Other ranks need not call, and keep theirs. */
static void a_rank_closes_its_window_by_itself(void) {
    pennyWindow_t made = NULL;
    OK(pennyCommWindowRegister(comm, inbox, 64, &made, 0));
    if (rank == 0) {
        OK(pennyCommWindowDeregister(comm, made));
        FAILS(pennyInvalidArgument, "not a live window", pennyCommWindowDeregister(comm, made));
        FAILS(pennyInvalidArgument, "not a live window",
              pennyPutSignal(out, 1, pennyInt, 0, made, 0, 0, 0, 0, comm, NULL));
    }
    OK(pennyBarrier(comm, NULL));
    if (rank > 0) {
        int *place = inbox, was = place[0], mine = -9;
        OK(pennyPutSignal(&mine, 1, pennyInt, rank, made, 0, 5, 5, 0, comm, NULL));
        await_signals(rank, 1, 5, 5);
        CHECK_INT(place[0], -9);
        place[0] = was;
        OK(pennyCommWindowDeregister(comm, made));
    }
}

/* The ranks of one thread register together, and what a failed group has not made is NULL. */
static void windows_are_registered_in_groups(void) {
    enum { HERE = 3 };
    pennyComm_t here[HERE];
    pennyWindow_t two[HERE][2];
    int *memory[HERE], word = 0;
    OK(pennyCommInitAll(here, HERE, NULL));
    for (int r = 0; r < HERE; r++) OK(pennyMemAlloc((void **)&memory[r], 4096));
    OK(pennyGroupStart());
    for (int k = 0; k < 2; k++) {
        for (int r = 0; r < HERE; r++) {
            OK(pennyCommWindowRegister(here[r], memory[r] + 16 * k, 64, &two[r][k], PENNY_WIN_DEFAULT));
        }
    }
    OK(pennyGroupEnd());
    for (int r = 0; r < HERE; r++) {
        for (int k = 0; k < 2; k++) {
            int value = 10 * r + k, next = (r + 1) % HERE;
            OK(pennyPutSignal(&value, 1, pennyInt, next, two[r][k], 0, k, 0, 0, here[r], NULL));
        }
    }
    for (int r = 0; r < HERE; r++) {
        int before = (r + HERE - 1) % HERE;
        pennyWaitSignalDesc_t descs[] = {{1, before, 0, 0}, {1, before, 1, 0}};
        OK(pennyWaitSignal(2, descs, here[r], NULL));
        for (int k = 0; k < 2; k++) CHECK_INT(memory[r][16 * k], 10 * before + k);
        for (int k = 0; k < 2; k++) OK(pennyCommWindowDeregister(here[r], two[r][k]));
    }
    OK(pennyGroupStart());
    for (int r = 0; r < HERE; r++) OK(pennyCommWindowRegister(here[r], memory[r], 64, &two[r][0], PENNY_WIN_DEFAULT));
    FAILS(pennyInvalidArgument, "is out of range", pennyBcast(&word, 1, pennyInt, -1, here[0], NULL));
    FAILS(pennyInvalidArgument, "is out of range", pennyGroupEnd());
    for (int r = 0; r < HERE; r++) CHECK(two[r][0] == NULL);
    OK(pennyGroupStart());
    for (int r = 0; r < HERE; r++) OK(pennyCommWindowRegister(here[r], memory[r], 64, &two[r][0], r == 1 ? 2 : 0));
    FAILS(pennyInvalidUsage, "winFlags 2", pennyGroupEnd());
    for (int r = 0; r < HERE; r++) {
        CHECK(two[r][0] == NULL);
        OK(pennyCommDestroy(here[r]));
        OK(pennyMemFree(memory[r]));
    }
}

static void windows_end_with_their_communicator(void) {
    pennyComm_t other = join();
    pennyWindow_t theirs = NULL;
    void *ptr;
    OK(pennyCommWindowRegister(other, inbox, 64, &theirs, 0));
    FAILS(pennyInvalidArgument, "another communicator",
          pennyPutSignal(out, 1, pennyInt, 0, theirs, 0, 0, 0, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "another communicator", pennyWinGetUserPtr(comm, theirs, &ptr));
    OK(pennyBarrier(other, NULL));
    OK(pennyCommDestroy(other));
    FAILS(pennyInvalidArgument, "comm", pennyWinGetUserPtr(other, theirs, &ptr));
    FAILS(pennyInvalidArgument, "not a live window", pennyWinGetUserPtr(comm, theirs, &ptr));
}

/* Memory of the symmetric heap is reached as well, and a window over it is one like any other. */
static void a_window_lies_over_symmetric_memory_too(void) {
    int *symmetric = NULL, next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks;
    pennyWindow_t over = NULL;
    OK(pennyShmemInit(comm));
    OK(pennyShmemMalloc((void **)&symmetric, 4096, comm));
    OK(pennyCommWindowRegister(comm, symmetric, 4096, &over, PENNY_WIN_STRICT_ORDERING));
    OK(pennyPutSignal(&rank, 1, pennyInt, next, over, 4092, 0, 0, 0, comm, NULL));
    await_signals(prev, 1, 0, 0);
    CHECK_INT(symmetric[1023], prev);
    OK(pennyCommWindowDeregister(comm, over));
    OK(pennyShmemFree(symmetric, comm));
    OK(pennyShmemFinalize(comm));
}

/* A peer that has given its signals may go: they hold. One that still owes some is named. */
static void who_has_gone_owes_nothing_that_it_gave(void) {
    if (ranks == 1) return;
    pennyComm_t other = join();
    if (rank == 1) {
        OK(pennySignal(0, 0, 0, 0, other, NULL));
        OK(pennyCommDestroy(other));
        post("gone");
        return;
    }
    await("gone");
    if (rank == 2) {
        /* Meanwhile rank 0 waits, and sees that rank 1 has left. */
        for (int i = 0; i < 20; i++) nap();
        OK(pennySignal(0, 0, 0, 0, other, NULL));
    }
    if (rank == 0) {
        pennyWaitSignalDesc_t first = {1, 1, 0, 0}, both[] = {{1, 1, 0, 0}, {1, 2, 0, 0}};
        OK(pennyWaitSignal(ranks > 2 ? 2 : 1, both, other, NULL));
        /* On a declared machine it may be found as a deadlock first. */
        pennyResult_t gone = pennyWaitSignal(1, &first, other, NULL);
        CHECK(gone == pennyRemoteError || (gone == pennyInvalidUsage && getenv("PENNY_FABRIC") != NULL));
        CHECK(strstr(pennyGetLastError(NULL), "rank 1") != NULL);
    }
    OK(pennyCommDestroy(other));
}

int main(void) {
    begin();
    comm = join();
    RUN(a_window_is_made_by_all_ranks);
    RUN(a_put_to_every_peer_arrives_with_its_signal);
    RUN(a_signal_speaks_for_all_earlier_puts);
    RUN(a_signal_is_counted_and_taken_once);
    RUN(every_signal_of_every_context_counts_for_itself);
    RUN(all_to_all_is_one_group);
    RUN(a_bad_argument_in_a_group_is_told_twice_and_nothing_goes_out);
    RUN(wrong_arguments_are_refused_by_name);
    RUN(each_rank_opens_as_much_as_it_likes);
    RUN(a_window_is_made_on_all_ranks_or_on_none);
    RUN(ordinary_memory_of_a_rank_gives_no_window_on_all);
    RUN(a_rank_closes_its_window_by_itself);
    RUN(windows_are_registered_in_groups);
    RUN(windows_end_with_their_communicator);
    RUN(a_window_lies_over_symmetric_memory_too);
    RUN(who_has_gone_owes_nothing_that_it_gave);
    OK(pennyCommWindowDeregister(comm, win));
    OK(pennyMemFree(inbox));
    OK(pennyCommDestroy(comm));
    return 0;
}
