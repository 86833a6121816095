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

static const char *check_case = "-";
static int process = 0;
static int processes = 1;

#define FAIL(...)                                                                                                      \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: process %d of %d: %s: ", __FILE__, __LINE__, process, processes, check_case);          \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fputc('\n', stderr);                                                                                           \
        exit(1);                                                                                                       \
    } while (0)

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) FAIL("%s", #condition);                                                                      \
    } while (0)

#define CHECK_INT(got, expected)                                                                                       \
    do {                                                                                                               \
        long long got_ = (long long)(got), expected_ = (long long)(expected);                                          \
        if (got_ != expected_) FAIL("%s is %lld, not %lld", #got, got_, expected_);                                    \
    } while (0)

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

/* Runs one case, a function without arguments. */
#define RUN(name)                                                                                                      \
    do {                                                                                                               \
        check_case = #name;                                                                                            \
        name();                                                                                                        \
        printf("%s\n", #name);                                                                                         \
    } while (0)

static inline int number_of(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    return text == NULL ? otherwise : atoi(text);
}

/* Call first: who this process is. */
static inline void begin(void) {
    process = number_of("TEST_RANK", 0);
    processes = number_of("TEST_RANKS", 1);
}

static inline void nap(void) {
    struct timespec millisecond = {0, 1000000};
    nanosleep(&millisecond, NULL);
}

/* Tells the other processes something: a file appears, whole. */
static inline void post(const char *name, const void *bytes, size_t size) {
    char path[512], unfinished[520];
    snprintf(path, sizeof path, "%s/%s", getenv("TEST_DIR"), name);
    snprintf(unfinished, sizeof unfinished, "%s.new", path);
    FILE *file = fopen(unfinished, "wb");
    CHECK(file != NULL && (size == 0 || fwrite(bytes, size, 1, file) == 1) && fclose(file) == 0);
    CHECK(rename(unfinished, path) == 0);
}

/* Waits for it. The harness ends a wait without end. */
static inline void await(const char *name, void *bytes, size_t size) {
    char path[512];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", getenv("TEST_DIR"), name);
    while ((file = fopen(path, "rb")) == NULL) nap();
    CHECK((size == 0 || fread(bytes, size, 1, file) == 1) && fclose(file) == 0);
}

/* The id of the next communicator, made by process 0. */
static inline ncclUniqueId shared_id(void) {
    static int number = 0;
    char name[32];
    ncclUniqueId id;
    snprintf(name, sizeof name, "id%d", number++);
    if (process == 0) {
        OK(ncclGetUniqueId(&id));
        post(name, &id, sizeof id);
    } else {
        await(name, &id, sizeof id);
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
