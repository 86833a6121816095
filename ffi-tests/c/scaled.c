/* src/comm/calls/scaled.rs: sums whose inputs are multiplied first. */
#include "check.h"

enum { MOST = 16, LONG = 100000 };

/* What the ranks' inputs, `i % 50 + rank`, come to where rank r multiplies by r + 1. */
static double expected(size_t i) {
    double sum = 0;
    for (int r = 0; r < ranks; r++) sum += (double)(r + 1) * (double)((int)(i % 50) + r);
    return sum;
}

#define EVERY_CALL(type, datatype)                                                                                     \
    static void datatype##_is_scaled(pennyComm_t comm, pennyStream_t stream, size_t count, pennyScalarResidence_t residence) { \
        type factor = (type)(rank + 1);                                                                                \
        pennyRedOp_t op;                                                                                               \
        size_t n = (size_t)ranks, all = n * count;                                                                     \
        type *in = malloc((all + 1) * sizeof *in), *out = malloc((all + 1) * sizeof *out);                             \
        OK(pennyRedOpCreatePreMulSum(&op, &factor, datatype, residence, comm));                                        \
        CHECK((int)op > 4096);                                                                                         \
        if (residence == pennyScalarHostImmediate) factor = 0;                                                         \
        for (size_t i = 0; i < all; i++) in[i] = (type)((int)(i % 50) + rank), out[i] = 0;                             \
        OK(pennyAllReduce(in, out, count, datatype, op, comm, stream));                                                \
        OK(pennyStreamSynchronize(stream));                                                                            \
        for (size_t i = 0; i < count; i++) CHECK((double)out[i] == expected(i) && in[i] == (type)((int)(i % 50) + rank)); \
        for (int root = 0; root < ranks; root++) {                                                                     \
            OK(pennyReduce(in, rank == root ? out : NULL, count, datatype, op, root, comm, stream));                   \
            OK(pennyStreamSynchronize(stream));                                                                        \
            for (size_t i = 0; i < count && rank == root; i++) CHECK((double)out[i] == expected(i));                   \
        }                                                                                                              \
        OK(pennyReduceScatter(in, out, count, datatype, op, comm, stream));                                            \
        OK(pennyStreamSynchronize(stream));                                                                            \
        for (size_t i = 0; i < count; i++) CHECK((double)out[i] == expected((size_t)rank * count + i));                \
        OK(pennyGroupStart());                                                                                         \
        OK(pennyReduceScatterPadded(in, out, all, datatype, op, comm, stream));                                        \
        OK(pennyAllReduce(in, in, all, datatype, op, comm, stream));                                                   \
        OK(pennyGroupEnd());                                                                                           \
        OK(pennyRedOpDestroy(op, comm));                                                                               \
        OK(pennyStreamSynchronize(stream));                                                                            \
        for (size_t i = 0; i < count; i++) CHECK((double)out[i] == expected((size_t)rank * count + i));                \
        for (size_t i = 0; i < all; i++) CHECK((double)in[i] == expected(i));                                          \
        free(in);                                                                                                      \
        free(out);                                                                                                     \
    }
EVERY_CALL(double, pennyFloat64)
EVERY_CALL(float, pennyFloat32)
EVERY_CALL(int64_t, pennyInt64)
EVERY_CALL(uint64_t, pennyUint64)
EVERY_CALL(int32_t, pennyInt32)
EVERY_CALL(uint32_t, pennyUint32)
EVERY_CALL(int16_t, pennyInt16)
EVERY_CALL(uint16_t, pennyUint16)

static void each_rank_has_its_own_number(void) {
    static void (*const scaled[])(pennyComm_t, pennyStream_t, size_t, pennyScalarResidence_t) = {
        pennyFloat64_is_scaled, pennyFloat32_is_scaled, pennyInt64_is_scaled, pennyUint64_is_scaled,
        pennyInt32_is_scaled,   pennyUint32_is_scaled,  pennyInt16_is_scaled, pennyUint16_is_scaled};
    static const size_t counts[] = {1, 7, 1000, LONG};
    pennyComm_t comm = join();
    pennyStream_t stream;
    OK(pennyStreamCreate(&stream));
    for (size_t t = 0; t < sizeof scaled / sizeof *scaled; t++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            scaled[t](comm, NULL, counts[c], pennyScalarHostImmediate);
            scaled[t](comm, stream, counts[c], pennyScalarDevice);
        }
    OK(pennyStreamDestroy(stream));
    OK(pennyCommDestroy(comm));
}

/* Small types: 2 times 3 and so on are exact in all of them. 16-bit floats and bytes as bits. */
static void small_types_are_scaled(void) {
    static const struct { pennyDataType_t type; size_t size; uint16_t two, three; } types[] = {
        {pennyInt8, 1, 2, 3}, {pennyUint8, 1, 2, 3}, {pennyFloat16, 2, 0x4000, 0x4200}, {pennyBfloat16, 2, 0x4000, 0x4040},
        {pennyFloat8e4m3, 1, 0x40, 0x44}, {pennyFloat8e5m2, 1, 0x40, 0x42}};
    static const uint16_t twelve[] = {12, 12, 0x4a00, 0x4140, 0x54, 0x4a};
    pennyComm_t whole = join(), comm;
    OK(pennyCommSplit(whole, rank < 2 ? 0 : PENNY_SPLIT_NOCOLOR, rank, &comm, NULL));
    for (size_t t = 0; t < sizeof types / sizeof *types && rank < 2 && ranks > 1; t++) {
        pennyRedOp_t op;
        unsigned char in[64] = {0}, out[64] = {0};
        OK(pennyRedOpCreatePreMulSum(&op, &types[t].two, types[t].type, pennyScalarHostImmediate, comm));
        for (size_t i = 0; i < 20; i++) memcpy(in + i * types[t].size, &types[t].three, types[t].size);
        OK(pennyAllReduce(in, out, 20, types[t].type, op, comm, NULL));
        for (size_t i = 0; i < 20; i++) {
            uint16_t got = 0;
            memcpy(&got, out + i * types[t].size, types[t].size);
            CHECK_INT(got, twelve[t]);
        }
        OK(pennyRedOpDestroy(op, comm));
    }
    if (comm != NULL) OK(pennyCommDestroy(comm));
    OK(pennyCommDestroy(whole));
}

static void wrong_use_is_refused_by_name(void) {
    pennyComm_t comm = join(), other;
    pennyRedOp_t op = pennySum, twin;
    float factor = 2, one = 1, sum = 0;
    double wide = 1;
    OK(pennyCommDup(comm, &other));
    FAILS(pennyInvalidArgument, "scalar is NULL", pennyRedOpCreatePreMulSum(&op, NULL, pennyFloat, pennyScalarDevice, comm));
    FAILS(pennyInvalidArgument, "op is NULL", pennyRedOpCreatePreMulSum(NULL, &factor, pennyFloat, pennyScalarDevice, comm));
    FAILS(pennyInvalidArgument, "residence is 5", pennyRedOpCreatePreMulSum(&op, &factor, pennyFloat, (pennyScalarResidence_t)5, comm));
    FAILS(pennyInvalidArgument, "no sum of datatype bool", pennyRedOpCreatePreMulSum(&op, &factor, pennyBool, pennyScalarDevice, comm));
    CHECK_INT(op, pennySum);
    OK(pennyRedOpCreatePreMulSum(&op, &factor, pennyFloat, pennyScalarHostImmediate, comm));
    OK(pennyRedOpCreatePreMulSum(&twin, &factor, pennyFloat, pennyScalarHostImmediate, comm));
    FAILS(pennyInvalidArgument, "made for datatype float", pennyAllReduce(&wide, &wide, 1, pennyDouble, op, comm, NULL));
    FAILS(pennyInvalidArgument, "has not made for comm", pennyAllReduce(&one, &sum, 1, pennyFloat, op, other, NULL));
    FAILS(pennyInvalidArgument, "has not made for comm", pennyRedOpDestroy(op, other));
    FAILS(pennyInvalidArgument, "has not made", pennyRedOpDestroy(pennySum, comm));
    OK(pennyRedOpDestroy(op, comm));
    FAILS(pennyInvalidArgument, "destroyed already", pennyRedOpDestroy(op, comm));
    FAILS(pennyInvalidArgument, "destroyed already", pennyAllReduce(&one, &sum, 1, pennyFloat, op, comm, NULL));
    FAILS(pennyInvalidArgument, "pennyReduceScatterv", pennyReduceScatterv(&one, &sum, (size_t[MOST]){0}, pennyFloat, twin, comm, NULL));
    /* Of another kind than the others': to them it is a sum. */
    OK(pennyAllReduce(&one, &sum, 1, pennyFloat, rank == 0 ? twin : pennySum, comm, NULL));
    CHECK(sum == (float)(ranks + 1));
    OK(pennyCommDestroy(other));
    OK(pennyCommDestroy(comm));
    FAILS(pennyInvalidArgument, "comm", pennyRedOpDestroy(twin, comm));
}

int main(void) {
    begin();
    RUN(each_rank_has_its_own_number);
    RUN(small_types_are_scaled);
    RUN(wrong_use_is_refused_by_name);
    return 0;
}
