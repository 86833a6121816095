/* Memory of communicators that is given back and taken again. */
#include "check.h"

static uint64_t stat_of(ncclComm_t comm, ncclCommMemStat_t which) {
    uint64_t value = 99;
    OK(ncclCommMemStats(comm, which, &value));
    return value;
}

static void communicators_are_suspended_and_resumed(void) {
    int one = 1, sum[MOST];
    for (int round = 0; round < 3; round++) {
        uint64_t staging = stat_of(comms[0], ncclStatGpuMemSuspend), rest = stat_of(comms[0], ncclStatGpuMemPersist);
        CHECK(staging > 0 && rest > 0 && stat_of(comms[0], ncclStatGpuMemTotal) == staging + rest);
        ALL(ncclCommSuspend(comms[i], NCCL_SUSPEND_MEM));
        for (int i = 0; i < local; i++) {
            CHECK_INT(stat_of(comms[i], ncclStatGpuMemSuspended), 1);
            FAILS(ncclInvalidUsage, "ncclCommResume makes it usable",
                  ncclAllReduce(&one, &sum[i], 1, ncclInt, ncclSum, comms[i], NULL));
        }
        ALL(ncclCommResume(comms[i]));
        ALL(ncclAllReduce(&one, &sum[i], 1, ncclInt, ncclSum, comms[i], NULL));
        for (int i = 0; i < local; i++) {
            CHECK_INT(sum[i], ranks);
            CHECK_INT(stat_of(comms[i], ncclStatGpuMemSuspended), 0);
        }
    }
    FAILS(ncclInvalidArgument, "flags is 6", ncclCommSuspend(comms[0], 6));
    FAILS(ncclInvalidArgument, "stat is 7", ncclCommMemStats(comms[0], (ncclCommMemStat_t)7, NULL));
}

int main(void) {
    begin();
    join();
    RUN(communicators_are_suspended_and_resumed);
    leave();
    return 0;
}
