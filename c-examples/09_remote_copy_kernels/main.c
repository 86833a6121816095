/* Five kernels of remote copies and semaphores, after JAX's guide to distributed computing in Pallas for TPUs, and its
 * numbers. Four ranks lie in a mesh of 1 x 4, a ring. Arguments: names of kernels (default: all), --full. */
#include "uniform.h"

#include <penny.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(call)                                                        \
    do {                                                                 \
        if ((call) != pennySuccess) {                                    \
            fprintf(stderr, "rank %d: %s\n", me, pennyGetLastError(NULL)); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

enum { LEFT, RIGHT };
enum { WIDTH = 128, LARGE = 4096, TILE = 4 * LARGE };

static pennyComm_t comm;
static int me, ranks;

/* The neighbour to the left or to the right. */
static pennyDevice_t beside(int side) { return PENNY_MESH_DEVICE(0, (me + (side == LEFT ? ranks - 1 : 1)) % ranks); }

static pennySemaphore_t semaphores(pennySemaphoreKind_t kind, const char *name, int count) {
    pennySemaphore_t sem;
    TRY(pennySemaphoreCreate(comm, kind, name, count, &sem));
    return sem;
}

static float *symmetric(size_t count) {
    void *memory;
    TRY(pennyShmemMalloc(&memory, count * sizeof(float), comm));
    return memory;
}

/* No rank's memory is written before that rank has entered the kernel. */
static void meet_neighbours(void) {
    pennySemaphore_t barrier;
    TRY(pennyBarrierSemaphore(comm, 0, &barrier));
    TRY(pennySemaphoreSignal(barrier, 0, 1, beside(LEFT)));
    TRY(pennySemaphoreSignal(barrier, 0, 1, beside(RIGHT)));
    TRY(pennySemaphoreWait(barrier, 0, 2));
}

/* A copy within this rank, whose bytes sem counts. */
static pennyRemoteCopy_t local(float *dst, const float *src, size_t count, pennySemaphore_t sem, int index) {
    pennyRemoteCopy_t copy = {
        .src = src, .dst = dst, .bytes = count * sizeof(float), .recvSem = sem, .recvIndex = index, .device = PENNY_DEVICE(me)};
    return copy;
}

static void copy_here(float *dst, const float *src, size_t count, pennySemaphore_t sem) {
    pennyRemoteCopy_t copy = local(dst, src, count, sem, 0);
    TRY(pennyRemoteCopyStart(comm, &copy));
    TRY(pennyRemoteCopyWait(comm, &copy));
}

/* As NumPy does: with at most 8 decimals, and of these no more than tell it from the next number. */
static void show(float number) {
    char most[32], text[32];
    snprintf(most, sizeof most, "%.8f", (double)number);
    for (int decimals = 1; decimals <= 8; decimals++) {
        snprintf(text, sizeof text, "%.*f", decimals, (double)number);
        if (strtof(text, NULL) == strtof(most, NULL)) break;
    }
    printf(" %s", text);
}

/* Rank 0 prints some numbers of each rank, and by how much any rank's result is wrong. */
static void report(const char *kernel, const float *numbers, int count, double wrong) {
    float all[64];
    TRY(pennyAllGather(numbers, all, (size_t)count, pennyFloat, comm, NULL));
    TRY(pennyAllReduce(&wrong, &wrong, 1, pennyDouble, pennyMax, comm, NULL));
    if (me > 0) return;
    printf("%-20s", kernel);
    for (int i = 0; i < count * ranks; i++) show(all[i]);
    printf("   %s\n", wrong <= 1e-6 ? "right" : "WRONG");
}

static double distance(double a, double b) { return a > b ? a - b : b - a; }

/* Each rank's shard, 8 x 128 of 8 x 512, goes to the rank on its right. */
static void right_permute(void) {
    enum { COUNT = 8 * WIDTH };
    pennySemaphore_t sent = semaphores(pennySemaphoreDma, "sent", 1), come = semaphores(pennySemaphoreDma, "come", 1);
    float input[COUNT], *output = symmetric(COUNT);
    uint64_t columns = (uint64_t)WIDTH * ranks, from = (me + ranks - 1) % ranks;
    for (uint64_t i = 0; i < COUNT; i++) input[i] = uniform(i / WIDTH * columns + me * WIDTH + i % WIDTH, 8 * columns);

    pennyRemoteCopy_t copy = {input, output, sizeof input, sent, 0, come, 0, beside(RIGHT)};
    TRY(pennyRemoteCopyStart(comm, &copy));
    TRY(pennyRemoteCopyWait(comm, &copy));

    double wrong = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        wrong += output[i] != uniform(i / WIDTH * columns + from * WIDTH + i % WIDTH, 8 * columns);
    }
    report("right_permute", output, 1, wrong);
    TRY(pennySemaphoreDestroy(sent));
    TRY(pennySemaphoreDestroy(come));
    TRY(pennyShmemFree(output, comm));
}

/* Everybody's 8 x 128: at each step the block that came last goes on to the right. A fast left neighbour may send the next
 * one before this rank has awaited the last, so each step has a semaphore of its own. */
static void all_gather(void) {
    enum { BLOCK = 8 * WIDTH };
    pennySemaphore_t sent = semaphores(pennySemaphoreDma, "sent", 1);
    pennySemaphore_t come = semaphores(pennySemaphoreDma, "come", ranks - 1);
    uint64_t total = (uint64_t)BLOCK * ranks;
    float *output = symmetric(total), input[BLOCK], first[4];
    for (uint64_t i = 0; i < BLOCK; i++) input[i] = uniform(me * BLOCK + i, total);

    copy_here(output + me * BLOCK, input, BLOCK, sent);
    for (int step = 0; step < ranks - 1; step++) {
        float *block = output + (me - step + ranks) % ranks * BLOCK;
        pennyRemoteCopy_t copy = {block, block, BLOCK * sizeof(float), sent, 0, come, step, beside(RIGHT)};
        TRY(pennyRemoteCopyStart(comm, &copy));
        TRY(pennyRemoteCopyWait(comm, &copy));
    }

    double wrong = 0;
    for (uint64_t i = 0; i < total; i++) wrong += output[i] != uniform(i, total);
    for (int r = 0; r < ranks; r++) first[r] = output[r * BLOCK];
    report("all_gather", first, ranks, wrong);
    TRY(pennySemaphoreDestroy(sent));
    TRY(pennySemaphoreDestroy(come));
    TRY(pennyShmemFree(output, comm));
}

/* A way through the ring with two slots on each rank: the copy of trip t lands in slot t % 2, where trip t - 2 landed. So from
 * the third on it must wait until that one has been used and passed on, which its rank tells through `capacity`.
 *
 *     trip 0   input  -> slot 0 of the neighbour         each rank:  begin, use what the trip before has brought, finish
 *     trip 1   slot 0 -> slot 1
 *     trip 2   slot 1 -> slot 0, once there is capacity */
struct lane {
    int towards;
    const float *input;
    float *slots[2];
    size_t count;
    pennySemaphore_t sent, come, capacity;
    pennyRemoteCopy_t copy;
};

static struct lane lane(int towards, const float *input, float *slots, size_t apart, size_t count) {
    const char *names[2][3] = {{"left sent", "left come", "left capacity"}, {"right sent", "right come", "right capacity"}};
    struct lane lane = {.towards = towards, .input = input, .slots = {slots, slots + apart}, .count = count};
    lane.sent = semaphores(pennySemaphoreDma, names[towards][0], 1);
    lane.come = semaphores(pennySemaphoreDma, names[towards][1], 1);
    lane.capacity = semaphores(pennySemaphoreRegular, names[towards][2], 1);
    return lane;
}

static void begin(struct lane *lane, int trip) {
    if (trip >= 2) TRY(pennySemaphoreWait(lane->capacity, 0, 1));
    pennyRemoteCopy_t copy = {
        .src = trip == 0 ? lane->input : lane->slots[(trip - 1) % 2],
        .dst = lane->slots[trip % 2],
        .bytes = lane->count * sizeof(float),
        .sendSem = lane->sent,
        .recvSem = lane->come,
        .device = beside(lane->towards),
    };
    lane->copy = copy;
    TRY(pennyRemoteCopyStart(comm, &lane->copy));
}

static void finish(struct lane *lane, int trip) {
    TRY(pennyRemoteCopyWait(comm, &lane->copy));
    /* What trip - 1 has brought is used and passed on: trip + 1 may take its place. */
    if (trip >= 1 && trip + 1 < ranks) {
        TRY(pennySemaphoreSignal(lane->capacity, 0, 1, beside(lane->towards == LEFT ? RIGHT : LEFT)));
    }
}

static void end(struct lane *lane) {
    TRY(pennySemaphoreDestroy(lane->sent));
    TRY(pennySemaphoreDestroy(lane->come));
    TRY(pennySemaphoreDestroy(lane->capacity));
}

/* The sum of all shards, 8 x 128 of 8 x 512, on every rank: everybody's input goes round to the right, and each rank adds what
 * comes by. */
static void all_reduce(void) {
    enum { COUNT = 8 * WIDTH };
    float input[COUNT], output[COUNT] = {0}, received[COUNT], *slots = symmetric(2 * COUNT);
    pennySemaphore_t fetched = semaphores(pennySemaphoreDma, "fetched", 1);
    struct lane way = lane(RIGHT, input, slots, COUNT, COUNT);
    uint64_t columns = (uint64_t)WIDTH * ranks;
    for (uint64_t i = 0; i < COUNT; i++) input[i] = uniform(i / WIDTH * columns + me * WIDTH + i % WIDTH, 8 * columns);

    meet_neighbours();
    for (int trip = 0; trip <= ranks; trip++) {
        if (trip < ranks) begin(&way, trip);
        if (trip > 0) {
            copy_here(received, way.slots[(trip - 1) % 2], COUNT, fetched);
            for (int i = 0; i < COUNT; i++) output[i] += received[i];
        }
        if (trip < ranks) finish(&way, trip);
    }

    double wrong = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double sum = 0;
        for (int r = 0; r < ranks; r++) sum += uniform(i / WIDTH * columns + r * WIDTH + i % WIDTH, 8 * columns);
        if (distance(sum, output[i]) > wrong) wrong = distance(sum, output[i]);
    }
    report("all_reduce", output, 1, wrong);
    end(&way);
    TRY(pennySemaphoreDestroy(fetched));
    TRY(pennyShmemFree(slots, comm));
}

/* Adds count numbers to a partial sum in a slot, through a memory that is small. `moved`: four semaphores for it. */
typedef void adder(float *slot, const float *own, size_t count, pennySemaphore_t moved);

static void add_at_once(float *slot, const float *own, size_t count, pennySemaphore_t moved) {
    static float sum[8 * WIDTH];
    copy_here(sum, slot, count, moved);
    for (size_t i = 0; i < count; i++) sum[i] += own[i];
    copy_here(slot, sum, count, moved);
}

/* The inner pipeline: while one tile is added to, the next is fetched and the one before is stored. */
static void add_by_tiles(float *slot, const float *own, size_t count, pennySemaphore_t moved) {
    static float tiles[2][TILE];
    size_t number = count / TILE;
    pennyRemoteCopy_t fetch[2], store[2];
    for (size_t k = 0; k <= number; k++) {
        size_t next = k % 2, now = 1 - next;
        if (k < number) {
            if (k >= 2) TRY(pennyRemoteCopyWait(comm, &store[next]));
            fetch[next] = local(tiles[next], slot + k * TILE, TILE, moved, (int)next);
            TRY(pennyRemoteCopyStart(comm, &fetch[next]));
        }
        if (k > 0) {
            TRY(pennyRemoteCopyWait(comm, &fetch[now]));
            for (size_t i = 0; i < TILE; i++) tiles[now][i] += own[(k - 1) * TILE + i];
            store[now] = local(slot + (k - 1) * TILE, tiles[now], TILE, moved, 2 + (int)now);
            TRY(pennyRemoteCopyStart(comm, &store[now]));
        }
    }
    for (size_t k = 0; k < 2 && k < number; k++) TRY(pennyRemoteCopyWait(comm, &store[k]));
}

/* The input of all ranks has `rows` rows for each of them and `width` columns of each. Of a rank's rows those in the middle
 * may be left out: `kept` counts the others. */
struct shape {
    size_t rows, width, kept;
};

/* The input's element in row i, of those kept, of a rank's rows, and column j of a rank's columns. */
static float element(const struct shape *s, size_t rows_of, size_t i, size_t columns_of, size_t j) {
    uint64_t row = rows_of * s->rows + (i < s->kept / 2 ? i : s->rows - s->kept + i), columns = s->width * ranks;
    return uniform(row * columns + columns_of * s->width + j, s->rows * ranks * columns);
}

/* Each rank has the sum of its rows over the ranks' columns in the end. Partial sums go round, the upper half of each block to
 * the left and the lower half to the right, so that both directions of every link are used; and while one travels, the
 * other is added to. */
static void reduce_scatter(const char *kernel, struct shape shape, adder *add) {
    size_t half = shape.kept / 2 * shape.width, block = 2 * half;
    float *input = malloc(block * ranks * sizeof *input), *slots = symmetric(2 * block), *output = malloc(block * sizeof *output);
    for (size_t k = 0; k < block * ranks; k++) {
        input[k] = element(&shape, k / block, k % block / shape.width, (size_t)me, k % shape.width);
    }
    pennySemaphore_t moved = semaphores(pennySemaphoreDma, "moved", 4);
    struct lane up = lane(LEFT, input + me * block, slots, block, half);
    struct lane down = lane(RIGHT, input + me * block + half, slots + half, block, half);

    meet_neighbours();
    for (int trip = 0; trip < ranks; trip++) {
        /* What comes from the right is for a rank further left, and the reverse. */
        const float *for_left = input + (me + trip + 1) % ranks * block;
        const float *for_right = input + (me - trip + ranks) % ranks * block + half;
        begin(&up, trip);
        if (trip > 0) add(down.slots[(trip - 1) % 2], for_right, half, moved);
        finish(&up, trip);
        begin(&down, trip);
        if (trip < ranks - 1) add(up.slots[trip % 2], for_left, half, moved);
        finish(&down, trip);
    }
    copy_here(output, up.slots[(ranks - 1) % 2], half, moved);
    copy_here(output + half, down.slots[(ranks - 1) % 2], half, moved);

    double wrong = 0;
    for (size_t k = 0; k < block; k++) {
        double sum = 0;
        for (int r = 0; r < ranks; r++) sum += element(&shape, (size_t)me, k / shape.width, (size_t)r, k % shape.width);
        if (distance(sum, output[k]) > wrong) wrong = distance(sum, output[k]);
    }
    float shown[6]; /* the first number of every fourth row, of many the first three and the last three */
    size_t fourths = shape.kept / 4, show = fourths < 6 ? fourths : 6;
    for (size_t i = 0; i < show; i++) shown[i] = output[(i < 3 ? i : fourths - show + i) * 4 * shape.width];
    report(kernel, shown, (int)show, wrong);
    end(&up);
    end(&down);
    TRY(pennySemaphoreDestroy(moved));
    TRY(pennyShmemFree(slots, comm));
    free(input);
    free(output);
}

static int asked_for(const char *what, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], what) == 0) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    int full = asked_for("--full", argc, argv), all = argc == 1 + full;
    TRY(pennyCommInitFromEnv(&comm, NULL));
    TRY(pennyCommUserRank(comm, &me));
    TRY(pennyCommCount(comm, &ranks));
    if (ranks < 2 || ranks > 4) {
        if (me == 0) fprintf(stderr, "run this on 2 to 4 ranks; the guide's numbers are those of 4\n");
        return 1;
    }
    TRY(pennyShmemInit(comm));
    TRY(pennyMesh(comm, 2, (int[]){1, ranks}));

    if (all || asked_for("right_permute", argc, argv)) right_permute();
    if (all || asked_for("all_gather", argc, argv)) all_gather();
    if (all || asked_for("all_reduce", argc, argv)) all_reduce();
    if (all || asked_for("reduce_scatter", argc, argv)) {
        reduce_scatter("reduce_scatter", (struct shape){16, WIDTH, 16}, add_at_once);
    }
    if (all || asked_for("large_reduce_scatter", argc, argv)) {
        reduce_scatter("large_reduce_scatter", (struct shape){LARGE, LARGE, full ? LARGE : 128}, add_by_tiles);
    }

    /* The end of the communicator is an error if any semaphore is not 0. */
    TRY(pennyCommDestroy(comm));
    return 0;
}
