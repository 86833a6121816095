/* A program that knows nothing of declared machines: its clock stands while it computes, and sleeps move it by as much as they were asked for. */
#define WHO " "
#include "cases.h"
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const long long MS = 1000000;

static long long at(clockid_t clock) {
    struct timespec now;
    CHECK(clock_gettime(clock, &now) == 0);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static struct timespec later(clockid_t clock, long long ns) {
    long long then = at(clock) + ns;
    return (struct timespec){then / 1000000000, then % 1000000000};
}

static void compute(void) {
    volatile double sum = 0;
    for (int i = 0; i < 30000000; i++) sum += sqrt(i);
}

static void computing_takes_no_time(void) {
    const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME};
    for (int i = 0; i < 4; i++) {
        long long began = at(clocks[i]);
        compute();
        CHECK_INT(at(clocks[i]) - began, 0);
    }
    struct timeval began, now;
    gettimeofday(&began, NULL);
    compute();
    gettimeofday(&now, NULL);
    CHECK_INT(now.tv_usec, began.tv_usec);
    CHECK_INT(now.tv_sec, began.tv_sec);
    CHECK_INT(time(NULL), began.tv_sec);
    struct timespec day;
    CHECK_INT(timespec_get(&day, TIME_UTC), TIME_UTC);
    CHECK_INT(day.tv_sec, began.tv_sec);
}

static void what_a_process_computes_is_real(void) {
    long long began = at(CLOCK_PROCESS_CPUTIME_ID);
    compute();
    CHECK(at(CLOCK_PROCESS_CPUTIME_ID) > began);
}

/* Runs a statement; the program's clock has moved by so much then. */
#define TAKES(ns, statement)                                                                                           \
    do {                                                                                                               \
        long long began_ = at(CLOCK_MONOTONIC);                                                                        \
        statement;                                                                                                     \
        CHECK_INT(at(CLOCK_MONOTONIC) - began_, ns);                                                                   \
    } while (0)

static void sleeps_take_as_long_as_was_asked(void) {
    struct timespec ten = {0, 10 * MS};
    TAKES(10 * MS, CHECK(nanosleep(&ten, NULL) == 0));
    TAKES(10 * MS, CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &ten, NULL) == 0));
    TAKES(7 * MS, CHECK(usleep(7000) == 0));
    TAKES(1000 * MS, CHECK(sleep(1) == 0));
    TAKES(5 * MS, CHECK(poll(NULL, 0, 5) == 0));
    struct timeval three = {0, 3000};
    TAKES(3 * MS, CHECK(select(0, NULL, NULL, NULL, &three) == 0));
    int events = epoll_create1(0);
    struct epoll_event event;
    TAKES(4 * MS, CHECK(epoll_wait(events, &event, 1, 4) == 0));
    close(events);
    TAKES(0, CHECK(poll(NULL, 0, 0) == 0));
}

static void sleeps_and_waits_end_at_a_time_of_the_programs_clock(void) {
    compute(); /* The clocks of the program and of this machine are apart now. */
    struct timespec then = later(CLOCK_MONOTONIC, 20 * MS);
    TAKES(20 * MS, CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) == 0));
    TAKES(0, CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) == 0));
    then = later(CLOCK_REALTIME, 8 * MS);
    TAKES(8 * MS, CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &then, NULL) == 0));

    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    then = later(CLOCK_REALTIME, 6 * MS);
    TAKES(6 * MS, CHECK(sem_timedwait(&semaphore, &then) == -1 && errno == ETIMEDOUT));
    then = later(CLOCK_MONOTONIC, 6 * MS);
    TAKES(6 * MS, CHECK(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &then) == -1 && errno == ETIMEDOUT));
    sem_post(&semaphore);
    then = later(CLOCK_REALTIME, 6 * MS);
    TAKES(0, CHECK(sem_timedwait(&semaphore, &then) == 0));

    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER, by_monotonic;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&by_monotonic, &attributes);
    pthread_mutex_lock(&lock);
    then = later(CLOCK_REALTIME, 9 * MS);
    TAKES(9 * MS, CHECK_INT(pthread_cond_timedwait(&never, &lock, &then), ETIMEDOUT));
    then = later(CLOCK_MONOTONIC, 9 * MS);
    TAKES(9 * MS, CHECK_INT(pthread_cond_timedwait(&by_monotonic, &lock, &then), ETIMEDOUT));
    then = later(CLOCK_MONOTONIC, 9 * MS);
    TAKES(9 * MS, CHECK_INT(pthread_cond_clockwait(&never, &lock, CLOCK_MONOTONIC, &then), ETIMEDOUT));
    then = later(CLOCK_REALTIME, 2 * MS);
    TAKES(2 * MS, CHECK_INT(pthread_mutex_timedlock(&lock, &then), ETIMEDOUT));
    then = later(CLOCK_MONOTONIC, 2 * MS);
    TAKES(2 * MS, CHECK_INT(pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &then), ETIMEDOUT));
    pthread_mutex_unlock(&lock);
}

static void a_loop_that_waits_for_a_time_ends(void) {
    long long end = at(CLOCK_MONOTONIC) + 50 * MS;
    long loops = 0;
    while (at(CLOCK_MONOTONIC) < end) loops++;
    CHECK(loops > 1000);
}

static void bad_arguments_are_libcs(void) {
    struct timespec wrong = {0, -1};
    CHECK(nanosleep(&wrong, NULL) == -1 && errno == EINVAL);
    CHECK_INT(clock_nanosleep(CLOCK_MONOTONIC, 0, &wrong, NULL), EINVAL);
    CHECK_INT(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wrong, NULL), EINVAL);
    struct timespec now;
    CHECK(clock_gettime(12345, &now) == -1 && errno == EINVAL);
}

/* A library's looks at the clock are answered with this machine's time, unless PENNY_VIRTUAL_TIME_IN names it. */
static void libraries_have_this_machines_time(void) {
    void *library = dlopen(getenv("TEST_LIBRARY"), RTLD_NOW);
    if (library == NULL) FAIL("%s", dlerror());
    long long (*theirs)(void);
    *(void **)&theirs = dlsym(library, "now_of_library");
    CHECK(theirs != NULL);
    usleep(1); /* Looks with something between cost no time. */
    long long began = theirs();
    compute();
    int is_named = getenv("PENNY_VIRTUAL_TIME_IN") != NULL;
    CHECK_INT(theirs() > began, !is_named);
}

int main(void) {
    RUN_THEN(computing_takes_no_time, );
    RUN_THEN(what_a_process_computes_is_real, );
    RUN_THEN(sleeps_take_as_long_as_was_asked, );
    RUN_THEN(sleeps_and_waits_end_at_a_time_of_the_programs_clock, );
    RUN_THEN(a_loop_that_waits_for_a_time_ends, );
    RUN_THEN(bad_arguments_are_libcs, );
    RUN_THEN(libraries_have_this_machines_time, );
    return 0;
}
