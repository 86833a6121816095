/*
 * Threads with several ranks each, as benchmarks arrange them: every collective, type and reduction on streams of a CUDA runtime, in
 * and out of place, against results that are computed here. TEST_SHAPES has the arrangements, such as "1x2 2x2": threads x ranks of each.
 *
 *     process p, thread t, index g   =   rank (p * threads + t) * each + g, on device t * each + g
 *
 * TEST_FAULT plants a fault that must be found: input, result, guard, root, scalar.
 */
#include "check.h"
#include "floats.h"

enum { THREADS = 4, EACH = 4, MARGIN = 64, INT = 0, UINT = 1, FLOAT = 2 };

static const struct {
    ncclDataType_t type;
    int kind;
    format f;
} types[] = {
    {ncclInt8, INT, {1, 0, 0, 0, 0}},     {ncclUint8, UINT, {1, 0, 0, 0, 0}},   {ncclInt32, INT, {4, 0, 0, 0, 0}},
    {ncclUint32, UINT, {4, 0, 0, 0, 0}},  {ncclInt64, INT, {8, 0, 0, 0, 0}},    {ncclUint64, UINT, {8, 0, 0, 0, 0}},
    {ncclFloat16, FLOAT, HALF},           {ncclFloat32, FLOAT, SINGLE},         {ncclFloat64, FLOAT, DOUBLE},
    {ncclBfloat16, FLOAT, BFLOAT},        {ncclFloat8e4m3, FLOAT, E4M3},        {ncclFloat8e5m2, FLOAT, E5M2},
};
enum { TYPES = sizeof types / sizeof *types, PREMUL = ncclNumOps, OPS = ncclNumOps + 1, MOVE = -1 };
static const char *const op_names[] = {"sum", "prod", "max", "min", "avg", "premulsum"};

static int threads, each, all;
static const char *fault;

static int planted(const char *name) { return fault != NULL && strcmp(fault, name) == 0; }

/* Integers of a type's width, as 64 bits. */
static int64_t widened(int t, uint64_t bits) {
    int unused = 64 - 8 * (int)types[t].f.size;
    return types[t].kind == INT ? (int64_t)(bits << unused) >> unused : (int64_t)(bits << unused >> unused);
}

static uint64_t scalar_of(int t, int rank) {
    static const double factors[] = {1, 2, 0.5};
    return types[t].kind == FLOAT ? nearest(types[t].f, factors[rank % 3]) : (uint64_t)(rank % 3 + 1);
}

/* Element i of a rank's input. Of floats at most two ranks have other than the neutral element, so no order rounds differently. */
static uint64_t input(int t, int op, int rank, size_t i) {
    uint64_t bits = noise(noise(i * 131 + (uint64_t)op) * 64 + (uint64_t)rank);
    if (types[t].kind != FLOAT || op == MOVE) return bits;
    int counts = op == ncclMax || op == ncclMin || rank == (int)(i % (size_t)all) || rank == (int)(noise(i) % (uint64_t)all);
    if (!counts) return op == ncclProd ? nearest(types[t].f, 1) : 0;
    return number_of_noise(types[t].f, bits);
}

static uint64_t reduced(int t, int op, size_t i) {
    double value = op == ncclProd ? 1 : 0;
    int64_t whole = op == ncclProd ? 1 : 0;
    format f = types[t].f;
    for (int r = 0; r < all; r++) {
        uint64_t bits = input(t, op, r, i), scalar = scalar_of(t, r);
        if (types[t].kind == FLOAT) {
            double x = value_of(f, op == PREMUL ? product_of(f, bits, scalar) : op == ncclAvg ? product_of(f, bits, one_nth(f, all)) : bits);
            value = op == ncclProd ? value * x
                    : op == ncclMax ? (r == 0 || x > value ? x : value)
                    : op == ncclMin ? (r == 0 || x < value ? x : value) : value + x;
        } else {
            int64_t x = widened(t, bits);
            int smaller = types[t].kind == INT ? x < whole : (uint64_t)x < (uint64_t)whole;
            whole = op == ncclProd ? (int64_t)((uint64_t)whole * (uint64_t)x)
                    : op == ncclMax ? (r == 0 || !smaller ? x : whole)
                    : op == ncclMin ? (r == 0 || smaller ? x : whole)
                                    : (int64_t)((uint64_t)whole + (uint64_t)x * (op == PREMUL ? scalar : 1));
        }
    }
    if (types[t].kind == FLOAT) return nearest(f, value);
    if (op != ncclAvg) return (uint64_t)whole;
    int64_t sum = widened(t, (uint64_t)whole);
    return types[t].kind == INT ? (uint64_t)(sum / all) : (uint64_t)sum / (uint64_t)all;
}

/* A rank: its communicator, stream and two buffers with margins around them. */
typedef struct {
    ncclComm_t comm;
    cudaStream_t stream;
    int rank, device;
    char *in, *out;
    void *scalar;
} member;

static member members[THREADS * EACH];
static size_t room;

/* A case: what a collective is called with, and what each rank has then. */
typedef struct {
    const char *name;
    int t, op, root, in_place;
    size_t count;
} kase;

#define ELEMENT(buffer, k, i) ((buffer) + MARGIN + (size_t)(i) * types[(k)->t].f.size)

static void put(const kase *k, char *buffer, size_t i, uint64_t bits) { memcpy(ELEMENT(buffer, k, i), &bits, types[k->t].f.size); }

/* Elements of the whole input of a rank, then checks of count elements at a place against `expected(i)`. */
static void begin_case(const kase *k, member *m, size_t count) {
    memset(m->in, 0x5a, room);
    memset(m->out, 0x5a, room);
    for (size_t i = 0; i < count; i++) put(k, m->in, i, input(k->t, k->op, m->rank, i));
    if (planted("input") && m->rank == all - 1 && count > 0) *ELEMENT(m->in, k, count - 1) ^= 1;
}

static void check(const kase *k, member *m, char *buffer, size_t place, size_t count, uint64_t (*expected)(const kase *, int, size_t)) {
    size_t size = types[k->t].f.size;
    if (planted("result") && m->rank == 0 && count > 0) *ELEMENT(buffer, k, place) ^= 1;
    if (planted("guard") && m->rank == 0) *ELEMENT(buffer, k, place + count) ^= 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = expected(k, m->rank, i), got = 0;
        memcpy(&got, ELEMENT(buffer, k, place + i), size);
        if (memcmp(&bits, &got, size) != 0) {
            FAIL("%s of type %d, %s, %dx%d, root %d%s: element %zu of %zu of rank %d is %#llx, not %#llx", k->name, types[k->t].type,
                 k->op == MOVE ? "no reduction" : op_names[k->op], threads, each, k->root, k->in_place ? ", in place" : "", i, count,
                 m->rank, (unsigned long long)got, (unsigned long long)(bits & (~(uint64_t)0 >> (64 - 8 * size))));
        }
    }
    for (int i = 0; i < MARGIN && buffer == m->out; i++) {
        if (m->out[i] != 0x5a || ELEMENT(buffer, k, place + count)[i] != 0x5a) FAIL("%s: rank %d has bytes beside its result", k->name, m->rank);
    }
}

static uint64_t sum_at(const kase *k, int rank, size_t i) { return (void)rank, reduced(k->t, k->op, i); }
static uint64_t block_at(const kase *k, int rank, size_t i) { return reduced(k->t, k->op, (size_t)rank * k->count + i); }
static uint64_t of_root(const kase *k, int rank, size_t i) { return (void)rank, input(k->t, MOVE, k->root, i); }
static uint64_t of_all(const kase *k, int rank, size_t i) { return (void)rank, input(k->t, MOVE, (int)(i / k->count), i % k->count); }
static uint64_t to_me(const kase *k, int rank, size_t i) {
    return input(k->t, MOVE, (int)(i / k->count), (size_t)rank * k->count + i % k->count);
}
static uint64_t from_root(const kase *k, int rank, size_t i) { return input(k->t, MOVE, k->root, (size_t)rank * k->count + i); }
static uint64_t of_left(const kase *k, int rank, size_t i) { return input(k->t, MOVE, (rank + all - 1) % all, i); }

/* Makes a call for each rank of a thread in one group, and waits for their streams. m is the rank, k the case. */
#define EVERY(call)                                                                                                    \
    do {                                                                                                               \
        OK(ncclGroupStart());                                                                                          \
        for (member *m = mine; m < mine + each; m++) OK(call);                                                         \
        OK(ncclGroupEnd());                                                                                            \
        for (member *m = mine; m < mine + each; m++) CHECK(cudaStreamSynchronize(m->stream) == cudaSuccess);           \
    } while (0)
#define FILL(count) for (member *m = mine; m < mine + each; m++) begin_case(k, m, count)
#define VERIFY(buffer, place, count, expected) for (member *m = mine; m < mine + each; m++) check(k, m, buffer, place, count, expected)
#define IN(i) ELEMENT(m->in, k, i)
#define OUT(i) (k->in_place ? ELEMENT(m->in, k, i) : ELEMENT(m->out, k, i))

/* The operation of a case for a rank: made before the group, destroyed while its calls may still be queued. */
static ncclRedOp_t op_of(const kase *k, member *m) {
    ncclRedOp_t op = (ncclRedOp_t)k->op;
    uint64_t scalar = scalar_of(k->t, m->rank + (planted("scalar") && m->rank == all - 1));
    if (k->op != PREMUL) return op;
    ncclScalarResidence_t where = m->rank % 2 == 0 ? ncclScalarHostImmediate : ncclScalarDevice;
    memcpy(m->scalar, &scalar, sizeof scalar);
    OK(ncclRedOpCreatePreMulSum(&op, where == ncclScalarDevice ? m->scalar : &scalar, types[k->t].type, where, m->comm));
    return op;
}

static void reductions(kase *k, member *mine) {
    ncclRedOp_t ops[EACH];
    ncclDataType_t type = types[k->t].type;
    size_t blocks = k->count * (size_t)all;
    for (int i = 0; i < each; i++) ops[i] = op_of(k, &mine[i]);
    k->name = "AllReduce";
    FILL(k->count);
    EVERY(ncclAllReduce(IN(0), OUT(0), k->count, type, ops[m - mine], m->comm, m->stream));
    VERIFY(k->in_place ? m->in : m->out, 0, k->count, sum_at);
    k->name = "Reduce";
    FILL(k->count);
    EVERY(ncclReduce(IN(0), OUT(0), k->count, type, ops[m - mine], planted("root") ? (k->root + 1) % all : k->root, m->comm, m->stream));
    VERIFY(k->in_place ? m->in : m->out, 0, m->rank == k->root ? k->count : 0, sum_at);
    k->name = "ReduceScatter";
    FILL(blocks);
    EVERY(ncclReduceScatter(IN(0), OUT(k->in_place ? (size_t)m->rank * k->count : 0), k->count, type, ops[m - mine], m->comm, m->stream));
    VERIFY(k->in_place ? m->in : m->out, k->in_place ? (size_t)m->rank * k->count : 0, k->count, block_at);
    for (int i = 0; i < each && k->op == PREMUL; i++) OK(ncclRedOpDestroy(ops[i], mine[i].comm));
}

/* A hypercube: in each step a group that has an inner group for each rank of the thread, and sends what the steps before received. */
static void hypercube(const kase *k, member *mine) {
    size_t bytes = k->count * types[k->t].f.size;
    for (member *m = mine; m < mine + each; m++) {
        char *own = ELEMENT(m->out, k, (size_t)m->rank * k->count);
        CHECK(cudaMemcpyAsync(own, IN(0), bytes, cudaMemcpyDefault, m->stream) == cudaSuccess);
    }
    for (int mask = 1; mask < all; mask <<= 1) {
        OK(ncclGroupStart());
        for (member *m = mine; m < mine + each; m++) {
            int peer = m->rank ^ mask;
            size_t count = (size_t)mask * k->count, from = (size_t)(m->rank & -mask) * k->count, to = (size_t)(peer & -mask) * k->count;
            OK(ncclGroupStart());
            OK(ncclSend(ELEMENT(m->out, k, from), count, types[k->t].type, peer, m->comm, m->stream));
            OK(ncclRecv(ELEMENT(m->out, k, to), count, types[k->t].type, peer, m->comm, m->stream));
            OK(ncclGroupEnd());
        }
        OK(ncclGroupEnd());
    }
    for (member *m = mine; m < mine + each; m++) CHECK(cudaStreamSynchronize(m->stream) == cudaSuccess);
}

static void movements(kase *k, member *mine) {
    ncclDataType_t type = types[k->t].type;
    size_t blocks = k->count * (size_t)all;
    k->name = "Broadcast";
    FILL(k->count);
    EVERY(ncclBroadcast(IN(0), OUT(0), k->count, type, planted("root") ? (k->root + 1) % all : k->root, m->comm, m->stream));
    VERIFY(k->in_place ? m->in : m->out, 0, k->count, of_root);
    k->name = "AllGather";
    FILL(k->count);
    for (member *m = mine; m < mine + each && k->in_place; m++) memmove(IN((size_t)m->rank * k->count), IN(0), k->count * types[k->t].f.size);
    EVERY(ncclAllGather(IN(k->in_place ? (size_t)m->rank * k->count : 0), OUT(0), k->count, type, m->comm, m->stream));
    VERIFY(k->in_place ? m->in : m->out, 0, blocks, of_all);
    k->name = "AlltoAll";
    FILL(blocks);
    EVERY(ncclAlltoAll(IN(0), OUT(0), k->count, type, m->comm, m->stream));
    VERIFY(k->in_place ? m->in : m->out, 0, blocks, to_me);
    k->name = "Scatter";
    FILL(m->rank == k->root ? blocks : 0);
    EVERY(ncclScatter(IN(0), OUT(k->in_place && m->rank == k->root ? (size_t)m->rank * k->count : 0), k->count, type, k->root, m->comm, m->stream));
    VERIFY(k->in_place ? m->in : m->out, k->in_place && m->rank == k->root ? (size_t)m->rank * k->count : 0, k->count, from_root);
    if (k->in_place) return;
    k->name = "Gather";
    FILL(k->count);
    EVERY(ncclGather(IN(0), OUT(0), k->count, type, k->root, m->comm, m->stream));
    VERIFY(m->out, 0, m->rank == k->root ? blocks : 0, of_all);
    k->name = "SendRecv";
    FILL(k->count);
    OK(ncclGroupStart());
    for (member *m = mine; m < mine + each; m++) {
        OK(ncclSend(IN(0), k->count, type, (m->rank + 1) % all, m->comm, m->stream));
        OK(ncclRecv(OUT(0), k->count, type, (m->rank + all - 1) % all, m->comm, m->stream));
    }
    OK(ncclGroupEnd());
    for (member *m = mine; m < mine + each; m++) CHECK(cudaStreamSynchronize(m->stream) == cudaSuccess);
    VERIFY(m->out, 0, k->count, of_left);
    if ((all & (all - 1)) != 0) return;
    k->name = "hypercube";
    FILL(k->count);
    hypercube(k, mine);
    VERIFY(m->out, 0, blocks, of_all);
    k->name = "hypercube in one group";
    FILL(k->count);
    OK(ncclGroupStart());
    hypercube(k, mine);
    OK(ncclGroupEnd());
    for (member *m = mine; m < mine + each; m++) CHECK(cudaStreamSynchronize(m->stream) == cudaSuccess);
    VERIFY(m->out, 0, blocks, of_all);
}

static void *thread_main(void *argument) {
    member *mine = &members[(size_t)argument * (size_t)each];
    static const size_t counts[] = {0, 1, 37};
    CHECK(cudaSetDevice(mine->device) == cudaSuccess);
    for (int t = 0; t < TYPES; t++) {
        for (int c = 0; c < 3; c++) {
            for (int in_place = 0; in_place < 2; in_place++) {
                for (int op = 0; op < OPS; op++) {
                    kase k = {"", t, op, (t + op + c) % all, in_place, counts[c]};
                    reductions(&k, mine);
                }
                /* Every root over the types. */
                kase k = {"", t, MOVE, (t + c) % all, in_place, counts[c]};
                movements(&k, mine);
            }
        }
    }
    kase k = {"", 7, ncclAvg, all - 1, 0, 2000};
    reductions(&k, mine);
    return NULL;
}

static void run_shape(void) {
    pthread_t running[THREADS];
    ncclUniqueId id = shared_id();
    all = processes * threads * each;
    room = 2 * MARGIN + (size_t)all * 2000 * 8;
    OK(ncclGroupStart());
    for (int i = 0; i < threads * each; i++) {
        member *m = &members[i];
        m->rank = process * threads * each + i;
        m->device = i;
        CHECK(cudaSetDevice(i) == cudaSuccess && cudaStreamCreate(&m->stream) == cudaSuccess);
        CHECK(cudaMalloc((void **)&m->in, room) == cudaSuccess && cudaMalloc((void **)&m->out, room) == cudaSuccess);
        CHECK(cudaMalloc(&m->scalar, sizeof(uint64_t)) == cudaSuccess);
        OK(ncclCommInitRank(&m->comm, all, id, m->rank));
    }
    OK(ncclGroupEnd());
    for (size_t i = 0; i < (size_t)threads; i++) CHECK(pthread_create(&running[i], NULL, thread_main, (void *)i) == 0);
    for (int i = 0; i < threads; i++) CHECK(pthread_join(running[i], NULL) == 0);
    for (int i = 0; i < threads * each; i++) {
        member *m = &members[i];
        OK(ncclCommDestroy(m->comm));
        CHECK(cudaStreamDestroy(m->stream) == cudaSuccess && cudaFree(m->in) == cudaSuccess);
        CHECK(cudaFree(m->out) == cudaSuccess && cudaFree(m->scalar) == cudaSuccess);
    }
}

int main(void) {
    begin();
    fault = getenv("TEST_FAULT");
    char *shapes = strdup(getenv("TEST_SHAPES")), *rest = shapes, *shape;
    while ((shape = strtok_r(rest, " ", &rest)) != NULL) {
        CHECK(sscanf(shape, "%dx%d", &threads, &each) == 2 && threads <= THREADS && each <= EACH);
        check_case = shape;
        run_shape();
        printf("%s\n", shape);
    }
    free(shapes);
    return 0;
}
