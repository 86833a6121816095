/* Programs whose ranks have several threads on a declared machine.

   TEST_FABRIC: the machine. TEST_ROUNDS: how often. */
#ifndef MACHINE_THREADS_H
#define MACHINE_THREADS_H

#include "machine.h"

#include <sched.h>

enum { MOST = 64 };

static const char *fabric;
static int rounds, threads;
static pennyComm_t world;

/* Held up by the host, in a way that differs from run to run. */
static inline void dawdle(unsigned *seed) {
    struct timespec a_while = {0, 0};
    switch (rand_r(seed) % 8) {
    case 0:
        a_while.tv_nsec = rand_r(seed) % 300000;
        nanosleep(&a_while, NULL);
        break;
    case 1:
    case 2:
        sched_yield();
        break;
    default:
        break;
    }
}

static inline unsigned seed_of(int thread) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (unsigned)time.tv_nsec ^ (unsigned)(rank * 1000 + thread);
}

/* All threads of this rank do it, and then the caller goes on. */
static inline void all_threads(void *(*work)(void *)) {
    pthread_t running[MOST];
    for (int t = 0; t < threads; t++) CHECK(pthread_create(&running[t], NULL, work, (void *)(intptr_t)t) == 0);
    for (int t = 0; t < threads; t++) CHECK(pthread_join(running[t], NULL) == 0);
}

static inline void begin_threads(void) {
    begin();
    fabric = getenv("TEST_FABRIC");
    rounds = number_of("TEST_ROUNDS");
}

#endif
