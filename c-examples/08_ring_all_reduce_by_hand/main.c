/* An all-reduce written by hand over puts with signals: a ring for large buffers, a simple ring for small ones. */
#include <penny.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                              \
    do {                                                       \
        if ((call) != pennySuccess) {                          \
            fprintf(stderr, "%s\n", pennyGetLastError(NULL)); \
            exit(1);                                           \
        }                                                      \
    } while (0)

static pennyComm_t comm;
static int rank, ranks, next;

/* How one rank hears from the one before it. The symmetric parts are the same on all ranks. */
typedef struct {
    uint32_t *slots; /* symmetric: where messages land, one after the other, and again from the front */
    size_t each;     /* elements of a slot */
    int count;       /* slots */
    uint64_t *stage; /* symmetric: messages that have landed; only the rank before writes it */
    uint64_t sent, taken;
} channel_t;

static channel_t channel(int count, size_t each) {
    channel_t c = {.each = each, .count = count};
    TRY(pennyShmemMalloc((void **)&c.slots, (size_t)count * each * sizeof *c.slots, comm));
    TRY(pennyShmemCalloc((void **)&c.stage, 1, sizeof *c.stage, comm));
    return c;
}

static void close_channel(channel_t *c) {
    TRY(pennyShmemFree(c->stage, comm));
    TRY(pennyShmemFree(c->slots, comm));
}

static uint32_t *slot(const channel_t *c, uint64_t message) { return c->slots + message % (uint64_t)c->count * c->each; }

/*
 * The signal is set, not added to: this rank is the only one that writes it, and knows what it becomes. The fence keeps the
 * messages in order: the next rank takes message 4 for landed as soon as it sees message 5.
 */
static void send(channel_t *c, const uint32_t *from, size_t n) {
    uint32_t *to = slot(c, c->sent++);
    TRY(pennyShmemFence(comm));
    TRY(pennyShmemPutMemSignalNbi(to, from, n * sizeof *from, c->stage, c->sent, PENNY_SIGNAL_SET, next, comm));
}

/* At least, not equal: the rank before may have sent the next message by the time this one is looked for. */
static const uint32_t *receive(channel_t *c) {
    const uint32_t *landed = slot(c, c->taken++);
    TRY(pennyShmemSignalWaitUntil(NULL, c->stage, PENNY_CMP_GE, c->taken, comm));
    return landed;
}

static void add(uint32_t *to, const uint32_t *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] += from[i];
}

/* Chunk c of `ranks` chunks; they differ by at most one element, and may be empty. */
static size_t begin(int c, size_t count) { return count * (size_t)c / (size_t)ranks; }
static size_t length(int c, size_t count) { return begin(c + 1, count) - begin(c, count); }
static int before(int c) { return (c + ranks - 1) % ranks; }

/*
 * Ring: chunk c begins at rank c and gains a contribution at each hop; after n - 1 hops it is whole, and n - 1 hops more
 * take it to everybody. No rank ever sends more than 2 (n - 1) / n of the buffer.
 *
 * n slots are enough, and need no acknowledgement. A rank sends message m after it has taken message m - 1, which the rank
 * before it sent after taking m - 2, and so on round the ring: when the rank before this one sends message m, this one has
 * sent message m - n + 1, so it has taken message m - n, whose slot m lands in. That holds from call to call as well. With
 * n - 1 slots a message might fall on one that is still being read.
 */
static void ring(channel_t *c, uint32_t *data, size_t count) {
    int chunk = rank;
    for (int hop = 1; hop < ranks; hop++) {
        send(c, data + begin(chunk, count), length(chunk, count));
        chunk = before(chunk);
        add(data + begin(chunk, count), receive(c), length(chunk, count));
    }
    /* A chunk comes back when it has been to everybody, so what was sent of it has been read. */
    for (int hop = 1; hop < ranks; hop++) {
        send(c, data + begin(chunk, count), length(chunk, count));
        chunk = before(chunk);
        memcpy(data + begin(chunk, count), receive(c), length(chunk, count) * sizeof *data);
    }
    TRY(pennyShmemQuiet(comm)); /* the caller may now write to data */
}

/*
 * Simple ring: the whole buffer goes round once from rank 0 to the last, gaining contributions, and the result once more
 * as far as it is needed. Each rank sends two messages at most: where messages are small, their number is what costs.
 *
 * Two slots are enough: partial sums land in one, results in the other. With one, rank 0, which is done when it has passed
 * the result on, might put the next call's data on a result that rank 1 still copies. The next result cannot come so early,
 * for it needs what each rank adds after it has taken this one.
 * Messages take the slots in turn, which comes to that: the last rank hears partial sums only, and rank 0 results only.
 */
static void simple_ring(channel_t *c, uint32_t *data, size_t count) {
    const int last = ranks - 1;
    if (rank > 0) add(data, receive(c), count);
    if (last > 0) send(c, data, count);
    if (rank < last) {
        /* There is a result, so what was sent of data has been read. */
        memcpy(data, receive(c), count * sizeof *data);
        if (rank < last - 1) send(c, data, count);
    }
    TRY(pennyShmemQuiet(comm));
}

/* Some number that depends on all three. */
static uint32_t element(int of, int call, size_t i) {
    uint32_t x = (uint32_t)of * 2654435761u + (uint32_t)call * 40503u + (uint32_t)i;
    x = (x ^ x >> 15) * 2246822519u;
    return x ^ x >> 13;
}

enum { CALLS = 8 };

/* Calls back to back, without anything between them that would let a slow rank catch up; then they are compared. */
static void compare(const char *what, void (*all_reduce)(channel_t *, uint32_t *, size_t), int slots, int chunks) {
    static const size_t counts[] = {1, 2, 7, 1000, 100003};
    long long wrong = 0;
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        size_t count = counts[k];
        uint32_t *data = malloc(CALLS * count * sizeof *data), *expected = malloc(count * sizeof *expected);
        if (data == NULL || expected == NULL) exit(1);
        for (size_t i = 0; i < CALLS * count; i++) data[i] = element(rank, (int)(i / count), i % count);
        channel_t c = channel(slots, (count + (size_t)chunks - 1) / (size_t)chunks);
        for (int call = 0; call < CALLS; call++) all_reduce(&c, data + (size_t)call * count, count);
        for (int call = 0; call < CALLS; call++) {
            for (size_t i = 0; i < count; i++) expected[i] = element(rank, call, i);
            TRY(pennyAllReduce(expected, expected, count, pennyUint32, pennySum, comm, NULL));
            wrong += memcmp(expected, data + (size_t)call * count, count * sizeof *expected) != 0;
        }
        close_channel(&c);
        free(data);
        free(expected);
    }
    TRY(pennyAllReduce(&wrong, &wrong, 1, pennyInt64, pennySum, comm, NULL));
    if (rank == 0) {
        printf("%-12s 1, 2, 7, 1000, 100003 elements, %d calls each: %lld differ from pennyAllReduce\n", what, CALLS, wrong);
    }
    if (wrong != 0) exit(1);
}

int main(void) {
    TRY(pennyCommInitFromEnv(&comm, NULL));
    TRY(pennyCommUserRank(comm, &rank));
    TRY(pennyCommCount(comm, &ranks));
    TRY(pennyShmemInit(comm));
    next = (rank + 1) % ranks;

    compare("ring", ring, ranks, ranks);
    compare("simple ring", simple_ring, 2, 1);

    TRY(pennyShmemFinalize(comm));
    TRY(pennyCommDestroy(comm));
    return 0;
}
