/* A signal handler that aborts the communicator in whose call the signal has come. */
#include "check.h"
#include <signal.h>
#include <sys/time.h>

static pennyComm_t comm;
static volatile sig_atomic_t handled;
static pennyResult_t aborted;

static void on_alarm(int number) {
    int flag;
    size_t count;
    pennyDataType_t datatype;
    (void)number;
    /* It is refused where a call is inside. */
    if (handled || pennyProbe(1, comm, &flag, &count, &datatype) != pennyInvalidUsage) return;
    handled = 1;
    aborted = pennyCommAbort(comm);
}

static void the_call_ends_and_the_communicator_can_be_destroyed(void) {
    struct itimerval soon = {{0, 100000}, {0, 100000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action;
    pennyResult_t state = pennySuccess;
    OK(pennyCommInitRank(&comm, ranks, shared_id(), rank));
    if (rank != 0) {
        /* Rank 0 waits for this rank in its call, until its handler runs. */
        while (state == pennySuccess) OK(pennyCommGetAsyncError(comm, &state));
        CHECK(state == pennyRemoteError);
        OK(pennyCommDestroy(comm));
        return;
    }
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    FAILS(pennyRemoteError, "rank 0 (this rank) aborted the communicator", pennyBarrier(comm, NULL));
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(handled && aborted == pennyInvalidUsage);
    OK(pennyCommDestroy(comm));
    FAILS(pennyInvalidArgument, "this rank has aborted it", pennyCommDestroy(comm));
}

int main(void) {
    begin();
    RUN(the_call_ends_and_the_communicator_can_be_destroyed);
    return 0;
}
