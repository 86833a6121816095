/* Errors: a wrong argument, ranks that disagree, and a rank that does not come. Nothing here hangs or crashes. */
#define _POSIX_C_SOURCE 199309L /* nanosleep */
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

/* What happened, and on standard error the sentence about it. */
static void tell(int rank, const char *what, pennyResult_t result, pennyComm_t comm) {
    printf("rank %d: %s: %s\n", rank, what, pennyGetErrorString(result));
    fprintf(stderr, "rank %d: %s\n", rank, pennyGetLastError(comm));
}

int main(void) {
    pennyComm_t comm;
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyResult_t state = pennySuccess;
    int rank, ranks, value, sum;

    config.timeoutMs = 2000; /* for the last part; the default is ten minutes */
    config.commName = "example";
    TRY(pennyCommInitFromEnv(&comm, &config));
    TRY(pennyCommUserRank(comm, &rank));
    TRY(pennyCommCount(comm, &ranks));

    /* A wrong argument is this rank's own affair: nothing was sent, and the communicator is as good as before. */
    value = rank;
    tell(rank, "a root beyond the last rank", pennyBcast(&value, 1, pennyInt, ranks, comm, NULL), comm);

    /* Ranks that disagree are told before wrong data could be used; both sides' arguments are in the sentence. */
    pennyRedOp_t op = rank == 0 ? pennySum : pennyMax;
    tell(rank, "sum here, max there", pennyAllReduce(&value, &sum, 1, pennyInt, op, comm, NULL), comm);

    /* Both were survived. */
    TRY(pennyAllReduce(&value, &sum, 1, pennyInt, pennySum, comm, NULL));
    printf("rank %d: the sum is %s\n", rank, sum == ranks * (ranks - 1) / 2 ? "right" : "wrong");

    /* Everybody comes to the barrier but rank 0. The others give up after two seconds, and abort, which rank 0 sees. */
    if (rank == 0) {
        const struct timespec millisecond = {0, 1000000};
        while (state == pennySuccess) {
            nanosleep(&millisecond, NULL);
            TRY(pennyCommGetAsyncError(comm, &state));
        }
        printf("rank 0: the others gave up: %s\n", pennyGetErrorString(state));
    } else {
        pennyResult_t result = pennyBarrier(comm, NULL);
        tell(rank, "a barrier that rank 0 does not come to", result, comm);
    }
    TRY(pennyCommAbort(comm));
    return 0;
}
