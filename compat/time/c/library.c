/* A library that looks at the clock. */
#include <time.h>

long long now_of_library(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}
