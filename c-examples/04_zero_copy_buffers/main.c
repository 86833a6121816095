/* Shareable memory: the same call on memory of malloc and on memory that the other ranks can reach. */
#include <penny.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TRY(call)                                              \
    do {                                                       \
        if ((call) != pennySuccess) {                          \
            fprintf(stderr, "%s\n", pennyGetLastError(NULL)); \
            exit(1);                                           \
        }                                                      \
    } while (0)

enum { COUNT = 1 << 20, CALLS = 20 };

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Sums `in` over all ranks into `out` a few times; the shortest time, or stops if the sum is wrong. */
static double measure(const char *what, float *in, float *out, int rank, int ranks, pennyComm_t comm) {
    double best = 1e9;
    for (int i = 0; i < COUNT; i++) in[i] = (float)(rank + i % 1000);
    for (int call = 0; call < CALLS; call++) {
        TRY(pennyBarrier(comm, NULL));
        double begin = seconds();
        TRY(pennyAllReduce(in, out, COUNT, pennyFloat, pennySum, comm, NULL));
        double took = seconds() - begin;
        if (took < best) best = took;
    }
    for (int i = 0; i < COUNT; i++) {
        if (out[i] != (float)(ranks * (ranks - 1) / 2 + ranks * (i % 1000))) {
            printf("%s: element %d is wrong\n", what, i);
            exit(1);
        }
    }
    if (rank == 0) printf("%s: the sum is right\n", what);
    return best;
}

int main(void) {
    pennyComm_t comm;
    int rank, ranks;
    float *in, *out;

    TRY(pennyCommInitFromEnv(&comm, NULL));
    TRY(pennyCommUserRank(comm, &rank));
    TRY(pennyCommCount(comm, &ranks));

    in = malloc(COUNT * sizeof *in);
    out = malloc(COUNT * sizeof *out);
    if (in == NULL || out == NULL) return 1;
    double plain = measure("malloc", in, out, rank, ranks, comm);
    free(in);
    free(out);

    /* The only change: where the buffers come from. */
    TRY(pennyMemAlloc((void **)&in, COUNT * sizeof *in));
    TRY(pennyMemAlloc((void **)&out, COUNT * sizeof *out));
    double shared = measure("pennyMemAlloc", in, out, rank, ranks, comm);
    TRY(pennyMemFree(in));
    TRY(pennyMemFree(out));

    if (rank == 0) fprintf(stderr, "4 MiB: malloc %.0f us, pennyMemAlloc %.0f us\n", 1e6 * plain, 1e6 * shared);
    TRY(pennyCommDestroy(comm));
    return 0;
}
