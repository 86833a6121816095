/* Windows, puts and signals, registered in a group where a process has several ranks. */
#include "check.h"

#define COUNT 100

static int *inbox[MOST];
static ncclWindow_t window[MOST];

static void each_rank_puts_to_its_neighbour(void) {
    for (int i = 0; i < local; i++) OK(ncclMemAlloc((void **)&inbox[i], COUNT * sizeof(int)));
    ALL(ncclCommWindowRegister(comms[i], inbox[i], COUNT * sizeof(int), &window[i], NCCL_WIN_COLL_SYMMETRIC));
    void *pointer = NULL;
    for (int i = 0; i < local; i++) {
        OK(ncclWinGetUserPtr(comms[i], window[i], &pointer));
        CHECK(pointer == inbox[i]);
    }
    int out[MOST][COUNT];
    OK(ncclGroupStart());
    for (int i = 0; i < local; i++) {
        int rank = first + i;
        for (int at = 0; at < COUNT; at++) out[i][at] = rank * 1000 + at;
        OK(ncclPutSignal(out[i], COUNT, ncclInt, (rank + 1) % ranks, window[i], 0, 0, 0, 0, comms[i], NULL));
    }
    OK(ncclGroupEnd());
    for (int i = 0; i < local; i++) {
        int from = (first + i + ranks - 1) % ranks;
        ncclWaitSignalDesc_t wait = {1, from, 0, 0};
        OK(ncclWaitSignal(1, &wait, comms[i], NULL));
        for (int at = 0; at < COUNT; at++) CHECK_INT(inbox[i][at], from * 1000 + at);
        OK(ncclSignal(from, 1, 0, 0, comms[i], NULL));
    }
    for (int i = 0; i < local; i++) {
        ncclWaitSignalDesc_t wait = {1, (first + i + 1) % ranks, 1, 0};
        OK(ncclWaitSignal(1, &wait, comms[i], NULL));
        FAILS(ncclInvalidArgument, "datatype is 12",
              ncclPutSignal(out[i], 1, ncclNumTypes, 0, window[i], 0, 0, 0, 0, comms[i], NULL));
        OK(ncclCommWindowDeregister(comms[i], NULL));
    }
}

/* Where one rank has memory that the others do not reach no rank has a window, and all go on. */
static void memory_of_another_kind_has_no_window(void) {
    static int memory[COUNT];
    int one = 1, sum[MOST];
    ncclWindow_t none[MOST];
    OK(ncclGroupStart());
    for (int i = 0; i < local; i++) {
        void *buff = first + i == 0 ? memory : inbox[i];
        OK(ncclCommWindowRegister(comms[i], buff, COUNT * sizeof(int), &none[i], NCCL_WIN_DEFAULT));
        OK(ncclAllReduce(&one, &sum[i], 1, ncclInt, ncclSum, comms[i], NULL));
    }
    OK(ncclGroupEnd());
    for (int i = 0; i < local; i++) {
        CHECK(none[i] == NULL);
        CHECK_INT(sum[i], ranks);
        FAILS(ncclInvalidArgument, "peerWin is not a live window",
              ncclPutSignal(&one, 1, ncclInt, 0, none[i], 0, 0, 0, 0, comms[i], NULL));
        OK(ncclCommWindowDeregister(comms[i], none[i]));
    }
}

/* One thread closes the windows of its ranks one after another, without a group. */
static void each_rank_closes_its_window_by_itself(void) {
    void *pointer = NULL;
    for (int i = 0; i < local; i++) OK(ncclCommWindowDeregister(comms[i], window[i]));
    for (int i = 0; i < local; i++) {
        FAILS(ncclInvalidArgument, "not a live window", ncclCommWindowDeregister(comms[i], window[i]));
        FAILS(ncclInvalidArgument, "not a live window", ncclWinGetUserPtr(comms[i], window[i], &pointer));
        OK(ncclMemFree(inbox[i]));
    }
}

int main(void) {
    begin();
    join();
    RUN(each_rank_puts_to_its_neighbour);
    RUN(memory_of_another_kind_has_no_window);
    RUN(each_rank_closes_its_window_by_itself);
    leave();
    return 0;
}
