/* src/ffi/memory.rs: shareable memory, used by calls and freed in any order with communicators. */
#include "check.h"

static void memory_is_aligned_and_all_ours(void) {
    for (size_t size = 1; size <= (size_t)1 << 22; size *= 8) {
        unsigned char *bytes = NULL;
        OK(pennyMemAlloc((void **)&bytes, size));
        CHECK((uintptr_t)bytes % 64 == 0);
        memset(bytes, 0xa5, size);
        for (size_t i = 0; i < size; i++) CHECK(bytes[i] == 0xa5);
        OK(pennyMemFree(bytes));
    }
}

static void pieces_do_not_overlap_even_where_others_were_freed(void) {
    enum { PIECES = 64 };
    unsigned char *piece[PIECES];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PIECES; i++) {
            OK(pennyMemAlloc((void **)&piece[i], 1000));
            memset(piece[i], i + 1, 1000);
        }
        for (int i = 0; i < PIECES; i++) {
            for (int j = 0; j < 1000; j++) CHECK(piece[i][j] == i + 1);
            OK(pennyMemFree(piece[i]));
        }
    }
}

static void wrong_arguments_are_refused(void) {
    int local = 0;
    void *memory = &local;
    FAILS(pennyInvalidArgument, "ptr is NULL", pennyMemAlloc(NULL, 64));
    CHECK(pennyMemAlloc(&memory, SIZE_MAX) != pennySuccess);
    CHECK(memory == &local);
    OK(pennyMemFree(NULL));
    FAILS(pennyInvalidArgument, "ptr", pennyMemFree(&local));
    OK(pennyMemAlloc(&memory, 64));
    OK(pennyMemFree(memory));
    FAILS(pennyInvalidArgument, "ptr", pennyMemFree(memory));
}

static void calls_work_on_shareable_memory_wherever_it_lies(void) {
    enum { COUNT = 100000 };
    float *in, *out;
    pennyComm_t comm;
    OK(pennyMemAlloc((void **)&in, COUNT * sizeof *in)); /* before the communicator */
    comm = join();
    OK(pennyMemAlloc((void **)&out, COUNT * sizeof *out)); /* and after */
    float *plain = malloc((COUNT + 1) * sizeof *plain);
    CHECK(plain != NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) in[i] = (float)(rank + i % 100 + round);
        float *to = round == 0 ? out : round == 1 ? plain + 1 : in;
        /* Every rank may choose its own kind of memory. */
        if (round == 1 && rank % 2 == 0) to = out;
        OK(pennyAllReduce(in, to, COUNT, pennyFloat, pennySum, comm, NULL));
        for (int i = 0; i < COUNT; i++) {
            CHECK_INT(to[i], ranks * (ranks - 1) / 2 + ranks * (i % 100 + round));
        }
    }
    OK(pennyMemFree(in)); /* before the communicator */
    OK(pennyCommDestroy(comm));
    for (int i = 0; i < COUNT; i++) out[i] = 1.0f; /* the memory outlives the communicator */
    OK(pennyMemFree(out));
    free(plain);
}

int main(void) {
    begin();
    RUN(memory_is_aligned_and_all_ours);
    RUN(pieces_do_not_overlap_even_where_others_were_freed);
    RUN(wrong_arguments_are_refused);
    RUN(calls_work_on_shareable_memory_wherever_it_lies);
    return 0;
}
