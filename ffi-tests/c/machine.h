/* Ranks on a declared machine. */
#ifndef MACHINE_H
#define MACHINE_H

#include "check.h"

/* A communicator of all ranks on this machine. */
static inline pennyComm_t join_machine(const char *fabric) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyComm_t made = NULL;
    config.fabric = fabric;
    OK(pennyCommInitRankConfig(&made, ranks, shared_id(), rank, &config));
    return made;
}

/* This rank's clock on the machine, in picoseconds. */
static inline uint64_t now_on(pennyComm_t comm) {
    uint64_t ps = 0;
    OK(pennyFabricNow(comm, &ps));
    return ps;
}

/* Only what TEST_CASE names, or all. */
static inline int wanted(const char *name) {
    const char *only = getenv("TEST_CASE");
    return only == NULL || strcmp(only, name) == 0;
}

#define RUN_WANTED(name)                                                                                               \
    do {                                                                                                               \
        if (wanted(#name)) RUN(name);                                                                                  \
    } while (0)

#endif
