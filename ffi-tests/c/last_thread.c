/* The main thread leaves by pthread_exit: the process lives as long as another thread of the program does, and no longer. */
#include "check.h"

#include <unistd.h>

static pennyComm_t comm;
static pennyStream_t stream;

static void a_communicator_and_a_stream_are_made(void) {
    pennyUniqueId unused;
    OK(pennyGetUniqueId(&unused));
    comm = join();
    OK(pennyStreamCreate(&stream));
    OK(pennyBarrier(comm, stream));
    OK(pennyStreamSynchronize(stream));
}

static void a_thread_outlives_the_main_thread(void) {
    int mine = rank, sum = -1;
    /* Longer than the library takes to see that the main thread has ended. */
    sleep(3);
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, comm, NULL));
    CHECK_INT(sum, ranks * (ranks - 1) / 2);
    OK(pennyStreamDestroy(stream));
    OK(pennyCommDestroy(comm));
}

static void *last_thread(void *unused) {
    (void)unused;
    RUN(a_thread_outlives_the_main_thread);
    return NULL;
}

static void at_the_end(void) {
    puts("what_is_registered_for_the_end_is_called");
}

int main(void) {
    pthread_t thread;
    begin();
    CHECK(atexit(at_the_end) == 0);
    RUN(a_communicator_and_a_stream_are_made);
    CHECK(pthread_create(&thread, NULL, last_thread, NULL) == 0);
    CHECK(pthread_detach(thread) == 0);
    pthread_exit(NULL);
}
