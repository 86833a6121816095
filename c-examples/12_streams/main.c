/* Streams: a block's sum over all ranks is under way while the next block is computed, as gradients are reduced during the
 * backward pass. */
#include <penny.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(call)                                              \
    do {                                                       \
        if ((call) != pennySuccess) {                          \
            fprintf(stderr, "%s\n", pennyGetLastError(NULL)); \
            exit(1);                                           \
        }                                                      \
    } while (0)

enum { BLOCKS = 6, COUNT = 1 << 16 };

/* Something to compute: element i of block b on a rank. */
static double element(int rank, int b, int i) {
    double x = 0;
    for (int k = 1; k <= 20; k++) x += (double)((rank + 1) * (b + k) % (i % 97 + k));
    return x;
}

int main(void) {
    pennyComm_t comm;
    pennyStream_t stream;
    pennyEvent_t reduced[BLOCKS];
    double *blocks; /* BLOCKS blocks of COUNT elements, in memory that the other ranks can reach */
    int rank;

    TRY(pennyCommInitFromEnv(&comm, NULL));
    TRY(pennyCommUserRank(comm, &rank));
    TRY(pennyMemAlloc((void **)&blocks, BLOCKS * COUNT * sizeof *blocks));
    TRY(pennyStreamCreate(&stream));

    for (int b = 0; b < BLOCKS; b++) {
        double *block = blocks + b * COUNT;
        for (int i = 0; i < COUNT; i++) block[i] = element(rank, b, i);
        /* Returns at once. The block belongs to the call until its event is over. */
        TRY(pennyAllReduce(block, block, COUNT, pennyDouble, pennySum, comm, stream));
        TRY(pennyEventCreate(&reduced[b]));
        TRY(pennyEventRecord(reduced[b], stream));
    }
    for (int b = 0; b < BLOCKS; b++) {
        double total = 0;
        /* Tells also if the block's call failed, and how. */
        TRY(pennyEventSynchronize(reduced[b]));
        for (int i = 0; i < COUNT; i++) total += blocks[b * COUNT + i];
        if (rank == 0) printf("block %d: %.0f\n", b, total);
        TRY(pennyEventDestroy(reduced[b]));
    }

    TRY(pennyStreamDestroy(stream));
    TRY(pennyCommDestroy(comm));
    TRY(pennyMemFree(blocks));
    return 0;
}
