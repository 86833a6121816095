/* Checks, and how ranks meet. A failed check ends the process: the other ranks then fail too and say so. */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE
#include <penny.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank = 0;
static int ranks = 1;

#define WHO "rank %d of %d: ", rank, ranks
#include "cases.h"
#include "meeting.h"

/* The call succeeds. */
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        pennyResult_t result_ = (call);                                                                                \
        if (result_ != pennySuccess) FAIL("%s: %s", pennyGetErrorString(result_), pennyGetLastError(NULL));            \
    } while (0)

/* The call fails in this way, and the sentence begins with the function's name and has the text in it. */
#define FAILS(expected, text, call)                                                                                    \
    do {                                                                                                               \
        pennyResult_t result_ = (call);                                                                                \
        if (result_ != (expected)) {                                                                                   \
            FAIL("%s returned %d, not %s: %s", #call, (int)result_, #expected, pennyGetLastError(NULL));               \
        }                                                                                                              \
        check_sentence(pennyGetLastError(NULL), #call, text, __LINE__);                                                \
    } while (0)

static inline void check_sentence(const char *sentence, const char *call, const char *text, int line) {
    size_t name = strcspn(call, "(");
    if (strncmp(sentence, call, name) != 0 || strncmp(sentence + name, ": ", 2) != 0) {
        FAIL("line %d: \"%s\" does not begin with \"%.*s: \"", line, sentence, (int)name, call);
    }
    if (strstr(sentence + name, text) == NULL) FAIL("line %d: \"%s\" does not say \"%s\"", line, sentence, text);
}

#define RUN(name) RUN_THEN(name, (void)0)

static inline int number_of(const char *variable) {
    const char *text = getenv(variable);
    if (text == NULL) FAIL("%s is not set: run this through the test harness", variable);
    return atoi(text);
}

/* Call first: who this process is. */
static inline void begin(void) {
    rank = number_of("TEST_RANK");
    ranks = number_of("TEST_RANKS");
}

/* How often: looking for races takes its time. An even number. */
static inline int often(int times) { return getenv("PENNY_CHECK") == NULL ? times : times / 40 * 2; }

static inline void post(const char *name) { post_bytes(name, "", 0); }
static inline void await(const char *name) { await_bytes(name, NULL, 0); }

/* The id of the next communicator, made by rank 0. */
static inline pennyUniqueId shared_id(void) {
    static int number = 0;
    char name[32];
    pennyUniqueId id;
    snprintf(name, sizeof name, "id%d", number++);
    if (rank == 0) {
        OK(pennyGetUniqueId(&id));
        post_bytes(name, &id, sizeof id);
    } else {
        await_bytes(name, &id, sizeof id);
    }
    return id;
}

/* A communicator of all ranks. */
static inline pennyComm_t join(void) {
    pennyComm_t comm = NULL;
    OK(pennyCommInitRank(&comm, ranks, shared_id(), rank));
    CHECK(comm != NULL);
    return comm;
}

/* The sum of the numbers that the ranks of a communicator have in the job. */
static inline float sum_over(pennyComm_t comm) {
    float mine = (float)rank, sum = -1;
    OK(pennyAllReduce(&mine, &sum, 1, pennyFloat, pennySum, comm, NULL));
    return sum;
}

#endif
