/* include/penny_mpi.h under an MPI: communicators of all kinds, refusals, and failures that this program stages, of which every
 * rank must learn. Nothing that the header makes in MPI may be left. With -DOTHER_FILE this is a second source file of the program,
 * in C++, which asks for the sentences. */
#ifndef __cplusplus
#define _POSIX_C_SOURCE 200809L
#endif
#include <mpi.h>
#include <penny.h>

#ifdef OTHER_FILE
#include <penny_mpi.h>
extern "C" const char *sentence_elsewhere(void) { return pennyMPIGetLastError(); }
#else

/* ---- The functions that the header calls, with the staged failures ---- */

static int hosts = 1;             /* as many hosts, to which the ranks are dealt in turns */
static int split_fails_on = -1;   /* the rank whose MPI_Comm_split_type fails */
static int no_id;                 /* pennyGetUniqueId fails */
static int hook_awaited;          /* rank 1 gets a message at the first MPI_Iprobe */
static int made, iprobes;         /* communicators of MPI that the header has and has not freed; calls of MPI_Iprobe */

static int staged_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *host) {
    int rank, error;
    MPI_Comm_rank(comm, &rank);
    error = hosts > 1 ? MPI_Comm_split(comm, rank % hosts, key, host) : MPI_Comm_split_type(comm, type, key, info, host);
    if (rank == split_fails_on) {
        if (error == MPI_SUCCESS) MPI_Comm_free(host);
        return MPI_ERR_OTHER;
    }
    made++;
    return error;
}

static int counted_free(MPI_Comm *comm) {
    made--;
    return MPI_Comm_free(comm);
}

static int counted_iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    if (++iprobes == 1 && hook_awaited) MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    return MPI_Iprobe(source, tag, comm, flag, status);
}

static pennyResult_t staged_unique_id(pennyUniqueId *id) {
    /* A failure of Penny's, with its sentence. */
    return pennyGetUniqueId(no_id ? NULL : id);
}

#define MPI_Comm_split_type staged_split_type
#define MPI_Comm_free counted_free
#define MPI_Iprobe counted_iprobe
#define pennyGetUniqueId staged_unique_id
#include <penny_mpi.h>
#undef MPI_Comm_split_type
#undef MPI_Comm_free
#undef MPI_Iprobe
#undef pennyGetUniqueId

/* ---- Checks ---- */

#include <stdlib.h>

const char *sentence_elsewhere(void);
static int rank, ranks;

#define CHECK(condition)                                                                                                \
    do {                                                                                                                \
        if (!(condition)) {                                                                                             \
            fprintf(stderr, "bridge.c:%d: rank %d of %d: %s: %s; %s\n", __LINE__, rank, ranks, #condition,              \
                    pennyMPIGetLastError(), pennyGetLastError(NULL));                                                   \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                               \
        }                                                                                                               \
    } while (0)
#define OK(call) CHECK((call) == pennySuccess)

/* The call fails in this way, writes nothing, keeps nothing, and both source files see this in its sentence. */
#define FAILS(expected, text, call)                                                                                     \
    do {                                                                                                                \
        comm = untouched;                                                                                               \
        CHECK((call) == (expected));                                                                                    \
        CHECK(strstr(pennyMPIGetLastError(), text) != NULL);                                                            \
        CHECK(strncmp(pennyMPIGetLastError(), "pennyCommInitMPI", 16) == 0);                                            \
        CHECK(sentence_elsewhere() == pennyMPIGetLastError());                                                          \
        CHECK(comm == untouched);                                                                                       \
        CHECK(made == 0);                                                                                               \
    } while (0)

static pennyComm_t comm, untouched;

/* The communicator has the ranks of mpiComm in their order. It is destroyed. */
static void is_that_of(MPI_Comm mpiComm) {
    int mpi_rank, mpi_ranks, penny_rank, penny_ranks, sum, mine;
    MPI_Comm_rank(mpiComm, &mpi_rank);
    MPI_Comm_size(mpiComm, &mpi_ranks);
    OK(pennyCommUserRank(comm, &penny_rank));
    OK(pennyCommCount(comm, &penny_ranks));
    CHECK(penny_rank == mpi_rank);
    CHECK(penny_ranks == mpi_ranks);
    mine = 1 << mpi_rank;
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    CHECK(sum == (1 << mpi_ranks) - 1);
    OK(pennyCommDestroy(comm));
    CHECK(made == 0);
}

static void all_ranks_several_times(void) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    config.commName = "bridge";
    for (int i = 0; i < 3; i++) {
        OK(pennyCommInitMPI(&comm, MPI_COMM_WORLD, i == 0 ? NULL : &config));
        is_that_of(MPI_COMM_WORLD);
    }
}

static void subcommunicators_and_other_orders(void) {
    MPI_Comm reversed, half;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    OK(pennyCommInitMPI(&comm, reversed, NULL));
    is_that_of(reversed);
    OK(pennyCommInitMPIHost(&comm, NULL, reversed, NULL));
    is_that_of(reversed);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    OK(pennyCommInitMPI(&comm, half, NULL));
    is_that_of(half);
    OK(pennyCommInitMPI(&comm, MPI_COMM_SELF, NULL));
    is_that_of(MPI_COMM_SELF);
    MPI_Comm_free(&half);
    MPI_Comm_free(&reversed);
}

static void ranks_that_join_later(void) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyResult_t state;
    config.blocking = 0;
    state = pennyCommInitMPI(&comm, MPI_COMM_WORLD, &config);
    CHECK(state == pennyInProgress || state == pennySuccess); /* it is over where all others are there already */
    state = pennyInProgress;
    while (state == pennyInProgress) OK(pennyCommGetAsyncError(comm, &state));
    CHECK(state == pennySuccess);
    is_that_of(MPI_COMM_WORLD);

    OK(pennyGroupStart());
    OK(pennyCommInitMPI(&comm, MPI_COMM_WORLD, NULL));
    OK(pennyGroupEnd());
    is_that_of(MPI_COMM_WORLD);
}

static void communicators_that_are_none(void) {
    MPI_Comm half, inter, host;
    FAILS(pennyInvalidArgument, "mpiComm is MPI_COMM_NULL", pennyCommInitMPI(&comm, MPI_COMM_NULL, NULL));
    FAILS(pennyInvalidArgument, "mpiComm is MPI_COMM_NULL", pennyCommInitMPIHost(&comm, &host, MPI_COMM_NULL, NULL));
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &inter);
    FAILS(pennyInvalidArgument, "mpiComm is an intercommunicator", pennyCommInitMPI(&comm, inter, NULL));
    FAILS(pennyInvalidArgument, "mpiComm is an intercommunicator", pennyCommInitMPIHost(&comm, NULL, inter, NULL));
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void no_place_for_the_handle_on_one_rank(void) {
    pennyComm_t *place = rank == 1 ? NULL : &comm;
    FAILS(pennyInvalidArgument, "comm is NULL on rank 1 of mpiComm", pennyCommInitMPI(place, MPI_COMM_WORLD, NULL));
    FAILS(pennyInvalidArgument, "comm is NULL on rank 1 of mpiComm", pennyCommInitMPIHost(place, NULL, MPI_COMM_WORLD, NULL));
}

static void no_id_on_rank_0(void) {
    no_id = rank == 0;
    FAILS(pennyInvalidArgument, "rank 0 of mpiComm could not make an id: pennyGetUniqueId: uniqueId is NULL",
          pennyCommInitMPI(&comm, MPI_COMM_WORLD, NULL));
    FAILS(pennyInvalidArgument, "rank 0 of the host could not make an id: ",
          pennyCommInitMPIHost(&comm, NULL, MPI_COMM_WORLD, NULL));
    no_id = 0;
}

static void settings_that_are_refused(void) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    config.timeoutMs = -5;
    FAILS(pennyInvalidArgument, "pennyCommInitMPI: pennyCommInitRankConfig: ", pennyCommInitMPI(&comm, MPI_COMM_WORLD, &config));
}

static void two_hosts(void) {
    MPI_Comm host;
    hosts = 2;
    /* By an id for several hosts: the other one cannot be made. */
    no_id = 1;
    OK(pennyCommInitMPI(&comm, MPI_COMM_WORLD, NULL));
    is_that_of(MPI_COMM_WORLD);
    no_id = 0;
    setenv("PENNY_NET", "off", 1);
    FAILS(pennyInvalidUsage, "PENNY_NET is `off`", pennyCommInitMPI(&comm, MPI_COMM_WORLD, NULL));
    unsetenv("PENNY_NET");
    OK(pennyCommInitMPIHost(&comm, &host, MPI_COMM_WORLD, NULL));
    CHECK(made == 1);
    made = 0;
    is_that_of(host);
    MPI_Comm_rank(host, &made);
    CHECK(made == rank / 2);
    MPI_Comm_free(&host);
    made = 0;
    OK(pennyCommInitMPIHost(&comm, NULL, MPI_COMM_WORLD, NULL));
    OK(pennyCommDestroy(comm));
    CHECK(made == 0);
    hosts = 1;
}

/* MPI fails on one rank, and the error handler returns. */
static void a_failure_of_mpi(void) {
    MPI_Comm returning;
    MPI_Comm_dup(MPI_COMM_WORLD, &returning);
    MPI_Comm_set_errhandler(returning, MPI_ERRORS_RETURN);
    split_fails_on = 1;
    FAILS(pennySystemError, rank == 1 ? "MPI_Comm_split_type failed on rank 1 of mpiComm: " : "failed on rank 1 of mpiComm, whose",
          pennyCommInitMPI(&comm, returning, NULL));
    FAILS(pennySystemError, "failed on rank 1 of mpiComm", pennyCommInitMPIHost(&comm, NULL, returning, NULL));
    split_fails_on = -1;
    OK(pennyCommInitMPI(&comm, returning, NULL));
    is_that_of(returning);
    MPI_Comm_free(&returning);
}

/* Rank 0 waits in Penny for rank 1, which waits for a large message, and until the hook has been called: some libraries move the
 * message without the sender. */
static void a_message_that_needs_calls_of_mpi(MPI_Comm *place) {
    enum { BYTES = 8 << 20 };
    char *message = (char *)calloc(BYTES, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    OK(pennyCommInitMPI(&comm, MPI_COMM_WORLD, NULL));
    OK(pennySetProgress(pennyMPIProgress, place));
    iprobes = 0;
    hook_awaited = rank == 0;
    if (rank == 0) MPI_Isend(message, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
    if (rank == 1) {
        MPI_Recv(message, BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    OK(pennyBarrier(comm, NULL));
    hook_awaited = 0;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    OK(pennyCommDestroy(comm));
    free(message);
}

int main(int argc, char **argv) {
    MPI_Comm self;
    int calls;
    untouched = (pennyComm_t)&untouched;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    CHECK(strcmp(pennyMPIGetLastError(), "") == 0);
    all_ranks_several_times();
    subcommunicators_and_other_orders();
    ranks_that_join_later();
    communicators_that_are_none();
    no_place_for_the_handle_on_one_rank();
    no_id_on_rank_0();
    settings_that_are_refused();
    two_hosts();
    a_failure_of_mpi();
    a_message_that_needs_calls_of_mpi(NULL);
    a_message_that_needs_calls_of_mpi(&self);
    OK(pennySetProgress(pennyMPIProgress, NULL));
    MPI_Comm_free(&self);
    OK(pennyCommInitMPI(&comm, MPI_COMM_WORLD, NULL));
    MPI_Finalize();

    /* Penny's part goes on without MPI; the hook is still set, and calls MPI no more. */
    calls = iprobes;
    OK(pennyBarrier(comm, NULL));
    pennyMPIProgress(NULL);
    CHECK(iprobes == calls);
    OK(pennyCommDestroy(comm));
    if (rank == 0) printf("%d ranks: every communicator, refusal and failure of penny_mpi.h is right\n", ranks);
    return 0;
}
#endif
