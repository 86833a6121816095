/* Every collective and transfer against exact results, for every type and reduction. */
#include "check.h"

#define COUNT 37

/* The types, with the widths of their exponents and mantissas; 0: an integer. */
static const struct {
    ncclDataType_t type;
    int bytes, exponent, mantissa;
} types[] = {
    {ncclInt8, 1, 0, 0},      {ncclUint8, 1, 0, 0},     {ncclInt32, 4, 0, 0},      {ncclUint32, 4, 0, 0},
    {ncclInt64, 8, 0, 0},     {ncclUint64, 8, 0, 0},    {ncclFloat16, 2, 5, 10},   {ncclFloat32, 4, 8, 23},
    {ncclFloat64, 8, 11, 52}, {ncclBfloat16, 2, 8, 7},  {ncclFloat8e4m3, 1, 4, 3}, {ncclFloat8e5m2, 1, 5, 2},
};
#define TYPES ((int)(sizeof types / sizeof types[0]))

/* Writes a small whole number as an element of a type. */
static void put(int type, void *buffer, int at, unsigned value) {
    uint64_t bits = value;
    if (types[type].exponent > 0 && value > 0) {
        int top = 31 - __builtin_clz(value), mantissa = types[type].mantissa;
        uint64_t bias = (1u << (types[type].exponent - 1)) - 1;
        uint64_t fraction = mantissa >= top ? (uint64_t)value << (mantissa - top) : value >> (top - mantissa);
        bits = ((bias + (uint64_t)top) << mantissa) | (fraction & (((uint64_t)1 << mantissa) - 1));
    }
    memcpy((char *)buffer + (size_t)at * (size_t)types[type].bytes, &bits, (size_t)types[type].bytes);
}

/* An element of a rank's input: 1 or 2, so that no type rounds a result. */
static unsigned input(int rank, int at) { return 1 + (unsigned)(rank * 7 + at * 3 + rank * at) % 2; }

static unsigned reduced(int op, int at) {
    unsigned sum = 0, product = 1, most = 0, least = 9;
    for (int r = 0; r < ranks; r++) {
        unsigned x = op == ncclAvg ? input(0, at) : input(r, at);
        sum += x;
        product *= x;
        most = x > most ? x : most;
        least = x < least ? x : least;
    }
    return op == ncclSum ? sum : op == ncclProd ? product : op == ncclMax ? most : op == ncclMin ? least : sum / (unsigned)ranks;
}

static char *in[MOST], *out[MOST], *expected;
static size_t room;

/* Fills the inputs of all local ranks: elements in all. The average is of equal numbers, which every type can hold. */
static void fill(int type, int op, int elements) {
    for (int i = 0; i < local; i++) {
        memset(out[i], 0x5a, room);
        for (int at = 0; at < elements; at++) put(type, in[i], at, input(op == ncclAvg ? 0 : first + i, at));
    }
}

static void same(const void *got, int type, int elements) {
    if (memcmp(got, expected, (size_t)elements * (size_t)types[type].bytes) != 0) FAIL("type %d: another result", type);
}

/* The address of an element. */
static char *of(char *buffer, int type, int at) { return buffer + (size_t)at * (size_t)types[type].bytes; }

static void every_type_is_reduced_by_every_operation(void) {
    for (int type = 0; type < TYPES; type++) {
        for (int op = ncclSum; op < ncclNumOps; op++) {
            for (int at = 0; at < COUNT; at++) put(type, expected, at, reduced(op, at));
            fill(type, op, COUNT);
            ALL(ncclAllReduce(in[i], out[i], COUNT, types[type].type, (ncclRedOp_t)op, comms[i], NULL));
            for (int i = 0; i < local; i++) same(out[i], type, COUNT);
            ALL(ncclAllReduce(in[i], in[i], COUNT, types[type].type, (ncclRedOp_t)op, comms[i], NULL));
            for (int i = 0; i < local; i++) same(in[i], type, COUNT);
            int root = (type + op) % ranks;
            fill(type, op, COUNT);
            ALL(ncclReduce(in[i], first + i == root ? out[i] : NULL, COUNT, types[type].type, (ncclRedOp_t)op, root,
                           comms[i], NULL));
            if (root >= first && root < first + local) same(out[root - first], type, COUNT);
        }
    }
}

static void blocks_are_reduced_and_scattered(void) {
    for (int type = 0; type < TYPES; type++) {
        for (int op = ncclSum; op < ncclNumOps; op++) {
            fill(type, op, COUNT * ranks);
            ALL(ncclReduceScatter(in[i], out[i], COUNT, types[type].type, (ncclRedOp_t)op, comms[i], NULL));
            for (int i = 0; i < local; i++) {
                for (int at = 0; at < COUNT; at++) put(type, expected, at, reduced(op, (first + i) * COUNT + at));
                same(out[i], type, COUNT);
            }
            ALL(ncclReduceScatter(in[i], of(in[i], type, (first + i) * COUNT), COUNT, types[type].type, (ncclRedOp_t)op,
                                  comms[i], NULL));
            for (int i = 0; i < local; i++) {
                for (int at = 0; at < COUNT; at++) put(type, expected, at, reduced(op, (first + i) * COUNT + at));
                same(of(in[i], type, (first + i) * COUNT), type, COUNT);
            }
        }
    }
}

static void every_root_broadcasts(void) {
    for (int type = 0; type < TYPES; type++) {
        for (int root = 0; root < ranks; root++) {
            for (int at = 0; at < COUNT; at++) put(type, expected, at, input(root, at));
            fill(type, ncclSum, COUNT);
            ALL(ncclBroadcast(first + i == root ? in[i] : NULL, out[i], COUNT, types[type].type, root, comms[i], NULL));
            for (int i = 0; i < local; i++) same(out[i], type, COUNT);
            fill(type, ncclSum, COUNT);
            ALL(ncclBroadcast(in[i], in[i], COUNT, types[type].type, root, comms[i], NULL));
            for (int i = 0; i < local; i++) same(in[i], type, COUNT);
            fill(type, ncclSum, COUNT);
            ALL(ncclBcast(in[i], COUNT, types[type].type, root, comms[i], NULL));
            for (int i = 0; i < local; i++) same(in[i], type, COUNT);
        }
    }
}

static void blocks_are_gathered_everywhere(void) {
    for (int type = 0; type < TYPES; type++) {
        for (int at = 0; at < COUNT * ranks; at++) put(type, expected, at, input(at / COUNT, at % COUNT));
        fill(type, ncclSum, COUNT);
        ALL(ncclAllGather(in[i], out[i], COUNT, types[type].type, comms[i], NULL));
        for (int i = 0; i < local; i++) same(out[i], type, COUNT * ranks);
        for (int i = 0; i < local; i++) {
            memmove(of(in[i], type, (first + i) * COUNT), in[i], (size_t)(COUNT * types[type].bytes));
        }
        ALL(ncclAllGather(of(in[i], type, (first + i) * COUNT), in[i], COUNT, types[type].type, comms[i], NULL));
        for (int i = 0; i < local; i++) same(in[i], type, COUNT * ranks);
    }
}

static void blocks_go_from_each_rank_to_each(void) {
    int type = 2;
    fill(type, ncclSum, COUNT * ranks);
    ALL(ncclAlltoAll(in[i], out[i], COUNT, types[type].type, comms[i], NULL));
    for (int i = 0; i < local; i++) {
        for (int at = 0; at < COUNT * ranks; at++) {
            put(type, expected, at, input(at / COUNT, (first + i) * COUNT + at % COUNT));
        }
        same(out[i], type, COUNT * ranks);
    }
}

static void every_root_gathers_and_scatters(void) {
    int type = 5;
    for (int root = 0; root < ranks; root++) {
        fill(type, ncclSum, COUNT);
        ALL(ncclGather(in[i], first + i == root ? out[i] : NULL, COUNT, types[type].type, root, comms[i], NULL));
        if (root >= first && root < first + local) {
            for (int at = 0; at < COUNT * ranks; at++) put(type, expected, at, input(at / COUNT, at % COUNT));
            same(out[root - first], type, COUNT * ranks);
        }
        fill(type, ncclSum, COUNT * ranks);
        ALL(ncclScatter(first + i == root ? in[i] : NULL, out[i], COUNT, types[type].type, root, comms[i], NULL));
        for (int i = 0; i < local; i++) {
            for (int at = 0; at < COUNT; at++) put(type, expected, at, input(root, (first + i) * COUNT + at));
            same(out[i], type, COUNT);
        }
    }
}

static void neighbours_exchange(void) {
    int type = 7;
    fill(type, ncclSum, COUNT);
    OK(ncclGroupStart());
    for (int i = 0; i < local; i++) {
        int rank = first + i;
        OK(ncclSend(in[i], COUNT, types[type].type, (rank + 1) % ranks, comms[i], NULL));
        OK(ncclRecv(out[i], COUNT, types[type].type, (rank + ranks - 1) % ranks, comms[i], NULL));
    }
    OK(ncclGroupEnd());
    for (int i = 0; i < local; i++) {
        for (int at = 0; at < COUNT; at++) put(type, expected, at, input((first + i + ranks - 1) % ranks, at));
        same(out[i], type, COUNT);
    }
}

static void inputs_are_scaled(void) {
    int type = 7;
    ncclRedOp_t op[MOST];
    float scalar[MOST];
    for (int i = 0; i < local; i++) {
        scalar[i] = (float)(first + i + 1);
        ncclScalarResidence_t when = i % 2 == 0 ? ncclScalarHostImmediate : ncclScalarDevice;
        OK(ncclRedOpCreatePreMulSum(&op[i], &scalar[i], ncclFloat, when, comms[i]));
        CHECK((int)op[i] >= (int)ncclNumOps);
        if (when == ncclScalarHostImmediate) scalar[i] = -1;
    }
    fill(type, ncclSum, COUNT);
    ALL(ncclAllReduce(in[i], out[i], COUNT, ncclFloat, op[i], comms[i], NULL));
    for (int at = 0; at < COUNT; at++) {
        unsigned sum = 0;
        for (int r = 0; r < ranks; r++) sum += (unsigned)(r + 1) * input(r, at);
        put(type, expected, at, sum);
    }
    for (int i = 0; i < local; i++) {
        same(out[i], type, COUNT);
        OK(ncclRedOpDestroy(op[i], comms[i]));
        FAILS(ncclInvalidArgument, "ncclRedOpCreatePreMulSum", ncclRedOpDestroy(op[i], comms[i]));
        FAILS(ncclInvalidArgument, "ncclRedOpCreatePreMulSum", ncclRedOpDestroy(ncclSum, comms[i]));
    }
}

static void registered_memory_gives_the_same(void) {
    int type = 7;
    size_t elements = 40000;
    void *handle[MOST];
    for (int i = 0; i < local; i++) OK(ncclCommRegister(comms[i], in[i], room, &handle[i]));
    for (size_t at = 0; at < elements; at++) put(type, expected, (int)at, reduced(ncclSum, (int)at));
    fill(type, ncclSum, (int)elements);
    ALL(ncclAllReduce(in[i], out[i], elements, ncclFloat, ncclSum, comms[i], NULL));
    for (int i = 0; i < local; i++) {
        same(out[i], type, (int)elements);
        OK(ncclCommDeregister(comms[i], handle[i]));
    }
}

static void nothing_is_moved_by_count_0(void) {
    ALL(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comms[i], NULL));
    ALL(ncclAllGather(NULL, NULL, 0, ncclInt8, comms[i], NULL));
}

int main(void) {
    begin();
    join();
    room = 40000 * 8;
    expected = malloc(room);
    for (int i = 0; i < local; i++) {
        in[i] = malloc(room);
        /* Memory of both kinds. */
        if (i % 2 == 0) OK(ncclMemAlloc((void **)&out[i], room));
        if (i % 2 == 1) out[i] = malloc(room);
    }
    RUN(every_type_is_reduced_by_every_operation);
    RUN(blocks_are_reduced_and_scattered);
    RUN(every_root_broadcasts);
    RUN(blocks_are_gathered_everywhere);
    RUN(blocks_go_from_each_rank_to_each);
    RUN(every_root_gathers_and_scatters);
    RUN(neighbours_exchange);
    RUN(inputs_are_scaled);
    RUN(registered_memory_gives_the_same);
    RUN(nothing_is_moved_by_count_0);
    leave();
    for (int i = 0; i < local; i += 2) OK(ncclMemFree(out[i]));
    return 0;
}
