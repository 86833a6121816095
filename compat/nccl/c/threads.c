/* Each thread of a process has a communicator of its own, and calls at its own pace. */
#include "check.h"

#define THREADS 3
#define ROUNDS 50

static ncclUniqueId id;

static void *rank_main(void *argument) {
    int rank = process * THREADS + (int)(size_t)argument, all = processes * THREADS;
    ncclComm_t comm = NULL;
    int count = 0, user = -1, device = -1;
    OK(ncclCommInitRank(&comm, all, id, rank));
    OK(ncclCommCount(comm, &count));
    OK(ncclCommUserRank(comm, &user));
    OK(ncclCommCuDevice(comm, &device));
    CHECK_INT(count, all);
    CHECK_INT(user, rank);
    CHECK_INT(device, rank);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t mine[3] = {rank, round, rank * round}, sum[3];
        OK(ncclAllReduce(mine, sum, 3, ncclInt64, ncclSum, comm, NULL));
        CHECK_INT(sum[0], all * (all - 1) / 2);
        CHECK_INT(sum[1], all * round);
        CHECK_INT(sum[2], all * (all - 1) / 2 * round);
        int64_t from = -1;
        OK(ncclGroupStart());
        OK(ncclSend(mine, 1, ncclInt64, (rank + 1) % all, comm, NULL));
        OK(ncclRecv(&from, 1, ncclInt64, (rank + all - 1) % all, comm, NULL));
        OK(ncclGroupEnd());
        CHECK_INT(from, (rank + all - 1) % all);
    }
    OK(ncclCommFinalize(comm));
    OK(ncclCommDestroy(comm));
    return NULL;
}

static void threads_are_ranks(void) {
    pthread_t threads[THREADS];
    id = shared_id();
    for (size_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, rank_main, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
    begin();
    RUN(threads_are_ranks);
    return 0;
}
