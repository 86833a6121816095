/* src/ffi/memory.rs: shareable memory, used by calls and freed in any order with communicators; registered memory. */
#include "check.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Every kind of call, `count` floats a block, in buffers that have room for a block of each rank. */
static void all_calls_are_right(pennyComm_t comm, float *in, float *out, int count) {
    int n = ranks, next = (rank + 1) % n, previous = (rank + n - 1) % n;
    size_t all = (size_t)n * count;
#define FILL() for (size_t i = 0; i < all; i++) in[i] = (float)(rank * 1000 + i % 100), out[i] = -1.0f
#define HOLDS(blocks, what)                                                                                            \
    for (size_t i = 0; i < (size_t)(blocks) * count; i++) {                                                            \
        int b = (int)(i / count), k = (int)(i % count);                                                                \
        (void)b, (void)k;                                                                                              \
        CHECK_INT(out[i], what);                                                                                       \
    }
    int sum = 1000 * (n * (n - 1) / 2);
    for (int root = 0; root < n; root++) {
        FILL();
        OK(pennyReduce(in, out, count, pennyFloat, pennySum, root, comm, NULL));
        HOLDS(1, rank == root ? sum + n * (k % 100) : -1);
        FILL();
        OK(pennyBroadcast(in, out, count, pennyFloat, root, comm, NULL));
        HOLDS(1, root * 1000 + k % 100);
        FILL();
        OK(pennyGather(in, out, count, pennyFloat, root, comm, NULL));
        HOLDS(n, rank == root ? b * 1000 + k % 100 : -1);
        FILL();
        OK(pennyScatter(in, out, count, pennyFloat, root, comm, NULL));
        HOLDS(1, root * 1000 + (int)(((size_t)rank * count + k) % 100));
    }
    FILL();
    OK(pennyAllReduce(in, out, count, pennyFloat, pennySum, comm, NULL));
    HOLDS(1, sum + n * (k % 100));
    OK(pennyAllReduce(out, out, count, pennyFloat, pennySum, comm, NULL)); /* in place */
    HOLDS(1, n * (sum + n * (k % 100)));
    FILL();
    OK(pennyAllGather(in, out, count, pennyFloat, comm, NULL));
    HOLDS(n, b * 1000 + k % 100);
    FILL();
    for (int i = 0; i < count; i++) out[(size_t)rank * count + i] = in[i];
    OK(pennyAllGather(out + (size_t)rank * count, out, count, pennyFloat, comm, NULL)); /* in place */
    HOLDS(n, b * 1000 + k % 100);
    FILL();
    OK(pennyReduceScatter(in, out, count, pennyFloat, pennySum, comm, NULL));
    HOLDS(1, sum + n * (int)(((size_t)rank * count + k) % 100));
    FILL();
    OK(pennyAlltoAll(in, out, count, pennyFloat, comm, NULL));
    HOLDS(n, b * 1000 + (int)(((size_t)rank * count + k) % 100));
    FILL();
    OK(pennyGroupStart());
    OK(pennySend(in, count, pennyFloat, next, comm, NULL));
    OK(pennyRecv(out, count, pennyFloat, previous, comm, NULL));
    OK(pennyGroupEnd());
    HOLDS(1, previous * 1000 + k % 100);
    for (size_t i = 0; i < all; i++) CHECK_INT(in[i], rank * 1000 + i % 100);
}

/* Every collective in place. Its block may be too small to be worth a twin, where the whole buffer is not. */
static void calls_in_place_work_on_registered_memory(void) {
    static const int counts[] = {700, 1000, 1024, 1025, 5000};
    pennyComm_t comm = join();
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (int kind = 0; kind < 3; kind++) { /* none is registered, every other rank's, all */
            int n = ranks, count = counts[c], root = n - 1;
            size_t all = (size_t)n * count;
            int *memory = malloc((all + 100) * sizeof *memory), *buffer = memory + 50, *own = buffer + (size_t)rank * count;
            void *handle = NULL;
            CHECK(memory != NULL);
            if (kind == 2 || (kind == 1 && rank % 2 == 0)) OK(pennyCommRegister(comm, buffer, all * sizeof *buffer, &handle));
#define FILL_ALL()                                                                                                     \
    for (size_t i = 0; i < all + 100; i++) memory[i] = -1;                                                             \
    for (size_t i = 0; i < all; i++) buffer[i] = rank * 1000 + (int)(i % 100)
#define SUM(i) (n * (n - 1) / 2 * 1000 + n * (int)((i) % 100))
            FILL_ALL();
            OK(pennyReduceScatter(buffer, own, count, pennyInt, pennySum, comm, NULL));
            for (int k = 0; k < count; k++) CHECK_INT(own[k], SUM((size_t)rank * count + k));
            FILL_ALL();
            OK(pennyAllReduce(buffer, buffer, all, pennyInt, pennySum, comm, NULL));
            for (size_t i = 0; i < all; i++) CHECK_INT(buffer[i], SUM(i));
            FILL_ALL();
            OK(pennyAllGather(own, buffer, count, pennyInt, comm, NULL));
            for (size_t i = 0; i < all; i++) CHECK_INT(buffer[i], (int)(i / count) * 1000 + (int)(i % 100));
            FILL_ALL();
            OK(pennyAlltoAll(buffer, buffer, count, pennyInt, comm, NULL));
            for (size_t i = 0; i < all; i++) {
                CHECK_INT(buffer[i], (int)(i / count) * 1000 + (int)(((size_t)rank * count + i % count) % 100));
            }
            FILL_ALL();
            OK(pennyReduce(buffer, buffer, all, pennyInt, pennySum, root, comm, NULL));
            for (size_t i = 0; rank == root && i < all; i++) CHECK_INT(buffer[i], SUM(i));
            FILL_ALL();
            OK(pennyGather(rank == root ? own : buffer, buffer, count, pennyInt, root, comm, NULL));
            for (size_t i = 0; rank == root && i < all; i++) {
                CHECK_INT(buffer[i], (int)(i / count) * 1000 + (int)((i / count == (size_t)root ? i : i % count) % 100));
            }
            FILL_ALL();
            OK(pennyScatter(buffer, rank == root ? own : buffer, count, pennyInt, root, comm, NULL));
            for (int k = 0; k < count; k++) {
                CHECK_INT((rank == root ? own : buffer)[k], root * 1000 + (int)(((size_t)rank * count + k) % 100));
            }
            for (int i = 0; i < 50; i++) CHECK(memory[i] == -1 && memory[all + 99 - i] == -1);
            OK(pennyCommDeregister(comm, handle));
            free(memory);
        }
    }
    OK(pennyCommDestroy(comm));
}

static void calls_work_on_registered_memory_of_any_size_and_place(void) {
    static const int counts[] = {1, 4096, 40001, 90000};
    pennyComm_t comm = join();
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (int kind = 0; kind < 4; kind++) { /* whose buffers are registered: none's, in, out, both */
            size_t bytes = (size_t)ranks * counts[c] * sizeof(float);
            unsigned char *from = malloc(bytes + 200), *to = malloc(bytes + 200);
            void *in_handle = NULL, *out_handle = NULL;
            CHECK(from != NULL && to != NULL);
            memset(from, 0x5a, bytes + 200);
            memset(to, 0x5a, bytes + 200);
            /* Not all ranks do the same. */
            int mine = (kind + rank) % 4;
            if (mine & 1) OK(pennyCommRegister(comm, from + 100, bytes, &in_handle));
            if (mine & 2) OK(pennyCommRegister(comm, to + 100, bytes, &out_handle));
            all_calls_are_right(comm, (float *)(void *)(from + 100), (float *)(void *)(to + 100), counts[c]);
            for (int i = 0; i < 100; i++) {
                CHECK(from[i] == 0x5a && to[i] == 0x5a && from[100 + bytes + i] == 0x5a && to[100 + bytes + i] == 0x5a);
            }
            OK(pennyCommDeregister(comm, in_handle));
            OK(pennyCommDeregister(comm, out_handle));
            for (size_t i = 0; i < (size_t)ranks * counts[c]; i++) {
                CHECK_INT(((float *)(void *)(from + 100))[i], rank * 1000 + i % 100);
            }
            free(from);
            free(to);
        }
    }
    OK(pennyCommDestroy(comm));
}

static void registrations_of_every_shape_are_named_or_do_nothing(void) {
    enum { BYTES = 1 << 20 };
    pennyComm_t comm = join(), other = join();
    char local[20000], *memory = malloc(BYTES), *heap;
    void *handle, *part, *again, *untouched = &handle;
    CHECK(memory != NULL);
    memset(memory, 7, BYTES);
    FAILS(pennyInvalidArgument, "handle is NULL", pennyCommRegister(comm, memory, BYTES, NULL));
    FAILS(pennyInvalidArgument, "comm is NULL", pennyCommRegister(NULL, memory, BYTES, &untouched));
    FAILS(pennyInvalidArgument, "buff is NULL", pennyCommRegister(comm, NULL, 1, &untouched));
    FAILS(pennyInvalidArgument, "no memory at 0x1000", pennyCommRegister(comm, (void *)4096, 4096, &untouched));
    FAILS(pennyInvalidArgument, "past the end", pennyCommRegister(comm, memory, SIZE_MAX, &untouched));
    CHECK(untouched == &handle);
    /* Twice, and in part: pages stay until the last. */
    OK(pennyCommRegister(comm, memory, BYTES, &handle));
    OK(pennyCommRegister(comm, memory, BYTES, &again));
    OK(pennyCommRegister(other, memory + 10, BYTES / 2, &part));
    CHECK(handle != NULL && handle != again && handle != part);
    FAILS(pennyInvalidArgument, "handle", pennyCommDeregister(other, handle));
    OK(pennyCommDeregister(comm, handle));
    FAILS(pennyInvalidArgument, "handle", pennyCommDeregister(comm, handle));
    OK(pennyCommDeregister(comm, again));
    for (int i = 0; i < BYTES; i++) CHECK(memory[i] == 7);
    OK(pennyCommDestroy(other)); /* the last share goes with its communicator */
    for (int i = 0; i < BYTES; i++) CHECK(memory[i] == 7);
    /* Overlapping in part, on a stack, of the heap, without a byte: nothing to do, and no error. */
    OK(pennyCommRegister(comm, memory, BYTES / 2, &handle));
    OK(pennyCommRegister(comm, memory + BYTES / 4, BYTES / 2, &part));
    OK(pennyCommDeregister(comm, part));
    OK(pennyCommDeregister(comm, handle));
    OK(pennyCommRegister(comm, local, sizeof local, &handle));
    OK(pennyCommDeregister(comm, handle));
    OK(pennyMemAlloc((void **)&heap, BYTES));
    OK(pennyCommRegister(comm, heap, BYTES, &handle));
    OK(pennyCommDeregister(comm, handle));
    OK(pennyMemFree(heap));
    OK(pennyCommRegister(comm, NULL, 0, &handle));
    OK(pennyCommDeregister(comm, handle));
    OK(pennyCommDeregister(comm, NULL));
    OK(pennyCommRegister(comm, memory, BYTES, &handle));
    OK(pennyCommDestroy(comm));
    for (int i = 0; i < BYTES; i++) CHECK(memory[i] == 7);
    free(memory);
}

static void a_forked_child_that_ends_leaves_registered_memory_alone(void) {
    enum { COUNT = 300000 };
    pennyComm_t comm = join();
    float *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out);
    void *handles[2];
    CHECK(in != NULL && out != NULL);
    OK(pennyCommRegister(comm, in, COUNT * sizeof *in, &handles[0]));
    OK(pennyCommRegister(comm, out, COUNT * sizeof *out, &handles[1]));
    for (int i = 0; i < COUNT; i++) in[i] = (float)(rank + i % 10);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        void *more = malloc(100000); /* malloc's notes beside the buffers are the child's own */
        free(more);
        _exit(in[5] == (float)(rank + 5) && pennyCommDeregister(comm, handles[0]) == pennyInvalidUsage ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(pennyAllReduce(in, out, COUNT, pennyFloat, pennySum, comm, NULL));
    for (int i = 0; i < COUNT; i++) CHECK_INT(out[i], ranks * (ranks - 1) / 2 + ranks * (i % 10));
    OK(pennyCommDestroy(comm));
    for (int i = 0; i < COUNT; i++) CHECK_INT(out[i], ranks * (ranks - 1) / 2 + ranks * (i % 10));
    free(in);
    free(out);
}

/* Bytes of memory behind the unnamed files that this process has open. */
static long long shared_bytes(void) {
    long long bytes = 0;
    DIR *open_files = opendir("/proc/self/fd");
    CHECK(open_files != NULL);
    for (struct dirent *entry; (entry = readdir(open_files)) != NULL;) {
        struct stat file;
        if (fstat(atoi(entry->d_name), &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 0) {
            bytes += (long long)file.st_blocks * 512;
        }
    }
    closedir(open_files);
    return bytes;
}

static void buffers_that_are_registered_at_an_abort_cost_no_memory_for_good(void) {
    enum { BYTES = 1 << 20, CYCLES = 64 };
    long long before = 0;
    char *memory = malloc(BYTES);
    CHECK(memory != NULL);
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        pennyComm_t comm = join();
        void *handle;
        memset(memory, cycle, BYTES);
        OK(pennyCommRegister(comm, memory, BYTES, &handle));
        /* No rank's abort may come before another's registration. */
        for (int r = -1; r < ranks; r++) {
            char name[48];
            snprintf(name, sizeof name, "registered-%d-%d", cycle, r < 0 ? rank : r);
            r < 0 ? post(name) : await(name);
        }
        OK(pennyCommAbort(comm));
        for (int i = 0; i < BYTES; i++) CHECK(memory[i] == cycle);
        if (cycle == CYCLES / 2) before = shared_bytes();
    }
    /* What the last aborts left may still wait for the other ranks' ends. */
    long long more = shared_bytes() - before;
    if (more > 12 * BYTES) FAIL("%d aborts cost %lld bytes", CYCLES - CYCLES / 2 - 1, more);
    free(memory);
}

static void a_forked_child_has_shareable_memory_of_its_own(void) {
    enum { COUNT = 10000 };
    pennyComm_t comm = join();
    float *mine;
    OK(pennyMemAlloc((void **)&mine, COUNT * sizeof *mine));
    for (int i = 0; i < COUNT; i++) mine[i] = (float)(rank + i % 10);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        float *own;
        pennyComm_t alone;
        pennyUniqueId id;
        OK(pennyMemAlloc((void **)&own, COUNT * sizeof *own));
        FAILS(pennyInvalidUsage, "from which this one was forked", pennyMemFree(mine));
        FAILS(pennyInvalidUsage, "forked", pennyAllReduce(mine, mine, COUNT, pennyFloat, pennySum, comm, NULL));
        OK(pennyGetUniqueId(&id));
        OK(pennyCommInitRank(&alone, 1, id, 0));
        OK(pennyAllReduce(mine, own, COUNT, pennyFloat, pennySum, alone, NULL));
        for (int i = 0; i < COUNT; i++) CHECK_INT(own[i], rank + i % 10);
        OK(pennyCommDestroy(alone));
        memset(own, 0, COUNT * sizeof *own);
        OK(pennyMemFree(own));
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(pennyAllReduce(mine, mine, COUNT, pennyFloat, pennySum, comm, NULL));
    for (int i = 0; i < COUNT; i++) CHECK_INT(mine[i], ranks * (ranks - 1) / 2 + ranks * (i % 10));
    OK(pennyCommDestroy(comm));
    OK(pennyMemFree(mine));
}

/* What must not be done: the results are then those of ordinary memory, from a mebibyte on. */
static void memory_that_was_freed_while_registered_is_found_out(void) {
    enum { COUNT = 1 << 20, BYTES = COUNT * (int)sizeof(float) };
    pennyComm_t comm = join();
    int access = PROT_READ | PROT_WRITE, how = MAP_PRIVATE | MAP_ANONYMOUS;
    float *buffer = mmap(NULL, BYTES, access, how, -1, 0);
    void *handle;
    CHECK(buffer != MAP_FAILED);
    OK(pennyCommRegister(comm, buffer, BYTES, &handle));
    CHECK(munmap(buffer, BYTES) == 0 && mmap(buffer, BYTES, access, how | MAP_FIXED, -1, 0) == buffer);
    for (int i = 0; i < COUNT; i++) buffer[i] = (float)(rank + i % 10);
    OK(pennyAllReduce(buffer, buffer, COUNT, pennyFloat, pennySum, comm, NULL));
    for (int i = 0; i < COUNT; i++) CHECK_INT(buffer[i], ranks * (ranks - 1) / 2 + ranks * (i % 10));
    OK(pennyCommDeregister(comm, handle)); /* and it is left alone */
    for (int i = 0; i < COUNT; i++) CHECK_INT(buffer[i], ranks * (ranks - 1) / 2 + ranks * (i % 10));
    OK(pennyCommDestroy(comm));
    CHECK(munmap(buffer, BYTES) == 0);
}

int main(void) {
    begin();
    RUN(memory_is_aligned_and_all_ours);
    RUN(pieces_do_not_overlap_even_where_others_were_freed);
    RUN(wrong_arguments_are_refused);
    RUN(calls_work_on_shareable_memory_wherever_it_lies);
    RUN(calls_in_place_work_on_registered_memory);
    RUN(calls_work_on_registered_memory_of_any_size_and_place);
    RUN(registrations_of_every_shape_are_named_or_do_nothing);
    RUN(a_forked_child_that_ends_leaves_registered_memory_alone);
    RUN(a_forked_child_has_shareable_memory_of_its_own);
    RUN(buffers_that_are_registered_at_an_abort_cost_no_memory_for_good);
    RUN(memory_that_was_freed_while_registered_is_found_out);
    return 0;
}
