/* src/sys/openmp.rs: a program with OpenMP, compiled with -fopenmp. Its runtime runs the pieces of large calls. */
#include "check.h"

#include <omp.h>
#include <unistd.h>

enum { COUNT = 500003 };
static int data[COUNT];

static void a_large_call(pennyComm_t comm) {
    for (int i = 0; i < COUNT; i++) data[i] = i + rank;
    OK(pennyAllReduce(data, data, COUNT, pennyInt, pennySum, comm, NULL));
    for (int i = 0; i < COUNT; i++) CHECK_INT(data[i], ranks * i + ranks * (ranks - 1) / 2);
}

/* What the library says of itself with PENNY_DEBUG=info goes to a file of this rank's. */
static void the_runtime_of_the_program_runs_the_pieces(void) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyComm_t comm = NULL;
    char path[512], name[32], said[4096] = "";
    int sum = 0;
    snprintf(name, sizeof name, "said%d", rank);
    path_of(path, sizeof path, name);
    CHECK(freopen(path, "w", stderr) != NULL);
#pragma omp parallel for reduction(+ : sum) num_threads(2)
    for (int i = 0; i < 100; i++) sum += i;
    CHECK_INT(sum, 4950);
    config.threads = 3;
    OK(pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
    a_large_call(comm);
    OK(pennyCommDestroy(comm));
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fread(said, 1, sizeof said - 1, file) > 0 && fclose(file) == 0);
    CHECK(strstr(said, "divided over 3 threads by the OpenMP runtime of the program") != NULL);
}

static void a_call_within_a_parallel_region_is_made_by_one_thread(void) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyComm_t comm = NULL;
    config.threads = 2;
    OK(pennyCommInitRankConfig(&comm, ranks, shared_id(), rank, &config));
#pragma omp parallel num_threads(2)
    {
#pragma omp master
        a_large_call(comm);
    }
    OK(pennyCommDestroy(comm));
}

int main(void) {
    begin();
    RUN(the_runtime_of_the_program_runs_the_pieces);
    RUN(a_call_within_a_parallel_region_is_made_by_one_thread);
    return 0;
}
