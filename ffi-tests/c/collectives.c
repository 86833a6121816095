/* src/ffi/collectives.rs: each collective against what it should be, in place and not, and everything that is refused. */
#include "check.h"

enum { LARGEST = 70000, BLOCKS = 8 };
static const size_t counts[] = {1, 2, 3, 7, 64, 1000, 4097, LARGEST};
static pennyComm_t comm;
/* Room for every case, with a guard element at the end. */
static int in[BLOCKS * LARGEST + 1], out[BLOCKS * LARGEST + 1];

enum { UNTOUCHED = -77 };

/* What rank r puts into element i. */
static int value(int r, size_t i) { return (int)((r + 1) * 1000003u + i * 17u) % 100000; }

static int sum_at(size_t i) {
    int sum = 0;
    for (int r = 0; r < ranks; r++) sum += value(r, i);
    return sum;
}

static void fill(int *buffer, size_t from, size_t count) {
    for (size_t i = 0; i < count; i++) buffer[i] = value(rank, from + i);
}

static void clear(int *buffer, size_t count) {
    for (size_t i = 0; i <= count; i++) buffer[i] = UNTOUCHED;
}

#define FOR_COUNTS(count) for (size_t k_ = 0, count; k_ < sizeof counts / sizeof *counts && (count = counts[k_]); k_++)
#define FOR_PLACES(in_place) for (int in_place = 0; in_place < 2; in_place++)
#define FOR_ROOTS(root) for (int root = 0; root < ranks; root++)

static void all_reduce_gives_everyone_the_reduction(void) {
    FOR_COUNTS(count) FOR_PLACES(in_place) {
        int *recv = in_place ? in : out;
        clear(recv, count);
        fill(in, 0, count);
        in[count] = UNTOUCHED;
        OK(pennyAllReduce(in, recv, count, pennyInt, pennySum, comm, NULL));
        for (size_t i = 0; i < count; i++) CHECK_INT(recv[i], sum_at(i));
        for (size_t i = 0; !in_place && i < count; i++) CHECK_INT(in[i], value(rank, i));
        CHECK_INT(recv[count], UNTOUCHED);
    }
}

static void reduce_gives_the_root_the_reduction_and_leaves_the_others(void) {
    FOR_COUNTS(count) FOR_ROOTS(root) FOR_PLACES(in_place) {
        int *recv = in_place ? in : out;
        clear(out, count);
        fill(in, 0, count);
        in[count] = UNTOUCHED;
        OK(pennyReduce(in, rank == root || in_place ? recv : NULL, count, pennyInt, pennySum, root, comm, NULL));
        if (rank == root) {
            for (size_t i = 0; i < count; i++) CHECK_INT(recv[i], sum_at(i));
        } else {
            for (size_t i = 0; i < count; i++) CHECK_INT(in[i], value(rank, i));
        }
        CHECK_INT(recv[count], UNTOUCHED);
    }
}

static void broadcast_gives_everyone_the_roots_buffer(void) {
    FOR_COUNTS(count) FOR_ROOTS(root) FOR_PLACES(in_place) {
        int *recv = in_place ? in : out;
        clear(out, count);
        fill(in, 0, count);
        in[count] = UNTOUCHED;
        const int *send = rank == root || in_place ? in : NULL;
        OK(pennyBroadcast(send, recv, count, pennyInt, root, comm, NULL));
        for (size_t i = 0; i < count; i++) CHECK_INT(recv[i], value(root, i));
        CHECK_INT(recv[count], UNTOUCHED);

        fill(in, 1, count);
        OK(pennyBcast(in, count, pennyInt, root, comm, NULL));
        for (size_t i = 0; i < count; i++) CHECK_INT(in[i], value(root, i + 1));
    }
}

static void all_gather_gives_everyone_every_block_in_rank_order(void) {
    FOR_COUNTS(count) FOR_PLACES(in_place) {
        size_t all = (size_t)ranks * count;
        int *send = in_place ? out + (size_t)rank * count : in;
        clear(out, all);
        fill(send, 0, count);
        OK(pennyAllGather(send, out, count, pennyInt, comm, NULL));
        for (size_t i = 0; i < all; i++) CHECK_INT(out[i], value((int)(i / count), i % count));
        CHECK_INT(out[all], UNTOUCHED);
    }
}

static void reduce_scatter_gives_each_rank_its_block_of_the_reduction(void) {
    FOR_COUNTS(count) FOR_PLACES(in_place) {
        size_t mine = (size_t)rank * count;
        int *recv = in_place ? in + mine : out;
        clear(out, count);
        fill(in, 0, (size_t)ranks * count);
        OK(pennyReduceScatter(in, recv, count, pennyInt, pennySum, comm, NULL));
        for (size_t i = 0; i < count; i++) CHECK_INT(recv[i], sum_at(mine + i));
        CHECK_INT(out[count], UNTOUCHED);
    }
}

static void reduce_scatter_padded_splits_any_length_and_fills_with_zero(void) {
    FOR_COUNTS(count) {
        size_t block = (count + (size_t)ranks - 1) / (size_t)ranks;
        clear(out, block);
        fill(in, 0, count);
        OK(pennyReduceScatterPadded(in, out, count, pennyInt, pennySum, comm, NULL));
        for (size_t i = 0; i < block; i++) {
            size_t at = (size_t)rank * block + i;
            CHECK_INT(out[i], at < count ? sum_at(at) : 0);
        }
        CHECK_INT(out[block], UNTOUCHED);
    }
}

static void all_to_all_exchanges_blocks(void) {
    FOR_COUNTS(count) FOR_PLACES(in_place) {
        size_t all = (size_t)ranks * count;
        int *recv = in_place ? in : out;
        clear(recv, all);
        fill(in, 0, all);
        in[all] = UNTOUCHED;
        OK(pennyAlltoAll(in, recv, count, pennyInt, comm, NULL));
        for (size_t i = 0; i < all; i++) {
            CHECK_INT(recv[i], value((int)(i / count), (size_t)rank * count + i % count));
        }
        CHECK_INT(recv[all], UNTOUCHED);
    }
}

static void gather_gives_the_root_every_block(void) {
    FOR_COUNTS(count) FOR_ROOTS(root) FOR_PLACES(in_place) {
        size_t all = (size_t)ranks * count;
        int *send = in_place && rank == root ? out + (size_t)root * count : in;
        clear(out, all);
        fill(send, 0, count);
        OK(pennyGather(send, rank == root ? out : NULL, count, pennyInt, root, comm, NULL));
        for (size_t i = 0; i < all; i++) {
            CHECK_INT(out[i], rank == root ? value((int)(i / count), i % count) : UNTOUCHED);
        }
        CHECK_INT(out[all], UNTOUCHED);
    }
}

static void scatter_gives_each_rank_its_block(void) {
    FOR_COUNTS(count) FOR_ROOTS(root) FOR_PLACES(in_place) {
        int *recv = in_place && rank == root ? in + (size_t)root * count : out;
        clear(out, count);
        fill(in, 0, (size_t)ranks * count);
        OK(pennyScatter(rank == root ? in : NULL, recv, count, pennyInt, root, comm, NULL));
        for (size_t i = 0; i < count; i++) CHECK_INT(recv[i], value(root, (size_t)rank * count + i));
        CHECK_INT(out[count], UNTOUCHED);
    }
}

/* No rank may leave before every rank has come: each says in a file that it is about to come. */
static void permute_sends_each_block_where_the_table_says(void) {
    int perm[BLOCKS];
    /* To the right; to the left; back to front; only rank 0, to the last. */
    FOR_COUNTS(count) for (int kind = 0; kind < 4; kind++) {
        int from = -1;
        for (int r = 0; r < ranks; r++) {
            const int table[] = {(r + 1) % ranks, (r + ranks - 1) % ranks, ranks - 1 - r, r == 0 ? ranks - 1 : -1};
            perm[r] = table[kind];
            if (perm[r] == rank) from = r;
        }
        clear(out, count);
        fill(in, 0, count);
        OK(pennyPermute(perm[rank] < 0 ? NULL : in, out, count, pennyInt, perm, comm, NULL));
        for (size_t i = 0; i < count; i++) CHECK_INT(out[i], from < 0 ? 0 : value(from, i));
        CHECK_INT(out[count], UNTOUCHED);
    }
}

static void nobody_leaves_a_barrier_before_everybody_has_come(void) {
    for (int round = 0; round < 20; round++) {
        char name[64], path[512];
        snprintf(name, sizeof name, "come-%d-%d", round, rank);
        if (round % ranks == rank) nap();
        post(name);
        OK(pennyBarrier(comm, NULL));
        for (int r = 0; r < ranks; r++) {
            snprintf(name, sizeof name, "come-%d-%d", round, r);
            path_of(path, sizeof path, name);
            FILE *file = fopen(path, "r");
            CHECK(file != NULL);
            fclose(file);
        }
    }
}

static void a_count_of_zero_is_checked_and_touches_nothing(void) {
    clear(in, 4), clear(out, 4);
    OK(pennyAllReduce(in, out, 0, pennyInt, pennySum, comm, NULL));
    OK(pennyAllReduce(NULL, NULL, 0, pennyInt, pennySum, comm, NULL));
    OK(pennyReduce(in, out, 0, pennyInt, pennySum, 0, comm, NULL));
    OK(pennyBroadcast(in, out, 0, pennyInt, 0, comm, NULL));
    OK(pennyBcast(in, 0, pennyInt, 0, comm, NULL));
    OK(pennyAllGather(in, out, 0, pennyInt, comm, NULL));
    OK(pennyReduceScatter(in, out, 0, pennyInt, pennySum, comm, NULL));
    OK(pennyReduceScatterPadded(in, out, 0, pennyInt, pennySum, comm, NULL));
    OK(pennyAlltoAll(in, out, 0, pennyInt, comm, NULL));
    OK(pennyGather(in, out, 0, pennyInt, 0, comm, NULL));
    OK(pennyScatter(in, out, 0, pennyInt, 0, comm, NULL));
    for (int i = 0; i < 4; i++) CHECK(in[i] == UNTOUCHED && out[i] == UNTOUCHED);
    FAILS(pennyInvalidArgument, "root", pennyBcast(in, 0, pennyInt, ranks, comm, NULL));
    FAILS(pennyInvalidArgument, "datatype", pennyBcast(in, 0, (pennyDataType_t)99, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "op", pennyAllReduce(in, out, 0, pennyInt, (pennyRedOp_t)99, comm, NULL));
}

static void badly_aligned_buffers_work(void) {
    enum { COUNT = 1001 };
    static unsigned char from[COUNT * 4 + 8], to[COUNT * 4 + 8];
    for (int shift = 1; shift < 4; shift++) {
        for (int i = 0; i < COUNT; i++) {
            int v = value(rank, (size_t)i);
            memcpy(from + shift + 4 * i, &v, 4);
        }
        OK(pennyAllReduce(from + shift, to + 4 - shift, COUNT, pennyInt, pennySum, comm, NULL));
        for (int i = 0; i < COUNT; i++) {
            int v;
            memcpy(&v, to + 4 - shift + 4 * i, 4);
            CHECK_INT(v, sum_at((size_t)i));
        }
    }
}

/* Rank 0 asks for something else than the other ranks: all are told, a reduction's output is untouched, and life goes on. */
static void disagreement_is_found_and_survived(void) {
    if (ranks == 1) return;
    for (int what = 0; what < 3; what++) {
        size_t count = rank == 0 && what == 0 ? 7 : 8;
        pennyDataType_t type = rank == 0 && what == 1 ? pennyFloat : pennyInt;
        pennyRedOp_t op = rank == 0 && what == 2 ? pennyMax : pennySum;
        clear(out, 8);
        fill(in, 0, 8);
        FAILS(pennyInvalidUsage, "rank", pennyAllReduce(in, out, count, type, op, comm, NULL));
        for (int i = 0; i < 8; i++) CHECK_INT(out[i], UNTOUCHED);
        OK(pennyAllReduce(in, out, 8, pennyInt, pennySum, comm, NULL));
        for (size_t i = 0; i < 8; i++) CHECK_INT(out[i], sum_at(i));
    }
}

/* The last rank takes itself for the root, once, in a loop of calls that have a root. Every rank is told. */
static void another_root_is_told_to_every_rank_in_a_loop_of_rooted_calls(void) {
    enum { CALLS = 500, ODD = 200 };
    /* The most calls that a rank is ahead of another. */
    const int soon = (ranks >= 3 && ranks <= 16 ? 64 : 32) + 1;
    if (ranks == 1) return;
    for (int which = 0; which < 4; which++) {
        int told = -1;
        for (int call = 0; call < CALLS; call++) {
            int root = call == ODD && rank == ranks - 1 ? rank : 0;
            pennyResult_t result = which == 0   ? pennyBroadcast(in, out, 8, pennyInt, root, comm, NULL)
                                   : which == 1 ? pennyReduce(in, out, 8, pennyInt, pennySum, root, comm, NULL)
                                   : which == 2 ? pennyGather(in, out, 8, pennyInt, root, comm, NULL)
                                                : pennyScatter(in, out, 8, pennyInt, root, comm, NULL);
            if (result == pennySuccess) continue;
            char text[32];
            snprintf(text, sizeof text, "root %d", ranks - 1);
            const char *sentence = pennyGetLastError(NULL);
            if (result != pennyInvalidUsage || strstr(sentence, "root 0") == NULL || strstr(sentence, text) == NULL) {
                FAIL("call %d: %s", call, sentence);
            }
            if (told >= 0) FAIL("told in call %d and again in call %d", told, call);
            told = call;
        }
        if (told < ODD || told > ODD + soon) FAIL("%d: told in call %d", which, told);
    }
    OK(pennyAllReduce(in, out, 8, pennyInt, pennySum, comm, NULL));
}

/* Where no call follows, the communicator's end tells it, to the last rank at least. */
static void another_root_is_told_at_the_end(void) {
    if (ranks == 1) return;
    char done[32];
    int one = 1;
    pennyComm_t other = join();
    OK(pennyBroadcast(in, out, 8, pennyInt, rank, other, NULL));
    snprintf(done, sizeof done, "called.%d", rank);
    post_bytes(done, &one, sizeof one);
    for (int r = 0; r < ranks; r++) {
        snprintf(done, sizeof done, "called.%d", r);
        await_bytes(done, &one, sizeof one);
    }
    FAILS(pennyInvalidUsage, "ranks disagree in call #1", pennyCommDestroy(other));
}

/* A refusal is local, so the next call must still match the other ranks'. */
static void a_refused_call_leaves_the_communicator_in_step(void) {
    if (rank == ranks - 1) {
        for (int i = 0; i < 3; i++) {
            FAILS(pennyInvalidArgument, "sendbuff", pennyAllReduce(NULL, out, 4, pennyInt, pennySum, comm, NULL));
        }
    }
    fill(in, 0, 4);
    OK(pennyAllReduce(in, out, 4, pennyInt, pennySum, comm, NULL));
    for (size_t i = 0; i < 4; i++) CHECK_INT(out[i], sum_at(i));
}

int main(void) {
    begin();
    CHECK(ranks <= BLOCKS);
    comm = join();
    RUN(all_reduce_gives_everyone_the_reduction);
    RUN(reduce_gives_the_root_the_reduction_and_leaves_the_others);
    RUN(broadcast_gives_everyone_the_roots_buffer);
    RUN(all_gather_gives_everyone_every_block_in_rank_order);
    RUN(reduce_scatter_gives_each_rank_its_block_of_the_reduction);
    RUN(reduce_scatter_padded_splits_any_length_and_fills_with_zero);
    RUN(all_to_all_exchanges_blocks);
    RUN(gather_gives_the_root_every_block);
    RUN(scatter_gives_each_rank_its_block);
    RUN(permute_sends_each_block_where_the_table_says);
    RUN(nobody_leaves_a_barrier_before_everybody_has_come);
    RUN(a_count_of_zero_is_checked_and_touches_nothing);
    RUN(badly_aligned_buffers_work);
    RUN(disagreement_is_found_and_survived);
    RUN(another_root_is_told_to_every_rank_in_a_loop_of_rooted_calls);
    RUN(another_root_is_told_at_the_end);
    RUN(a_refused_call_leaves_the_communicator_in_step);
    OK(pennyCommDestroy(comm));
    return 0;
}
