/* src/ffi/communicator.rs: how ranks meet, what they know, how they part. */
#include "check.h"
#include <limits.h>

static const pennyComm_t made_up = (pennyComm_t)0x7fffffff12345;

static void ranks_that_share_an_id_meet(void) {
    int count = -1, me = -1, device = -1;
    pennyResult_t state = pennyNumResults;
    pennyComm_t comm = join();
    OK(pennyCommCount(comm, &count));
    OK(pennyCommUserRank(comm, &me));
    OK(pennyCommDevice(comm, &device));
    OK(pennyCommGetAsyncError(comm, &state));
    CHECK_INT(count, ranks);
    CHECK_INT(me, rank);
    CHECK(device >= 0 && device < ranks);
    CHECK_INT(state, pennySuccess);
    CHECK_INT(sum_over(comm), ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(comm));
}

static void a_launch_meets_without_an_id_again_and_again(void) {
    for (int round = 0; round < 3; round++) {
        pennyComm_t comm;
        pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
        int count = -1, me = -1;
        config.commName = "launch";
        OK(pennyCommInitFromEnv(&comm, round == 0 ? NULL : &config));
        OK(pennyCommCount(comm, &count));
        OK(pennyCommUserRank(comm, &me));
        CHECK_INT(count, ranks);
        CHECK_INT(me, rank);
        CHECK_INT(sum_over(comm), ranks * (ranks - 1) / 2);
        OK(pennyCommDestroy(comm));
    }
}

static void two_communicators_live_side_by_side(void) {
    pennyComm_t one = join(), two = join();
    CHECK(one != two);
    CHECK_INT(sum_over(two), ranks * (ranks - 1) / 2);
    CHECK_INT(sum_over(one), ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(one));
    CHECK_INT(sum_over(two), ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(two));
}

static void more_ranks_than_a_communicator_has_are_refused(void) {
    pennyComm_t comm = made_up;
    FAILS(pennyInvalidArgument, "ndev is 2147483647", pennyCommInitAll(&comm, INT_MAX, NULL));
    FAILS(pennyInvalidArgument, "ndev is 1025", pennyCommInitAll(&comm, 1025, NULL));
    CHECK(comm == made_up);
}

static void a_configuration_is_taken_checked_and_may_be_null(void) {
    pennyComm_t comm = made_up;
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    config.magic = 7;
    FAILS(pennyInvalidArgument, "config", pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
    FAILS(pennyInvalidArgument, "config", pennyCommInitFromEnv(&comm, &config));
    config = (pennyConfig_t)PENNY_CONFIG_INITIALIZER;
    config.blocking = 2;
    FAILS(pennyInvalidArgument, "blocking", pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
    FAILS(pennyInvalidArgument, "blocking is 2", pennyCommInitFromEnv(&comm, &config));
    config.blocking = 1;
    config.timeoutMs = -5;
    FAILS(pennyInvalidArgument, "timeoutMs", pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
    CHECK(comm == made_up);
    config.timeoutMs = 30000;
    config.commName = "pair";
    OK(pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
    CHECK_INT(sum_over(comm), ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(comm));
    OK(pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, NULL));
    OK(pennyCommDestroy(comm));
}

static void an_id_for_several_hosts_serves_one_as_well(void) {
    pennyComm_t comm;
    pennyUniqueId id;
    if (rank == 0) {
        OK(pennyGetUniqueIdHosts(&id));
        post_bytes("hosts", &id, sizeof id);
    }
    await_bytes("hosts", &id, sizeof id);
    OK(pennyCommInitRank(&comm, ranks, id, rank));
    CHECK_INT(sum_over(comm), ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(comm));
}

static void wrong_arguments_of_init_are_refused(void) {
    pennyComm_t comm = made_up;
    pennyUniqueId id;
    OK(pennyGetUniqueId(&id));
    FAILS(pennyInvalidArgument, "uniqueId is NULL", pennyGetUniqueId(NULL));
    FAILS(pennyInvalidArgument, "uniqueId is NULL", pennyGetUniqueIdHosts(NULL));
    setenv("PENNY_NET", "off", 1);
    FAILS(pennyInvalidUsage, "PENNY_NET is `off`", pennyGetUniqueIdHosts(&id));
    unsetenv("PENNY_NET");
    FAILS(pennyInvalidArgument, "comm is NULL", pennyCommInitRank(NULL, 1, id, 0));
    FAILS(pennyInvalidArgument, "nranks", pennyCommInitRank(&comm, 0, id, 0));
    FAILS(pennyInvalidArgument, "nranks", pennyCommInitRank(&comm, -1, id, 0));
    FAILS(pennyInvalidArgument, "rank", pennyCommInitRank(&comm, 2, id, 2));
    FAILS(pennyInvalidArgument, "rank", pennyCommInitRank(&comm, 2, id, -1));
    FAILS(pennyInvalidArgument, "comm is NULL", pennyCommInitAll(NULL, 1, NULL));
    FAILS(pennyInvalidArgument, "ndev", pennyCommInitAll(&comm, 0, NULL));
    FAILS(pennyInvalidArgument, "comm is NULL", pennyCommInitFromEnv(NULL, NULL));
    memset(&id, 0x5a, sizeof id);
    CHECK(pennyCommInitRank(&comm, 1, id, 0) == pennyInvalidArgument);
    CHECK(comm == made_up);
}

static void init_all_makes_ranks_of_this_process(void) {
    enum { N = 3 };
    pennyComm_t comm[N];
    int value[N], sum[N];
    const int devices[N] = {0, 1, 2};
    OK(pennyCommInitAll(comm, N, devices));
    OK(pennyGroupStart());
    for (int i = 0; i < N; i++) {
        int me = -1, count = -1;
        OK(pennyCommUserRank(comm[i], &me));
        OK(pennyCommCount(comm[i], &count));
        CHECK_INT(me, i);
        CHECK_INT(count, N);
        value[i] = 1 << i;
        OK(pennyAllReduce(&value[i], &sum[i], 1, pennyInt, pennySum, comm[i], NULL));
    }
    OK(pennyGroupEnd());
    for (int i = 0; i < N; i++) CHECK_INT(sum[i], 7);
    for (int i = 0; i < N; i++) OK(pennyCommDestroy(comm[i]));
}

static void null_may_be_finalized_destroyed_and_aborted_but_not_asked(void) {
    int number = -7;
    pennyResult_t state = pennyNumResults;
    OK(pennyCommFinalize(NULL));
    OK(pennyCommDestroy(NULL));
    OK(pennyCommAbort(NULL));
    FAILS(pennyInvalidArgument, "comm is NULL", pennyCommCount(NULL, &number));
    FAILS(pennyInvalidArgument, "comm is NULL", pennyCommUserRank(NULL, &number));
    FAILS(pennyInvalidArgument, "comm is NULL", pennyCommDevice(NULL, &number));
    FAILS(pennyInvalidArgument, "comm is NULL", pennyCommGetAsyncError(NULL, &state));
    CHECK_INT(number, -7);
    CHECK_INT(state, pennyNumResults);
}

/* Every function, on a handle that is no communicator. */
static void refuses(pennyComm_t comm) {
    int number = -7;
    pennyResult_t state = pennyNumResults;
    FAILS(pennyInvalidArgument, "comm", pennyCommCount(comm, &number));
    FAILS(pennyInvalidArgument, "comm", pennyCommUserRank(comm, &number));
    FAILS(pennyInvalidArgument, "comm", pennyCommDevice(comm, &number));
    FAILS(pennyInvalidArgument, "comm", pennyCommGetAsyncError(comm, &state));
    FAILS(pennyInvalidArgument, "comm", pennyBarrier(comm, NULL));
    FAILS(pennyInvalidArgument, "comm", pennyBcast(&number, 1, pennyInt, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "comm", pennySend(&number, 1, pennyInt, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "comm", pennyCommFinalize(comm));
    FAILS(pennyInvalidArgument, "comm", pennyCommAbort(comm));
    FAILS(pennyInvalidArgument, "comm", pennyCommDestroy(comm));
    CHECK_INT(number, -7);
    CHECK_INT(state, pennyNumResults);
    CHECK(strstr(pennyGetLastError(comm), "pennyCommDestroy: ") != NULL);
}

static void a_destroyed_communicator_is_recognised_even_when_its_place_is_taken(void) {
    pennyComm_t gone = join();
    OK(pennyCommDestroy(gone));
    refuses(gone);
    pennyComm_t next = join();
    CHECK(next != gone);
    refuses(gone);
    CHECK_INT(sum_over(next), ranks * (ranks - 1) / 2);
    OK(pennyCommDestroy(next));
}

static void a_made_up_handle_is_recognised(void) {
    refuses(made_up);
    refuses((pennyComm_t)(uintptr_t)1);
    refuses((pennyComm_t)(uintptr_t)-1);
    refuses((pennyComm_t)&rank);
}

static void a_finalized_communicator_serves_destroy_only(void) {
    pennyComm_t comm = join();
    OK(pennyCommFinalize(comm));
    CHECK(pennyBarrier(comm, NULL) != pennySuccess);
    OK(pennyCommDestroy(comm));
    FAILS(pennyInvalidArgument, "comm", pennyCommDestroy(comm));
}

static void an_outputs_null_is_refused_by_its_name(void) {
    pennyComm_t comm = join();
    FAILS(pennyInvalidArgument, "count is NULL", pennyCommCount(comm, NULL));
    FAILS(pennyInvalidArgument, "rank is NULL", pennyCommUserRank(comm, NULL));
    FAILS(pennyInvalidArgument, "device is NULL", pennyCommDevice(comm, NULL));
    FAILS(pennyInvalidArgument, "asyncError is NULL", pennyCommGetAsyncError(comm, NULL));
    OK(pennyCommDestroy(comm));
}

static void each_communicator_keeps_its_own_last_error(void) {
    pennyComm_t one = join(), two = join();
    CHECK(strcmp(pennyGetLastError(one), "") == 0 || strstr(pennyGetLastError(one), "pennyComm") != NULL);
    FAILS(pennyInvalidArgument, "count", pennyCommCount(one, NULL));
    const char *of_one = pennyGetLastError(one);
    CHECK(strcmp(pennyGetLastError(two), "") == 0);
    FAILS(pennyInvalidArgument, "rank", pennyCommUserRank(two, NULL));
    FAILS(pennyInvalidArgument, "device", pennyCommDevice(two, NULL));
    CHECK(pennyGetLastError(one) == of_one);
    CHECK(strstr(of_one, "pennyCommCount: ") == of_one);
    CHECK(strstr(pennyGetLastError(two), "pennyCommDevice: ") != NULL);
    CHECK(pennyGetLastError(NULL) == pennyGetLastError(two));
    OK(pennyCommDestroy(one));
    OK(pennyCommDestroy(two));
}

static void an_abort_is_seen_by_every_other_rank(void) {
    pennyComm_t comm = join();
    pennyResult_t state = pennySuccess;
    OK(pennyBarrier(comm, NULL));
    if (rank == 0) {
        OK(pennyCommAbort(comm));
        FAILS(pennyInvalidArgument, "comm", pennyCommAbort(comm));
        return;
    }
    FAILS(pennyRemoteError, "rank 0", pennyBarrier(comm, NULL));
    OK(pennyCommGetAsyncError(comm, &state));
    CHECK_INT(state, pennyRemoteError);
    OK(pennyCommAbort(comm));
}

static void *abort_soon(void *comm) {
    for (int i = 0; i < 50; i++) nap();
    OK(pennyCommAbort(comm));
    return NULL;
}

static void an_abort_from_another_thread_ends_a_blocked_call(void) {
    pennyComm_t comm = join();
    pthread_t thread;
    if (rank == 0) { /* nobody else comes to the barrier */
        CHECK(pthread_create(&thread, NULL, abort_soon, comm) == 0);
        CHECK(ranks == 1 || pennyBarrier(comm, NULL) != pennySuccess);
        CHECK(pthread_join(thread, NULL) == 0);
    } else {
        pennyResult_t state = pennySuccess;
        while (state == pennySuccess) {
            OK(pennyCommGetAsyncError(comm, &state));
            nap();
        }
        CHECK_INT(state, pennyRemoteError);
        OK(pennyCommAbort(comm));
    }
}

static void *hammer(void *comm) {
    for (int i = 0; i < 20000; i++) {
        pennyResult_t result = pennyBarrier(comm, NULL);
        if (result == pennyInvalidUsage) {
            CHECK(strstr(pennyGetLastError(comm), "thread") != NULL);
        } else {
            CHECK_INT(result, pennySuccess);
        }
    }
    return NULL;
}

static void two_threads_in_one_communicator_do_no_harm(void) {
    pthread_t thread[2];
    pennyComm_t comm;
    OK(pennyCommInitAll(&comm, 1, NULL));
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&thread[i], NULL, hammer, comm) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    OK(pennyBarrier(comm, NULL));
    OK(pennyCommDestroy(comm));
}

/* One of rank 0's two threads is inside the barrier, so the other is refused; only then do the other ranks come. */
static void *one_of_two(void *comm) {
    pennyResult_t result = pennyBarrier(comm, NULL);
    if (result == pennySuccess) return NULL;
    CHECK_INT(result, pennyInvalidUsage);
    CHECK(strstr(pennyGetLastError(comm), "pennyBarrier: ") == pennyGetLastError(comm));
    FAILS(pennyInvalidUsage, "thread", pennyCommDestroy(comm));
    post("refused");
    return comm;
}

static void the_second_thread_in_a_communicator_is_refused(void) {
    pennyComm_t comm = join();
    if (ranks > 1 && rank == 0) {
        pthread_t thread[2];
        void *refused[2];
        for (int i = 0; i < 2; i++) CHECK(pthread_create(&thread[i], NULL, one_of_two, comm) == 0);
        for (int i = 0; i < 2; i++) CHECK(pthread_join(thread[i], &refused[i]) == 0);
        CHECK((refused[0] == NULL) != (refused[1] == NULL));
    } else if (ranks > 1) {
        await("refused");
        OK(pennyBarrier(comm, NULL));
    }
    OK(pennyBarrier(comm, NULL));
    OK(pennyCommDestroy(comm));
}

static void many_communicators_come_and_go(void) {
    for (int i = 0; i < 50; i++) {
        pennyComm_t comm = join();
        OK(pennyCommDestroy(comm));
    }
}

int main(void) {
    begin();
    RUN(ranks_that_share_an_id_meet);
    RUN(a_launch_meets_without_an_id_again_and_again);
    RUN(two_communicators_live_side_by_side);
    RUN(more_ranks_than_a_communicator_has_are_refused);
    RUN(a_configuration_is_taken_checked_and_may_be_null);
    RUN(an_id_for_several_hosts_serves_one_as_well);
    RUN(wrong_arguments_of_init_are_refused);
    RUN(init_all_makes_ranks_of_this_process);
    RUN(null_may_be_finalized_destroyed_and_aborted_but_not_asked);
    RUN(a_destroyed_communicator_is_recognised_even_when_its_place_is_taken);
    RUN(a_made_up_handle_is_recognised);
    RUN(a_finalized_communicator_serves_destroy_only);
    RUN(an_outputs_null_is_refused_by_its_name);
    RUN(each_communicator_keeps_its_own_last_error);
    RUN(an_abort_is_seen_by_every_other_rank);
    RUN(an_abort_from_another_thread_ends_a_blocked_call);
    RUN(two_threads_in_one_communicator_do_no_harm);
    RUN(the_second_thread_in_a_communicator_is_refused);
    RUN(many_communicators_come_and_go);
    return 0;
}
