/* Cases of a test program, and checks. Define WHO before: a format and its arguments that say who fails. A failed check ends the process. */
#ifndef CASES_H
#define CASES_H

#include <stdio.h>
#include <stdlib.h>

static const char *check_case = "-";

#define FAIL(...)                                                                                                      \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                \
        fprintf(stderr, WHO);                                                                                          \
        fprintf(stderr, "%s: ", check_case);                                                                           \
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

/* Runs one case, a function without arguments, and `after`. */
#define RUN_THEN(name, after)                                                                                          \
    do {                                                                                                               \
        check_case = #name;                                                                                            \
        name();                                                                                                        \
        after;                                                                                                         \
        printf("%s\n", #name);                                                                                         \
    } while (0)

#endif
