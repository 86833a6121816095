/* One measuring loop for every library: only the header with its calls differs.
 *
 *     loop COLLECTIVE private|heap|registered reused|dirty|fresh BUDGET_MS BYTES...
 *
 * Prints `library VERSION`, then `point BYTES MICROSECONDS CALLS` for each size. For each size:
 *
 *     allocate and write the buffers                        cold pages stay out of the time
 *     call until the time of one call is known              the slowest rank's, so every rank chooses the same k
 *     verify                                                a wrong result ends the program
 *     BATCHES times: barrier, k calls, slowest rank's mean
 *     verify again; the time is the median batch's
 *
 * Calls of a batch follow each other at once, so a rooted collective may overlap the next one. With `dirty`
 * the inputs are rewritten before every call, and each call is synchronised and timed alone. With `fresh` calls follow each
 * other, and each rank writes its input before and reads its output behind every call, within the time: what a library leaves the
 * program's own accesses to cost counts.
 *
 * BYTES is the larger of a rank's two buffers, as nccl-tests counts it: a rank's part in an all-gather,
 * reduce-scatter, all-to-all, gather or scatter is BYTES / ranks, rounded up to a whole element. */
#if defined(WITH_PENNY)
#include "over_penny.h"
#elif defined(WITH_MPI)
#include "over_mpi.h"
#else
#error "compile with -DWITH_PENNY or -DWITH_MPI"
#endif

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 9, PATTERN = 61, PAGE = 4096 };

static int rank, ranks;

/* ---- The collectives, and what each leaves where ---- */

/* MPI has no broadcast out of place, so there is one buffer: the root's input, the others' output. */
static void broadcast_one_buffer(const float *in, float *out, int part) {
    broadcast(rank == 0 ? (float *)in : out, part);
}

static void barrier_without_buffers(const float *in, float *out, int part) {
    (void)in, (void)out, (void)part;
    barrier();
}

/* There and back: rank 1 returns what it received. */
static void pingpong(const float *in, float *out, int part) {
    if (rank == 0) {
        send(in, part, 1);
        receive(out, part, 1);
    } else {
        receive(out, part, 0);
        send(out, part, 0);
    }
}

enum buffer { ONE_PART, PART_A_RANK };
enum content { SUM, SENDERS, ROOTS }; /* part p of the output: all ranks' sum, rank p's values, or the root's */
enum origin { FROM_START, FROM_MY_PART }; /* ... taken from there in the input */
enum holder { EVERY_RANK, ROOT, OTHERS };

static const struct collective {
    const char *name;
    void (*call)(const float *in, float *out, int part);
    enum buffer in, out;
    enum content content;
    enum origin origin;
    enum holder holder;
    int in_place; /* the output is the input, which every call therefore changes: its sums grow until they are infinite */
} collectives[] = {
    {"all_reduce",     all_reduce,              ONE_PART,    ONE_PART,    SUM,     FROM_START,   EVERY_RANK, 0},
    {"all_reduce_in_place", all_reduce,         ONE_PART,    ONE_PART,    SUM,     FROM_START,   EVERY_RANK, 1},
    {"reduce",         reduce,                  ONE_PART,    ONE_PART,    SUM,     FROM_START,   ROOT, 0},
    {"broadcast",      broadcast_one_buffer,    ONE_PART,    ONE_PART,    ROOTS,   FROM_START,   OTHERS, 0},
    {"all_gather",     all_gather,              ONE_PART,    PART_A_RANK, SENDERS, FROM_START,   EVERY_RANK, 0},
    {"reduce_scatter", reduce_scatter,          PART_A_RANK, ONE_PART,    SUM,     FROM_MY_PART, EVERY_RANK, 0},
    {"alltoall",       alltoall,                PART_A_RANK, PART_A_RANK, SENDERS, FROM_MY_PART, EVERY_RANK, 0},
    {"gather",         gather,                  ONE_PART,    PART_A_RANK, SENDERS, FROM_START,   ROOT, 0},
    {"scatter",        scatter,                 PART_A_RANK, ONE_PART,    ROOTS,   FROM_MY_PART, EVERY_RANK, 0},
    {"barrier",        barrier_without_buffers, ONE_PART,    ONE_PART,    ROOTS,   FROM_START,   EVERY_RANK, 0},
    {"pingpong",       pingpong,                ONE_PART,    ONE_PART,    ROOTS,   FROM_START,   EVERY_RANK, 0},
};

/* ---- Values whose sums are exact: element j of rank r is (r + 1) * (1 + j % PATTERN) ---- */

static void write_values(float *buffer, size_t count, float factor) {
    for (size_t j = 0, k = 0; j < count; j++) {
        buffer[j] = factor * (float)(1 + k);
        k = k + 1 == PATTERN ? 0 : k + 1;
    }
}

/* The index of the first wrong element, or `count`. */
static size_t first_wrong(const float *buffer, size_t count, float factor, size_t origin) {
    size_t j = 0;
    for (size_t k = origin % PATTERN; j < count && buffer[j] == factor * (float)(1 + k); j++)
        k = k + 1 == PATTERN ? 0 : k + 1;
    return j;
}

static void verify(const struct collective *c, float *out, size_t part) {
    if (c->in_place) {
        write_values(out, part, (float)(rank + 1));
        c->call(out, out, (int)part);
    }
    if ((c->holder == ROOT && rank != 0) || (c->holder == OTHERS && rank == 0))
        return;
    size_t origin = c->origin == FROM_MY_PART ? rank * part : 0;
    for (int p = 0; p < (c->out == PART_A_RANK ? ranks : 1); p++) {
        float factor = c->content == SUM ? (float)ranks * (float)(ranks + 1) / 2
                     : c->content == SENDERS ? (float)(p + 1) : 1;
        size_t wrong = first_wrong(out + p * part, part, factor, origin);
        if (wrong < part) {
            fprintf(stderr, "%s: rank %d of %d has %g at element %zu of %zu, part %d\n", c->name, rank, ranks,
                    out[p * part + wrong], wrong, part, p);
            comm_abort();
        }
    }
}

/* ---- Time ---- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum inputs { REUSED, DIRTY, FRESH };

struct job {
    const struct collective *collective;
    float *in, *out;
    size_t part, in_count, out_count;
    enum inputs inputs;
    float *values; /* what a fresh input is copied from, which no peer reads */
};

/* One word of each cache line. */
static void read_lines(const float *buffer, size_t count) {
    for (size_t j = 0; j < count; j += 64 / sizeof(float))
        (void)*(volatile const float *)(buffer + j);
}

/* A call of a program that has computed its input and goes on with the output. */
static void call_between_accesses(const struct job *job) {
    const struct collective *c = job->collective;
    if (c->content != ROOTS || rank == 0)
        memcpy(job->in, job->values, job->in_count * sizeof(float));
    c->call(job->in, job->out, (int)job->part);
    if (c->holder == EVERY_RANK || (c->holder == ROOT) == (rank == 0))
        read_lines(job->out, job->out_count);
}

/* The slowest rank's mean time of a call, in seconds; the same number on all ranks. */
static double time_batch(const struct job *job, long calls) {
    double spent = 0;
    if (job->inputs == DIRTY) {
        for (long i = 0; i < calls; i++) {
            write_values(job->in, job->in_count, (float)(rank + 1));
            barrier();
            double start = now();
            job->collective->call(job->in, job->out, (int)job->part);
            spent += now() - start;
        }
    } else {
        barrier();
        double start = now();
        for (long i = 0; i < calls; i++)
            if (job->inputs == FRESH)
                call_between_accesses(job);
            else
                job->collective->call(job->in, job->out, (int)job->part);
        spent = now() - start;
    }
    return slowest(spent / (double)calls);
}

/* How many calls fit a batch of this length: more and more are tried until they fill half of one. The first
 * call sets up what the library sets up late, and the quickest try counts, lest one bad moment decide. */
static long calls_in(const struct job *job, double batch_s) {
    time_batch(job, 1);
    double quickest = batch_s;
    for (long calls = 1;; calls *= 2) {
        double start = now();
        time_batch(job, calls);
        double wall = slowest(now() - start);
        if (wall / (double)calls < quickest)
            quickest = wall / (double)calls;
        if (wall >= batch_s / 2 && calls > 1)
            return (long)(batch_s / quickest) > 1 ? (long)(batch_s / quickest) : 1;
    }
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum kind { PRIVATE, HEAP, REGISTERED };

struct memory {
    float *data;
    enum kind kind;
    void *handle;
};

static struct memory buffer_new(enum kind kind, size_t count) {
    size_t bytes = (count * sizeof(float) / PAGE + 1) * PAGE;
    struct memory buffer = {kind == HEAP ? heap_new(bytes) : aligned_alloc(PAGE, bytes), kind, NULL};
    if (!buffer.data) {
        fprintf(stderr, "rank %d: no %zu bytes of memory\n", rank, bytes);
        comm_abort();
    }
    if (kind == REGISTERED)
        buffer.handle = registration_new(buffer.data, bytes);
    return buffer;
}

static void buffer_free(struct memory *buffer) {
    if (buffer->kind == REGISTERED)
        registration_free(buffer->handle);
    buffer->kind == HEAP ? heap_free(buffer->data) : free(buffer->data);
}

static void measure(const struct collective *c, size_t bytes, enum kind kind, enum inputs inputs, double budget_s) {
    size_t parts = c->in == PART_A_RANK || c->out == PART_A_RANK ? (size_t)ranks : 1;
    size_t part = (bytes + parts * sizeof(float) - 1) / (parts * sizeof(float));
    if (part > INT_MAX) {
        fprintf(stderr, "%zu bytes are more than MPI counts\n", bytes);
        comm_abort();
    }
    size_t in_count = c->in == PART_A_RANK ? ranks * part : part;
    size_t out_count = c->out == PART_A_RANK ? ranks * part : part;
    struct memory in = buffer_new(kind, in_count), out = buffer_new(kind, out_count), values = buffer_new(PRIVATE, in_count);
    struct job job = {c, c->in_place ? out.data : in.data, out.data, part, in_count, out_count, inputs, values.data};
    write_values(job.out, out_count, 0);
    write_values(job.in, in_count, (float)(rank + 1));
    if (inputs == FRESH)
        write_values(job.values, in_count, (float)(rank + 1));

    long calls = calls_in(&job, budget_s / BATCHES);
    verify(c, job.out, part);
    double seconds[BATCHES];
    for (int i = 0; i < BATCHES; i++)
        seconds[i] = time_batch(&job, calls);
    verify(c, job.out, part);

    qsort(seconds, BATCHES, sizeof *seconds, by_size);
    if (rank == 0) {
        printf("point %zu %.4f %ld\n", bytes, seconds[BATCHES / 2] * 1e6, calls * BATCHES);
        fflush(stdout);
    }
    buffer_free(&in);
    buffer_free(&out);
    buffer_free(&values);
}

int main(int argc, char **argv) {
    comm_start(&argc, &argv, &rank, &ranks);
    const struct collective *chosen = NULL;
    for (size_t i = 0; argc > 5 && i < sizeof collectives / sizeof *collectives; i++)
        if (strcmp(argv[1], collectives[i].name) == 0)
            chosen = &collectives[i];
    if (!chosen) {
        fprintf(stderr, "usage: loop COLLECTIVE private|heap|registered reused|dirty|fresh BUDGET_MS BYTES...\n");
        comm_abort();
    }
    enum kind kind = strcmp(argv[2], "heap") == 0 ? HEAP : strcmp(argv[2], "registered") == 0 ? REGISTERED : PRIVATE;
    enum inputs inputs = strcmp(argv[3], "dirty") == 0 ? DIRTY : strcmp(argv[3], "fresh") == 0 ? FRESH : REUSED;
    if (rank == 0)
        printf("library %s\n", comm_version());
    for (int i = 5; i < argc; i++)
        measure(chosen, strtoull(argv[i], NULL, 10), kind, inputs, strtod(argv[4], NULL) * 1e-3);
    comm_finish();
    return 0;
}
