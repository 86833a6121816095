/* Checks, and how processes meet. A failed check ends the process: the other ranks then fail too and say so. */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE
#include <nccl.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int process = 0;
static int processes = 1;

#define WHO "process %d of %d: ", process, processes
#include "cases.h"
#include "meeting.h"

/* The call succeeds. */
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        ncclResult_t result_ = (call);                                                                                 \
        if (result_ != ncclSuccess) FAIL("%s: %s: %s", #call, ncclGetErrorString(result_), ncclGetLastError(NULL));    \
    } while (0)

/* The call fails in this way, and the sentence begins with the function's name and has the text in it. */
#define FAILS(expected, text, call)                                                                                    \
    do {                                                                                                               \
        ncclResult_t result_ = (call);                                                                                 \
        if (result_ != (expected)) {                                                                                   \
            FAIL("%s returned %d, not %s: %s", #call, (int)result_, #expected, ncclGetLastError(NULL));                \
        }                                                                                                              \
        check_sentence(ncclGetLastError(NULL), #call, text, __LINE__);                                                 \
    } while (0)

static inline void check_sentence(const char *sentence, const char *call, const char *text, int line) {
    const char *function = call[0] == 'p' ? call + 1 : call;
    size_t name = strcspn(function, "(");
    if (strncmp(sentence, function, name) != 0 || strncmp(sentence + name, ": ", 2) != 0) {
        FAIL("line %d: \"%s\" does not begin with \"%.*s: \"", line, sentence, (int)name, function);
    }
    if (strstr(sentence + name, text) == NULL) FAIL("line %d: \"%s\" does not say \"%s\"", line, sentence, text);
}

#define RUN(name) RUN_THEN(name, (void)0)

static inline int number_of(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    return text == NULL ? otherwise : atoi(text);
}

/* Call first: who this process is. */
static inline void begin(void) {
    process = number_of("TEST_RANK", 0);
    processes = number_of("TEST_RANKS", 1);
}

/* The id of the next communicator, made by process 0. */
static inline ncclUniqueId shared_id(void) {
    static int number = 0;
    char name[32];
    ncclUniqueId id;
    snprintf(name, sizeof name, "id%d", number++);
    if (process == 0) {
        OK(ncclGetUniqueId(&id));
        post_bytes(name, &id, sizeof id);
    } else {
        await_bytes(name, &id, sizeof id);
    }
    return id;
}

#define MOST 8
/* The ranks of this process: local of them, from first on, of ranks in all. */
static int local = 1, first = 0, ranks = 1;
static ncclComm_t comms[MOST];

/* A communicator that has TEST_LOCAL ranks in each process. */
static inline void join(void) {
    local = number_of("TEST_LOCAL", 1);
    CHECK(local <= MOST);
    first = process * local;
    ranks = processes * local;
    if (processes == 1) {
        OK(ncclCommInitAll(comms, local, NULL));
        return;
    }
    ncclUniqueId id = shared_id();
    OK(ncclGroupStart());
    for (int i = 0; i < local; i++) OK(ncclCommInitRank(&comms[i], ranks, id, first + i));
    OK(ncclGroupEnd());
}

static inline void leave(void) {
    for (int i = 0; i < local; i++) OK(ncclCommDestroy(comms[i]));
}

/* Makes a call for each rank of this process; i is its index. */
#define ALL(call)                                                                                                      \
    do {                                                                                                               \
        OK(ncclGroupStart());                                                                                          \
        for (int i = 0; i < local; i++) OK(call);                                                                      \
        OK(ncclGroupEnd());                                                                                            \
    } while (0)

#endif
