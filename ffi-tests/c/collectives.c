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

static void tables_of_a_permute_that_cannot_be_are_refused(void) {
    int perm[BLOCKS], twice[BLOCKS], beyond[BLOCKS];
    for (int r = 0; r < ranks; r++) perm[r] = (r + 1) % ranks, twice[r] = 0, beyond[r] = ranks;
    FAILS(pennyInvalidArgument, "perm[0] is", pennyPermute(in, out, 1, pennyInt, beyond, comm, NULL));
    if (ranks > 1) {
        FAILS(pennyInvalidArgument, "perm[0] and perm[1]", pennyPermute(in, out, 1, pennyInt, twice, comm, NULL));
        FAILS(pennyInvalidArgument, "overlap", pennyPermute(in, in, 1, pennyInt, perm, comm, NULL));
    }
    FAILS(pennyInvalidArgument, "perm is NULL", pennyPermute(in, out, 1, pennyInt, NULL, comm, NULL));
    FAILS(pennyInvalidArgument, "sendbuff", pennyPermute(NULL, out, 1, pennyInt, perm, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyPermute(in, NULL, 1, pennyInt, perm, comm, NULL));
    FAILS(pennyInvalidArgument, "count", pennyPermute(in, out, SIZE_MAX, pennyInt, perm, comm, NULL));
    OK(pennyPermute(NULL, NULL, 0, pennyInt, perm, comm, NULL));
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

static void numbers_that_are_no_type_operation_or_root_are_refused_by_name(void) {
    const int no_type[] = {-1, 12, 63, 67, 127}, no_op[] = {-1, 5, 63, 71, 4096};
    const pennyStream_t stream = (pennyStream_t)(uintptr_t)64;
    for (int i = 0; i < 5; i++) {
        pennyDataType_t type = (pennyDataType_t)no_type[i];
        pennyRedOp_t op = (pennyRedOp_t)no_op[i];
        FAILS(pennyInvalidArgument, "datatype", pennyAllReduce(in, out, 1, type, pennySum, comm, NULL));
        FAILS(pennyInvalidArgument, "datatype", pennyAlltoAll(in, out, 1, type, comm, NULL));
        FAILS(pennyInvalidArgument, "op", pennyAllReduce(in, out, 1, pennyInt, op, comm, NULL));
        FAILS(pennyInvalidArgument, "op", pennyReduceScatterPadded(in, out, 1, pennyInt, op, comm, NULL));
    }
    const int no_root[] = {-1, ranks, INT_MAX, INT_MIN};
    for (int i = 0; i < 4; i++) {
        FAILS(pennyInvalidArgument, "root", pennyReduce(in, out, 1, pennyInt, pennySum, no_root[i], comm, NULL));
        FAILS(pennyInvalidArgument, "root", pennyBroadcast(in, out, 1, pennyInt, no_root[i], comm, NULL));
        FAILS(pennyInvalidArgument, "root", pennyBcast(in, 1, pennyInt, no_root[i], comm, NULL));
        FAILS(pennyInvalidArgument, "root", pennyGather(in, out, 1, pennyInt, no_root[i], comm, NULL));
        FAILS(pennyInvalidArgument, "root", pennyScatter(in, out, 1, pennyInt, no_root[i], comm, NULL));
    }
    FAILS(pennyInvalidArgument, "not a live stream", pennyAllReduce(in, out, 1, pennyInt, pennySum, comm, stream));
    FAILS(pennyInvalidArgument, "not a live stream", pennyBarrier(comm, stream));
}

static void what_is_not_in_the_table_of_types_and_operations_is_refused(void) {
    const pennyDataType_t floats[] = {pennyFloat16, pennyFloat, pennyDouble, pennyBfloat16, pennyFloat8e4m3, pennyFloat8e5m2};
    for (int i = 0; i < 6; i++) {
        for (int op = pennyLogicalAnd; op <= pennyBitXor; op++) {
            CHECK(pennyAllReduce(in, out, 1, floats[i], (pennyRedOp_t)op, comm, NULL) == pennyInvalidArgument);
        }
    }
    FAILS(pennyInvalidArgument, "bool", pennyAllReduce(in, out, 1, pennyBool, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "bool", pennyAllReduce(in, out, 1, pennyBool, pennyBitOr, comm, NULL));
    FAILS(pennyInvalidArgument, "bool", pennyReduce(in, out, 1, pennyBool, pennyAvg, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "bool", pennyReduceScatter(in, out, 1, pennyBool, pennyMax, comm, NULL));
}

static void a_null_buffer_that_would_be_used_is_refused_by_name(void) {
    FAILS(pennyInvalidArgument, "sendbuff", pennyAllReduce(NULL, out, 1, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyAllReduce(in, NULL, 1, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "sendbuff", pennyReduce(NULL, out, 1, pennyInt, pennySum, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyReduce(in, NULL, 1, pennyInt, pennySum, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "sendbuff", pennyBroadcast(NULL, out, 1, pennyInt, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyBroadcast(in, NULL, 1, pennyInt, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "buff", pennyBcast(NULL, 1, pennyInt, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "sendbuff", pennyAllGather(NULL, out, 1, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyReduceScatter(in, NULL, 1, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyAlltoAll(in, NULL, 1, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyGather(in, NULL, 1, pennyInt, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "sendbuff", pennyScatter(NULL, out, 1, pennyInt, rank, comm, NULL));
}

static void a_count_beyond_the_address_space_is_refused(void) {
    const size_t huge[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)-1 / 4 + 1};
    for (int i = 0; i < 3; i++) {
        FAILS(pennyInvalidArgument, "count", pennyAllReduce(in, out, huge[i], pennyInt64, pennySum, comm, NULL));
        FAILS(pennyInvalidArgument, "count", pennyAllGather(in, out, huge[i], pennyInt64, comm, NULL));
        FAILS(pennyInvalidArgument, "count", pennyAlltoAll(in, out, huge[i], pennyInt64, comm, NULL));
        FAILS(pennyInvalidArgument, "count", pennyBcast(in, huge[i], pennyInt64, 0, comm, NULL));
    }
}

static void overlap_that_is_not_in_place_is_refused(void) {
    FAILS(pennyInvalidArgument, "overlap", pennyAllReduce(in, in + 1, 8, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyReduce(in + 7, in, 8, pennyInt, pennySum, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyBroadcast(in, in + 4, 8, pennyInt, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyAlltoAll(in, in + 1, 8, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyAllGather(in + rank * 8 + 1, in, 8, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyReduceScatter(in, in + rank * 8 + 1, 8, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyGather(in + rank * 8 + 1, in, 8, pennyInt, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyScatter(in, in + rank * 8 + 1, 8, pennyInt, rank, comm, NULL));
}

#define INTEGER_CASE(name, ctype, type)                                                                                \
    static void name(void) {                                                                                           \
        const pennyRedOp_t ops[] = {pennySum,        pennyProd,      pennyMax,        pennyMin,    pennyAvg,           \
                                    pennySquareAdd,  pennyBitAnd,    pennyBitOr,      pennyBitXor, pennyLogicalAnd,    \
                                    pennyLogicalOr,  pennyLogicalXor};                                                 \
        ctype x[129], y[129];                                                                                          \
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {                                                        \
            for (int i = 0; i < 129; i++) x[i] = (ctype)((rank + 1) * (i % 7) % 5);                                    \
            OK(pennyAllReduce(x, y, 129, type, ops[k], comm, NULL));                                                   \
            for (int i = 0; i < 129; i++) CHECK_INT(y[i], (ctype)integer_oracle(ops[k], i));                           \
        }                                                                                                              \
    }

static long long integer_oracle(pennyRedOp_t op, int i) {
    long long all = 0;
    for (int r = 0; r < ranks; r++) {
        long long x = (r + 1) * (i % 7) % 5;
        long long first = op == pennySquareAdd ? x * x : op >= pennyLogicalAnd && op <= pennyLogicalXor ? x != 0 : x;
        if (r == 0) all = first;
        else if (op == pennySum || op == pennyAvg || op == pennySquareAdd) all += first;
        else if (op == pennyProd) all *= x;
        else if (op == pennyMax) all = x > all ? x : all;
        else if (op == pennyMin) all = x < all ? x : all;
        else if (op == pennyBitAnd || op == pennyLogicalAnd) all &= first;
        else if (op == pennyBitOr || op == pennyLogicalOr) all |= first;
        else all ^= first;
    }
    return op == pennyAvg ? all / ranks : all;
}

INTEGER_CASE(int8_serves_every_operation, int8_t, pennyInt8)
INTEGER_CASE(uint8_serves_every_operation, uint8_t, pennyUint8)
INTEGER_CASE(int16_serves_every_operation, int16_t, pennyInt16)
INTEGER_CASE(uint16_serves_every_operation, uint16_t, pennyUint16)
INTEGER_CASE(int32_serves_every_operation, int32_t, pennyInt32)
INTEGER_CASE(uint32_serves_every_operation, uint32_t, pennyUint32)
INTEGER_CASE(int64_serves_every_operation, int64_t, pennyInt64)
INTEGER_CASE(uint64_serves_every_operation, uint64_t, pennyUint64)

#define FLOAT_CASE(name, ctype, type)                                                                                  \
    static void name(void) {                                                                                           \
        const pennyRedOp_t ops[] = {pennySum, pennyProd, pennyMax, pennyMin, pennySquareAdd};                          \
        ctype x[129], y[129];                                                                                          \
        for (int i = 0; i < 129; i++) x[i] = (ctype)((rank + 1) * (i % 7) % 5);                                        \
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {                                                        \
            OK(pennyAllReduce(x, y, 129, type, ops[k], comm, NULL));                                                   \
            for (int i = 0; i < 129; i++) CHECK(y[i] == (ctype)integer_oracle(ops[k], i));                             \
        }                                                                                                              \
        for (int i = 0; i < 129; i++) x[i] = (ctype)(ranks * i) + (ctype)rank;                                         \
        OK(pennyAllReduce(x, y, 129, type, pennyAvg, comm, NULL));                                                     \
        for (int i = 0; i < 129; i++) {                                                                                \
            ctype exact = (ctype)(ranks * i) + (ctype)(ranks - 1) / 2, off = y[i] - exact;                             \
            CHECK((off < 0 ? -off : off) <= exact / 1000000);                                                          \
        }                                                                                                              \
    }

FLOAT_CASE(float_serves_its_operations, float, pennyFloat)
FLOAT_CASE(double_serves_its_operations, double, pennyDouble)

/* Small whole numbers are exact in every one of these. 1.0 is 0x3c00, 0x3f80, 0x38 and 0x3c. */
static void narrow_floats_add_whole_numbers_exactly(void) {
    const uint16_t half_of[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800};
    const uint16_t brain_of[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100};
    const uint8_t e4m3_of[] = {0, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e, 0x50};
    const uint8_t e5m2_of[] = {0, 0x3c, 0x40, 0x42, 0x44, 0, 0x46, 0, 0x48};
    uint16_t wide = half_of[1];
    uint8_t narrow = e4m3_of[1];
    if (ranks > 8 || ranks == 5 || ranks == 7) return;
    OK(pennyAllReduce(&wide, &wide, 1, pennyHalf, pennySum, comm, NULL));
    CHECK_INT(wide, half_of[ranks]);
    wide = brain_of[1];
    OK(pennyAllReduce(&wide, &wide, 1, pennyBfloat16, pennySum, comm, NULL));
    CHECK_INT(wide, brain_of[ranks]);
    OK(pennyAllReduce(&narrow, &narrow, 1, pennyFloat8e4m3, pennySum, comm, NULL));
    CHECK_INT(narrow, e4m3_of[ranks]);
    narrow = e5m2_of[1];
    OK(pennyAllReduce(&narrow, &narrow, 1, pennyFloat8e5m2, pennySum, comm, NULL));
    CHECK_INT(narrow, e5m2_of[ranks]);
}

static void booleans_are_true_when_not_zero(void) {
    uint8_t x[3] = {rank == 0 ? 2 : 0, (uint8_t)(rank + 1), 0}, y[3];
    OK(pennyAllReduce(x, y, 3, pennyBool, pennyLogicalOr, comm, NULL));
    CHECK(y[0] == 1 && y[1] == 1 && y[2] == 0);
    OK(pennyAllReduce(x, y, 3, pennyBool, pennyLogicalAnd, comm, NULL));
    CHECK(y[0] == (ranks == 1) && y[1] == 1 && y[2] == 0);
    OK(pennyAllReduce(x, y, 3, pennyBool, pennyLogicalXor, comm, NULL));
    CHECK(y[0] == 1 && y[1] == ranks % 2 && y[2] == 0);
}

/* The sum of numbers of all sizes depends on the order; every rank must have taken the same. */
static void every_rank_gets_the_same_bits(void) {
    enum { COUNT = 10000 };
    static float x[COUNT], y[COUNT];
    static uint32_t least[COUNT], most[COUNT], bits[COUNT];
    unsigned state = 12345u + (unsigned)rank;
    for (int i = 0; i < COUNT; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = ((float)(state >> 8) - 8388608.0f) / (float)(1u << (state >> 27));
    }
    OK(pennyAllReduce(x, y, COUNT, pennyFloat, pennySum, comm, NULL));
    memcpy(bits, y, sizeof bits);
    OK(pennyAllReduce(bits, least, COUNT, pennyUint32, pennyMin, comm, NULL));
    OK(pennyAllReduce(bits, most, COUNT, pennyUint32, pennyMax, comm, NULL));
    CHECK(memcmp(least, most, sizeof most) == 0);
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

/* Rank 0 asks for something else than the rest: all are told, a reduction's output is untouched, and life goes on. */
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
    enum { CALLS = 500, ODD = 200, SOON = 9 };
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
        if (told < ODD || told > ODD + SOON) FAIL("%d: told in call %d", which, told);
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
    RUN(tables_of_a_permute_that_cannot_be_are_refused);
    RUN(nobody_leaves_a_barrier_before_everybody_has_come);
    RUN(a_count_of_zero_is_checked_and_touches_nothing);
    RUN(numbers_that_are_no_type_operation_or_root_are_refused_by_name);
    RUN(what_is_not_in_the_table_of_types_and_operations_is_refused);
    RUN(a_null_buffer_that_would_be_used_is_refused_by_name);
    RUN(a_count_beyond_the_address_space_is_refused);
    RUN(overlap_that_is_not_in_place_is_refused);
    RUN(int8_serves_every_operation);
    RUN(uint8_serves_every_operation);
    RUN(int16_serves_every_operation);
    RUN(uint16_serves_every_operation);
    RUN(int32_serves_every_operation);
    RUN(uint32_serves_every_operation);
    RUN(int64_serves_every_operation);
    RUN(uint64_serves_every_operation);
    RUN(float_serves_its_operations);
    RUN(double_serves_its_operations);
    RUN(narrow_floats_add_whole_numbers_exactly);
    RUN(booleans_are_true_when_not_zero);
    RUN(every_rank_gets_the_same_bits);
    RUN(badly_aligned_buffers_work);
    RUN(disagreement_is_found_and_survived);
    RUN(another_root_is_told_to_every_rank_in_a_loop_of_rooted_calls);
    RUN(another_root_is_told_at_the_end);
    RUN(a_refused_call_leaves_the_communicator_in_step);
    OK(pennyCommDestroy(comm));
    return 0;
}
