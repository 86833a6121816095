/* The loop's calls over MPI: any of Open MPI, MPICH and Intel MPI.
 *
 * An error needs no check: MPI's default handler ends every rank with a sentence. */
#ifndef OVER_MPI_H
#define OVER_MPI_H

#include <mpi.h>
#include <stddef.h>
#include <string.h>

static void comm_start(int *argc, char ***argv, int *rank, int *ranks) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, ranks);
}

static void comm_finish(void) { MPI_Finalize(); }

static void comm_abort(void) { MPI_Abort(MPI_COMM_WORLD, 1); }

/* The first line of the library's own description of itself. */
static const char *comm_version(void) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* What MPI_Alloc_mem returns is no faster in a collective, in any of the three, than ordinary memory. */
static float *heap_new(size_t bytes) { (void)bytes; return NULL; }
static void heap_free(float *buffer) { (void)buffer; }

/* MPI registers by itself what it wants to. */
static void *registration_new(float *buffer, size_t bytes) { return (void)buffer, (void)bytes, NULL; }
static void registration_free(void *handle) { (void)handle; }

static double slowest(double mine) {
    double all;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void all_reduce(const float *in, float *out, int count) {
    MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce(const float *in, float *out, int count) {
    MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void broadcast(float *buffer, int count) { MPI_Bcast(buffer, count, MPI_FLOAT, 0, MPI_COMM_WORLD); }

static void all_gather(const float *in, float *out, int count) {
    MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void reduce_scatter(const float *in, float *out, int count) {
    MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(const float *in, float *out, int count) {
    MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void gather(const float *in, float *out, int count) {
    MPI_Gather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void scatter(const float *in, float *out, int count) {
    MPI_Scatter(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void send(const float *buffer, int count, int to) {
    MPI_Send(buffer, count, MPI_FLOAT, to, 0, MPI_COMM_WORLD);
}

static void receive(float *buffer, int count, int from) {
    MPI_Recv(buffer, count, MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

#endif
