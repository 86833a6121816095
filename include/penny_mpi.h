/*
 * Penny beside MPI: a communicator of the ranks of an MPI communicator, and a progress hook that calls MPI.
 *
 *     #include <mpi.h>
 *     #include <penny_mpi.h>
 *
 *     pennyComm_t comm;
 *     MPI_Init(&argc, &argv);
 *     pennyCommInitMPI(&comm, MPI_COMM_WORLD, NULL);
 *     pennyAllReduce(in, out, count, pennyFloat, pennySum, comm, NULL);
 *     pennyCommDestroy(comm);
 *     MPI_Finalize();
 *
 * The header is compiled with the program's own mpi.h by the program's compiler; libpenny does not know MPI. So it serves Open
 * MPI, MPICH, Intel MPI and every other MPI of version 3.0 or later. C99, C++11 and later; gcc, clang and compilers that understand
 * their attributes.
 *
 *   - MPI must be initialized, and the thread that calls a function of this header must be one that may call MPI.
 *   - MPI carries the id of the new communicator to its ranks. Afterwards Penny's calls do not use MPI, and the MPI communicator
 *     may be freed.
 *   - What a function makes in MPI, it frees.
 *   - pennyMPIGetLastError returns the sentence of a failure; pennyGetLastError of penny.h knows failures of the library only.
 *   - Names that end with an underscore are internal.
 */

#ifndef PENNY_MPI_H
#define PENNY_MPI_H

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <mpi.h>
#include <penny.h>

#if MPI_VERSION < 3
#error "penny_mpi.h needs MPI 3.0 or later, for MPI_Comm_split_type"
#endif

// Bytes of a sentence of pennyMPIGetLastError, including the terminating 0. A longer one is cut.
#define PENNY_MPI_SENTENCE_BYTES 1024

#ifdef __cplusplus
extern "C" {
#endif

// The sentence of the calling thread's newest failure. Weak, because the source files of a program that include this header share
// one, in C and in C++. Hidden, because a shared library may have been compiled with another version of this header.
__attribute__((weak, visibility("hidden"))) __thread char pennyMPISentence_[PENNY_MPI_SENTENCE_BYTES];

// A call of one rank.
typedef struct {
    const char *function;
    // The ranks that take part, and what sentences call them.
    MPI_Comm comm;
    const char *name;
    // This rank, -1 until it is known, and their number.
    int rank, ranks;
} pennyMPICall_;

// What rank 0 tells the others: the id, or why there is none.
typedef struct {
    int result;
    pennyUniqueId id;
    char sentence[PENNY_MPI_SENTENCE_BYTES];
} pennyMPIInvitation_;

// Files a failure.
__attribute__((format(printf, 2, 3))) static inline pennyResult_t pennyMPIFail_(pennyResult_t result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pennyMPISentence_, sizeof pennyMPISentence_, format, arguments);
    va_end(arguments);
    return result;
}

// Files the failure of a function of MPI, unless it has succeeded. It comes here only if the error handler returns.
static inline pennyResult_t pennyMPICheck_(const pennyMPICall_ *call, const char *what, int error) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (error == MPI_SUCCESS) return pennySuccess;
    if (MPI_Error_string(error, text, &length) != MPI_SUCCESS) snprintf(text, sizeof text, "error %d", error);
    // Some libraries tell a stack of functions, one a line.
    for (length = 0; text[length] != '\0'; length++) {
        if (text[length] == '\n') text[length] = ' ';
    }
    return pennyMPIFail_(pennySystemError, "%s: %s failed on rank %d of %s: %s", call->function, what, call->rank,
                         call->name, text);
}

// Sees that the communicator has ranks, in one group, and reads which of them this is.
static inline pennyResult_t pennyMPIAdmit_(pennyMPICall_ *call) {
    int inter = 0;
    pennyResult_t result;
    if (call->comm == MPI_COMM_NULL) {
        return pennyMPIFail_(pennyInvalidArgument, "%s: mpiComm is MPI_COMM_NULL; only the ranks of a communicator make this call",
                             call->function);
    }
    result = pennyMPICheck_(call, "MPI_Comm_test_inter", MPI_Comm_test_inter(call->comm, &inter));
    if (result != pennySuccess) return result;
    if (inter) {
        return pennyMPIFail_(pennyInvalidArgument, "%s: mpiComm is an intercommunicator; "
                             "make one group of its two with MPI_Intercomm_merge", call->function);
    }
    result = pennyMPICheck_(call, "MPI_Comm_rank", MPI_Comm_rank(call->comm, &call->rank));
    if (result != pennySuccess) return result;
    return pennyMPICheck_(call, "MPI_Comm_size", MPI_Comm_size(call->comm, &call->ranks));
}

// Makes the communicator of the ranks that are on this rank's host, in their order. host is MPI_COMM_NULL on failure.
static inline pennyResult_t pennyMPISplit_(const pennyMPICall_ *call, MPI_Comm *host) {
    int error = MPI_Comm_split_type(call->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, host);
    if (error != MPI_SUCCESS) *host = MPI_COMM_NULL;
    return pennyMPICheck_(call, "MPI_Comm_split_type", error);
}

// Reads whether rank 0 is not on this rank's host. Where MPI fails on one rank the others must not wait for it, so between the split
// and pennyMPIAgree_ there is no other collective call.
static inline pennyResult_t pennyMPISurvey_(const pennyMPICall_ *call, int *away) {
    MPI_Comm host;
    MPI_Group all = MPI_GROUP_NULL, near = MPI_GROUP_NULL;
    int zero = 0, place = MPI_UNDEFINED, error;
    pennyResult_t result = pennyMPISplit_(call, &host);
    if (result != pennySuccess) return result;
    error = MPI_Comm_group(call->comm, &all);
    if (error == MPI_SUCCESS) error = MPI_Comm_group(host, &near);
    if (error == MPI_SUCCESS) error = MPI_Group_translate_ranks(all, 1, &zero, near, &place);
    *away = error == MPI_SUCCESS && place == MPI_UNDEFINED;
    result = pennyMPICheck_(call, "MPI_Group_translate_ranks", error);
    if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
    if (near != MPI_GROUP_NULL) MPI_Group_free(&near);
    MPI_Comm_free(&host);
    return result;
}

// Lets all ranks know what any of them has found, so that all go on or none. A rank keeps the sentence of its own failure. away: this
// rank is not on the host of rank 0; afterwards, whether any is not.
static inline pennyResult_t pennyMPIAgree_(const pennyMPICall_ *call, const pennyComm_t *comm, pennyResult_t mine, int *away) {
    // The ranks with a finding, then the first rank with it.
    int found[3], first[3], error;
    found[0] = mine != pennySuccess ? call->rank : INT_MAX;
    found[1] = comm == NULL ? call->rank : INT_MAX;
    found[2] = *away ? call->rank : INT_MAX;
    error = MPI_Allreduce(found, first, 3, MPI_INT, MPI_MIN, call->comm);
    if (mine != pennySuccess) return mine;
    if (error != MPI_SUCCESS) return pennyMPICheck_(call, "MPI_Allreduce", error);
    if (first[0] != INT_MAX) {
        return pennyMPIFail_(pennySystemError, "%s: a function of MPI failed on rank %d of %s, whose sentence says how",
                             call->function, first[0], call->name);
    }
    if (first[1] != INT_MAX) {
        return pennyMPIFail_(pennyInvalidArgument, "%s: comm is NULL on rank %d of %s; pass the address of a pennyComm_t",
                             call->function, first[1], call->name);
    }
    *away = first[2] != INT_MAX;
    return pennySuccess;
}

// Joins the ranks, which have agreed to. hosts: they may be on several.
static inline pennyResult_t pennyMPIJoin_(const pennyMPICall_ *call, pennyComm_t *comm, const pennyConfig_t *config, int hosts) {
    pennyMPIInvitation_ invitation;
    pennyResult_t result;
    memset(&invitation, 0, sizeof invitation);
    if (call->rank == 0) {
        invitation.result = (int)(hosts ? pennyGetUniqueIdHosts(&invitation.id) : pennyGetUniqueId(&invitation.id));
        if (invitation.result != (int)pennySuccess) {
            snprintf(invitation.sentence, sizeof invitation.sentence, "%s", pennyGetLastError(NULL));
        }
    }
    // The result goes with the id, because the others must not wait for an id that does not come.
    result = pennyMPICheck_(call, "MPI_Bcast", MPI_Bcast(&invitation, (int)sizeof invitation, MPI_BYTE, 0, call->comm));
    if (result != pennySuccess) return result;
    if (invitation.result != (int)pennySuccess) {
        return pennyMPIFail_((pennyResult_t)invitation.result, "%s: rank 0 of %s could not make an id: %s", call->function,
                             call->name, invitation.sentence);
    }
    result = pennyCommInitRankConfig(comm, call->ranks, invitation.id, call->rank, config);
    if (result == pennySuccess || result == pennyInProgress) return result;
    return pennyMPIFail_(result, "%s: %s", call->function, pennyGetLastError(NULL));
}

// Returns the sentence of the calling thread's newest failure in pennyCommInitMPI or pennyCommInitMPIHost: the function, the
// argument, the rank, the remedy. Where the library has failed, its own sentence follows the function's name.
//
// Returns the empty string if there was no failure, never NULL. Do not free it. It is valid until the next failing call of this
// thread or the thread's end. A success changes nothing.
static inline const char *pennyMPIGetLastError(void) {
    return pennyMPISentence_;
}

// Makes a communicator of the ranks of mpiComm, in their order: rank i there is rank i here. All ranks of mpiComm call it, in one
// order with their collective calls on mpiComm. Each call makes another communicator, also of the same ranks. They may be on several
// hosts (docs/hosts.md); no variable need be set.
//
// comm: written on success, and with pennyInProgress; the caller owns it until pennyCommDestroy or pennyCommAbort, which may also
// be called after MPI_Finalize.
// mpiComm: any intracommunicator. It is not kept: its owner may free it afterwards.
// config: from PENNY_CONFIG_INITIALIZER, read during the call only; NULL means all defaults.
//
// Results besides pennySuccess:
//
//     pennyInvalidArgument   mpiComm is MPI_COMM_NULL or an intercommunicator: this rank returns at once. Or comm is NULL on one
//                            rank: all return this.
//     pennyInvalidUsage      the ranks are on several hosts, that is, MPI_COMM_TYPE_SHARED divides them, and PENNY_NET is `off` on
//                            rank 0: all return this.
//     pennySystemError       a function of MPI has failed on one rank, and the error handler of mpiComm returns. MPI's default
//                            handler ends the program instead.
//     others                 that of pennyGetUniqueId on rank 0: all return this. Those of pennyCommInitRankConfig.
//
// Between pennyGroupStart and pennyGroupEnd the ranks use MPI at once, and join at the end of the group; pennyGetLastError has the
// sentence if they cannot.
static inline pennyResult_t pennyCommInitMPI(pennyComm_t *comm, MPI_Comm mpiComm, const pennyConfig_t *config) {
    pennyMPICall_ call = {"pennyCommInitMPI", mpiComm, "mpiComm", -1, 0};
    int away = 0;
    pennyResult_t result = pennyMPIAdmit_(&call);
    if (result != pennySuccess) return result;
    result = pennyMPISurvey_(&call, &away);
    result = pennyMPIAgree_(&call, comm, result, &away);
    return result != pennySuccess ? result : pennyMPIJoin_(&call, comm, config, away);
}

// Makes a communicator of those ranks of mpiComm that are on the caller's host, in their order. All ranks of mpiComm call it. If
// they are on one host it is the communicator of pennyCommInitMPI. The hosts are told apart by MPI_COMM_TYPE_SHARED. What fails
// before the ranks of a host join is told to all ranks of mpiComm, what fails then to those of the host.
//
// comm, config: as for pennyCommInitMPI.
// hostComm: written on success, and with pennyInProgress: an MPI communicator of the same ranks in the same order, which the caller
// owns until MPI_Comm_free. NULL on all ranks of a host: none is wanted. c-examples/13_mpi sums over several hosts with it.
//
// Results: those of pennyCommInitMPI.
static inline pennyResult_t pennyCommInitMPIHost(pennyComm_t *comm, MPI_Comm *hostComm, MPI_Comm mpiComm,
                                                 const pennyConfig_t *config) {
    pennyMPICall_ all = {"pennyCommInitMPIHost", mpiComm, "mpiComm", -1, 0};
    pennyMPICall_ call = {"pennyCommInitMPIHost", MPI_COMM_NULL, "the host", -1, 0};
    int away = 0;
    pennyResult_t result = pennyMPIAdmit_(&all);
    if (result != pennySuccess) return result;
    result = pennyMPISplit_(&all, &call.comm);
    result = pennyMPIAgree_(&all, comm, result, &away);
    if (result == pennySuccess) result = pennyMPIAdmit_(&call);
    if (result == pennySuccess) result = pennyMPIJoin_(&call, comm, config, 0);
    if (hostComm != NULL && (result == pennySuccess || result == pennyInProgress)) {
        *hostComm = call.comm;
        return result;
    }
    if (call.comm != MPI_COMM_NULL) MPI_Comm_free(&call.comm);
    return result;
}

// A progress hook for pennySetProgress. MPI moves what is under way while it is called; the hook calls MPI_Iprobe and
// receives nothing.
//
//     rank 0                                            rank 1
//     pennySetProgress(pennyMPIProgress, NULL)
//     MPI_Isend of 8 MB to rank 1                       MPI_Recv of 8 MB from rank 0
//     pennyAllReduce                                    pennyAllReduce
//     MPI_Wait
//
// Without the hook the ranks may wait for each other until Penny's deadline: most MPI libraries send a large message in parts,
// while their functions are called. Rank 0 calls none in pennyAllReduce, where it waits for rank 1, and rank 1 waits for the
// message. A program without requests under way while it calls Penny needs no hook.
//
// userData: the address of an MPI_Comm, which must stay valid until the hook is removed or MPI is finalized; NULL: MPI_COMM_WORLD.
// Any communicator serves the messages of all, except one with the assertion mpi_assert_no_any_source or mpi_assert_no_any_tag. The
// hook is called on the thread that has set it, which must be one that may call MPI. It does nothing when MPI is finalized.
static inline void pennyMPIProgress(void *userData) {
    int over = 1, flag;
    if (MPI_Finalized(&over) != MPI_SUCCESS || over) return;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, userData != NULL ? *(MPI_Comm *)userData : MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

#ifdef __cplusplus
}
#endif

#endif /* PENNY_MPI_H */
