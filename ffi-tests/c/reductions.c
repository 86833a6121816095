/* src/ffi/types.rs: each element type with each operation that it has, and the others, which are refused. */
#include "check.h"

static pennyComm_t comm;
/* Room for an element of any type. */
static int in[2], out[2];

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

int main(void) {
    begin();
    comm = join();
    RUN(what_is_not_in_the_table_of_types_and_operations_is_refused);
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
    OK(pennyCommDestroy(comm));
    return 0;
}
