/* The loop's calls over Penny. */
#ifndef OVER_PENNY_H
#define OVER_PENNY_H

#include <penny.h>
#include <stdio.h>
#include <stdlib.h>

static pennyComm_t comm;

/* Ends this rank with Penny's sentence; the launcher then ends the others. */
#define MUST(call)                                                                       \
    do {                                                                                 \
        if ((call) != pennySuccess) {                                                    \
            fprintf(stderr, "%s: %s\n", #call, pennyGetLastError(comm));                 \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

static void comm_start(int *argc, char ***argv, int *rank, int *ranks) {
    (void)argc, (void)argv;
    MUST(pennyCommInitFromEnv(&comm, NULL));
    MUST(pennyCommUserRank(comm, rank));
    MUST(pennyCommCount(comm, ranks));
}

static void comm_finish(void) { MUST(pennyCommDestroy(comm)); }

static void comm_abort(void) { exit(1); }

static const char *comm_version(void) {
    static char text[64];
    int version;
    MUST(pennyGetVersion(&version));
    snprintf(text, sizeof text, "Penny %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return text;
}

static float *heap_new(size_t bytes) {
    void *buffer;
    MUST(pennyMemAlloc(&buffer, bytes));
    return buffer;
}

static void heap_free(float *buffer) { MUST(pennyMemFree(buffer)); }

static void *registration_new(float *buffer, size_t bytes) {
    void *handle;
    MUST(pennyCommRegister(comm, buffer, bytes, &handle));
    return handle;
}

static void registration_free(void *handle) { MUST(pennyCommDeregister(comm, handle)); }

static double slowest(double mine) {
    double all;
    MUST(pennyAllReduce(&mine, &all, 1, pennyFloat64, pennyMax, comm, NULL));
    return all;
}

static void barrier(void) { MUST(pennyBarrier(comm, NULL)); }

static void all_reduce(const float *in, float *out, int count) {
    MUST(pennyAllReduce(in, out, count, pennyFloat32, pennySum, comm, NULL));
}

static void reduce(const float *in, float *out, int count) {
    MUST(pennyReduce(in, out, count, pennyFloat32, pennySum, 0, comm, NULL));
}

static void broadcast(float *buffer, int count) { MUST(pennyBcast(buffer, count, pennyFloat32, 0, comm, NULL)); }

static void all_gather(const float *in, float *out, int count) {
    MUST(pennyAllGather(in, out, count, pennyFloat32, comm, NULL));
}

static void reduce_scatter(const float *in, float *out, int count) {
    MUST(pennyReduceScatter(in, out, count, pennyFloat32, pennySum, comm, NULL));
}

static void alltoall(const float *in, float *out, int count) {
    MUST(pennyAlltoAll(in, out, count, pennyFloat32, comm, NULL));
}

static void gather(const float *in, float *out, int count) {
    MUST(pennyGather(in, out, count, pennyFloat32, 0, comm, NULL));
}

static void scatter(const float *in, float *out, int count) {
    MUST(pennyScatter(in, out, count, pennyFloat32, 0, comm, NULL));
}

static void send(const float *buffer, int count, int to) {
    MUST(pennySend(buffer, count, pennyFloat32, to, comm, NULL));
}

static void receive(float *buffer, int count, int from) {
    MUST(pennyRecv(buffer, count, pennyFloat32, from, comm, NULL));
}

#endif
