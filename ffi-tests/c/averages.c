/* Averages of floats, and where float8 ends: the bits that a reference in this file computes, by every algorithm and on every way. */
#include "check.h"
#include "floats.h"

static const struct {
    pennyDataType_t type;
    format f;
} types[] = {
    {pennyFloat16, HALF},      {pennyBfloat16, BFLOAT}, {pennyFloat8e4m3, E4M3},
    {pennyFloat8e5m2, E5M2}, {pennyFloat, SINGLE},    {pennyDouble, DOUBLE},
};
enum { TYPES = sizeof types / sizeof *types, FIRST_FLOAT8 = 2, LAST_FLOAT8 = 3, LONGEST = 6000, ROOM = 16 * LONGEST };

/* Element i of a rank's input. At most two ranks have numbers other than 0, so that no order of the sum rounds twice. */
static uint64_t input(int t, int r, size_t i, int n) {
    size_t one = i % (size_t)n, other = noise(i) % (size_t)n;
    if ((size_t)r != one && (size_t)r != other) return 0;
    return number_of_noise(types[t].f, noise(i * 64 + (size_t)r + 1));
}

static uint64_t average(int t, size_t i, int n) {
    double sum = 0;
    format f = types[t].f;
    for (int r = 0; r < n; r++) sum += value_of(f, product_of(f, input(t, r, i, n), one_nth(f, n)));
    return nearest(f, sum);
}

static uint64_t at(int t, const void *from, size_t i) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)from + i * types[t].f.size, types[t].f.size);
    return bits;
}

static void put(int t, void *to, size_t i, uint64_t bits) { memcpy((char *)to + i * types[t].f.size, &bits, types[t].f.size); }

/* What this rank puts in, and what must come out, of each type: LONGEST elements for each rank. */
static char *inputs[TYPES], *averages[TYPES];

static void compute(void) {
    for (int t = 0; t < TYPES; t++) {
        inputs[t] = malloc(ROOM * 8);
        averages[t] = malloc(ROOM * 8);
        for (size_t i = 0; i < (size_t)ranks * LONGEST; i++) {
            put(t, inputs[t], i, input(t, rank, i, ranks));
            put(t, averages[t], i, average(t, i, ranks));
        }
    }
}

static void fill(int t, void *in, size_t count) { memcpy(in, inputs[t], count * types[t].f.size); }

/* The memory that calls are made with: [0] of malloc, [1] of pennyMemAlloc, [2] of malloc, registered. */
static char *in[3], *out[3];

static void are_averages(int t, const void *got, size_t first, size_t count, const char *what) {
    if (memcmp(got, averages[t] + first * types[t].f.size, count * types[t].f.size) == 0) return;
    for (size_t i = 0; i < count; i++) {
        uint64_t expected = at(t, averages[t], first + i);
        if (at(t, got, i) != expected) {
            FAIL("%s, type %d: element %zu is %#" PRIx64 ", not %#" PRIx64, what, types[t].type, i, at(t, got, i), expected);
        }
    }
}

/* Tells whether the call is served. An algorithm that was asked for may not serve it. */
static int served(pennyResult_t result) {
    if (result == pennyInvalidArgument && strstr(pennyGetLastError(NULL), "asks for") != NULL) return 0;
    if (result != pennySuccess) FAIL("%s", pennyGetLastError(NULL));
    return 1;
}

/* Every reduction; count elements a block. Returns how many calls were served. */
static int every_reduction(int t, int m, size_t count, pennyComm_t comm, pennyStream_t stream, const char *what) {
    pennyDataType_t type = types[t].type;
    size_t n = (size_t)ranks, counts[16], before = 0;
    int done = 0, root = t % ranks;
    fill(t, in[m], n * count);
    if (served(pennyAllReduce(in[m], out[m], count, type, pennyAvg, comm, stream))) {
        OK(pennyStreamSynchronize(stream));
        are_averages(t, out[m], 0, count, what);
        memcpy(out[m], in[m], count * types[t].f.size);
        OK(pennyAllReduce(out[m], out[m], count, type, pennyAvg, comm, stream));
        OK(pennyStreamSynchronize(stream));
        are_averages(t, out[m], 0, count, what);
        done++;
    }
    if (served(pennyReduce(in[m], rank == root ? out[m] : NULL, count, type, pennyAvg, root, comm, stream))) {
        OK(pennyStreamSynchronize(stream));
        if (rank == root) are_averages(t, out[m], 0, count, what);
        done++;
    }
    if (served(pennyReduceScatter(in[m], out[m], count, type, pennyAvg, comm, stream))) {
        OK(pennyStreamSynchronize(stream));
        are_averages(t, out[m], (size_t)rank * count, count, what);
        done++;
    }
    if (served(pennyReduceScatterPadded(in[m], out[m], n * count, type, pennyAvg, comm, stream))) {
        OK(pennyStreamSynchronize(stream));
        are_averages(t, out[m], (size_t)rank * count, count, what);
        done++;
    }
    for (size_t r = 0; r < n; r++) {
        counts[r] = r % 2 == 0 ? count : count / 2;
        if ((int)r < rank) before += counts[r];
    }
    if (served(pennyReduceScatterv(in[m], out[m], counts, type, pennyAvg, comm, stream))) {
        OK(pennyStreamSynchronize(stream));
        are_averages(t, out[m], before, counts[rank], what);
        done++;
    }
    return done;
}

static void every_way_has_the_bits_of_the_reference(void) {
    pennyComm_t comm = join();
    pennyStream_t stream, streams[2];
    void *handles[2];
    static const size_t counts[] = {1, 37, LONGEST};
    OK(pennyStreamCreate(&stream));
    OK(pennyCommRegister(comm, in[2], ROOM * 8, &handles[0]));
    OK(pennyCommRegister(comm, out[2], ROOM * 8, &handles[1]));
    streams[0] = NULL, streams[1] = stream;
    for (int t = 0; t < TYPES; t++)
        for (int m = 0; m < 3; m++)
            for (int s = 0; s < 2; s++)
                for (int c = 0; c < 3; c++)
                    CHECK_INT(every_reduction(t, m, counts[c], comm, streams[s], s ? "on a stream" : "blocking"), 5);
    for (int t = 0; t < TYPES; t++) {
        size_t n = (size_t)ranks, far = 8 * LONGEST;
        fill(t, in[0], n * LONGEST);
        OK(pennyGroupStart());
        OK(pennyAllReduce(in[0], out[0], LONGEST, types[t].type, pennyAvg, comm, NULL));
        OK(pennyReduceScatter(in[0], out[0] + far, LONGEST, types[t].type, pennyAvg, comm, NULL));
        OK(pennyGroupEnd());
        are_averages(t, out[0], 0, LONGEST, "in a group");
        are_averages(t, out[0] + far, (size_t)rank * LONGEST, LONGEST, "in a group");
    }
    OK(pennyCommDeregister(comm, handles[0]));
    OK(pennyCommDeregister(comm, handles[1]));
    OK(pennyStreamDestroy(stream));
    OK(pennyCommDestroy(comm));
}

/* Calls a function with a communicator of each algorithm that TEST_ALGORITHMS names. */
static void with_every_algorithm(void (*run)(pennyComm_t comm, const char *name)) {
    char *names = strdup(getenv("TEST_ALGORITHMS")), *rest = names, *name;
    while ((name = strtok_r(rest, " ", &rest)) != NULL) {
        pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
        pennyComm_t comm;
        config.algo = name;
        OK(pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
        run(comm, name);
        OK(pennyCommDestroy(comm));
    }
    free(names);
}

static int calls;

static void by_algorithm(pennyComm_t comm, const char *name) {
    for (int t = 0; t < TYPES; t++)
        for (int m = 0; m < 2; m++) {
            calls += every_reduction(t, m, 37, comm, NULL, name);
            calls += every_reduction(t, m, LONGEST, comm, NULL, name);
        }
}

static void every_algorithm_has_the_bits_of_the_reference(void) {
    calls = 0;
    with_every_algorithm(by_algorithm);
    /* one_shot alone serves all 5 calls, of two lengths and in memory of both kinds. */
    CHECK(calls >= TYPES * 2 * 2 * 5 * (strchr(getenv("TEST_ALGORITHMS"), ' ') == NULL ? 1 : 2));
}

/* An average is the sum of inputs scaled by 1/n, for any bits. Each algorithm adds up in an order of its own. */
static void scaled(pennyComm_t comm, const char *name) {
    for (int t = 0; t < TYPES; t++) {
        pennyRedOp_t op;
        uint64_t factor = one_nth(types[t].f, ranks);
        for (size_t i = 0; i < LONGEST; i++) put(t, in[0], i, noise(i * 64 + (size_t)rank + 7));
        if (!served(pennyAllReduce(in[0], out[0], LONGEST, types[t].type, pennyAvg, comm, NULL))) return;
        OK(pennyRedOpCreatePreMulSum(&op, &factor, types[t].type, pennyScalarHostImmediate, comm));
        OK(pennyAllReduce(in[0], out[1], LONGEST, types[t].type, op, comm, NULL));
        OK(pennyRedOpDestroy(op, comm));
        for (size_t i = 0; i < LONGEST; i++) {
            if (at(t, out[0], i) == at(t, out[1], i)) continue;
            FAIL("%s, type %d: element %zu is %#" PRIx64 ", and of the scaled sum %#" PRIx64, name, types[t].type, i,
                 at(t, out[0], i), at(t, out[1], i));
        }
    }
}

static void an_average_is_a_sum_of_scaled_inputs(void) { with_every_algorithm(scaled); }

/* The sums of these are beyond the type, their averages are not. */
static void large(pennyComm_t comm, const char *name) {
    for (int t = 0; t < TYPES; t++) {
        double x = 0.75 * value_of(types[t].f, types[t].f.most), off = x * ldexp(ranks, -types[t].f.mantissa - 1);
        uint64_t bits = nearest(types[t].f, x);
        for (size_t i = 0; i < 100; i++) put(t, in[0], i, bits);
        if (!served(pennyAllReduce(in[0], out[0], 100, types[t].type, pennyAvg, comm, NULL))) return;
        for (size_t i = 0; i < 100; i++) {
            CHECK(at(t, out[0], i) <= types[t].f.most);
            if (fabs(value_of(types[t].f, at(t, out[0], i)) - x) > off) FAIL("%s, type %d: %g", name, types[t].type, value_of(types[t].f, at(t, out[0], i)));
        }
    }
}

static void no_average_of_numbers_is_infinite(void) { with_every_algorithm(large); }

static void saturated(pennyComm_t comm, const char *name) {
    static const uint8_t infinite[] = {0x7c, 0xfc}, most[] = {0x7b, 0xfb};
    static const pennyRedOp_t ops[] = {pennySum, pennyAvg, pennyMax, pennyMin};
    for (int sign = 0; sign < 2; sign++)
        for (int k = 0; k < 4; k++) {
            put(LAST_FLOAT8, in[0], 0, infinite[sign]);
            if (!served(pennyAllReduce(in[0], out[0], 1, pennyFloat8e5m2, ops[k], comm, NULL))) return;
            if (ranks > 1 && at(LAST_FLOAT8, out[0], 0) != most[sign]) FAIL("%s, op %d: %#x", name, ops[k], (unsigned)out[0][0] & 255);
        }
    for (int t = FIRST_FLOAT8; t <= LAST_FLOAT8; t++) {
        put(t, in[0], 0, types[t].f.most);
        put(t, in[0], 1, types[t].f.most | 0x80);
        OK(pennyAllReduce(in[0], out[0], 2, types[t].type, pennySum, comm, NULL));
        CHECK_INT(at(t, out[0], 0), types[t].f.most);
        CHECK_INT(at(t, out[0], 1), types[t].f.most | 0x80);
    }
}

static void float8_saturates(void) { with_every_algorithm(saturated); }

int main(void) {
    begin();
    compute();
    for (int m = 0; m < 3; m++) {
        if (m == 1) {
            OK(pennyMemAlloc((void **)&in[m], ROOM * 8));
            OK(pennyMemAlloc((void **)&out[m], ROOM * 8));
        } else {
            in[m] = malloc(ROOM * 8);
            out[m] = malloc(ROOM * 8);
        }
    }
    RUN(every_way_has_the_bits_of_the_reference);
    RUN(every_algorithm_has_the_bits_of_the_reference);
    RUN(an_average_is_a_sum_of_scaled_inputs);
    RUN(no_average_of_numbers_is_infinite);
    RUN(float8_saturates);
    OK(pennyMemFree(in[1]));
    OK(pennyMemFree(out[1]));
    return 0;
}
