/* src/ffi/library.rs: the progress hook. Beside Penny there is a library that moves data only while it is called: it takes 20 calls
 * on rank 0 until its message has come to the others, which make no call of Penny's before that. */
#include "check.h"

enum { PIECES = 20 };
static int pieces, calls, messages;

static void move_a_piece(void *userData) {
    int version;
    char name[32];
    CHECK(userData == &pieces);
    calls++;
    FAILS(pennyInvalidUsage, "a progress hook (pennySetProgress) may not call Penny", pennyGetVersion(&version));
    FAILS(pennyInvalidUsage, "may not call Penny", pennySetProgress(NULL, NULL));
    if (pieces == PIECES) return;
    if (++pieces == PIECES) {
        snprintf(name, sizeof name, "message %d", messages);
        post(name);
    }
}

/* Rank 0 begins to send, and the others receive. */
static void message(void) {
    char name[32];
    messages++;
    if (rank == 0) {
        pieces = calls = 0;
        OK(pennySetProgress(move_a_piece, &pieces));
    } else {
        snprintf(name, sizeof name, "message %d", messages);
        await(name);
    }
}

static void over(void) {
    if (rank != 0) return;
    CHECK_INT(pieces, PIECES);
    CHECK(calls >= PIECES);
    OK(pennySetProgress(NULL, NULL));
}

static pennyComm_t comm;

static void a_rank_that_joins(void) {
    message();
    comm = join();
    over();
}

static void a_rank_that_waits_in_a_call(void) {
    static int data[100000];
    const int counts[] = {1, 100000};
    for (int i = 0; i < 2; i++) {
        message();
        OK(pennyAllReduce(data, data, (size_t)counts[i], pennyInt, pennySum, comm, NULL));
        over();
    }
}

static void a_rank_that_waits_for_a_message(void) {
    int word = rank;
    message();
    if (rank == 1) OK(pennySend(&word, 1, pennyInt, 0, comm, NULL));
    if (rank == 0) {
        OK(pennyRecv(&word, 1, pennyInt, 1, comm, NULL));
        CHECK_INT(word, 1);
    }
    over();
}

static void a_rank_that_waits_for_a_stream(void) {
    static int data[3000];
    pennyStream_t stream;
    OK(pennyStreamCreate(&stream));
    message();
    OK(pennyAllReduce(data, data, 3000, pennyInt, pennySum, comm, stream));
    OK(pennyStreamSynchronize(stream));
    over();
    OK(pennyStreamDestroy(stream));
}

static void a_rank_that_does_not_wait_calls_nothing(void) {
    int version;
    calls = 0;
    OK(pennySetProgress(move_a_piece, &pieces));
    OK(pennyGetVersion(&version));
    CHECK_INT(calls, 0);
    OK(pennySetProgress(NULL, NULL));
}

int main(void) {
    begin();
    RUN(a_rank_that_joins);
    RUN(a_rank_that_waits_in_a_call);
    RUN(a_rank_that_waits_for_a_message);
    RUN(a_rank_that_waits_for_a_stream);
    RUN(a_rank_that_does_not_wait_calls_nothing);
    OK(pennyCommDestroy(comm));
    return 0;
}
