/* How the processes of a test program tell each other something: by files in TEST_DIR. Include a header with CHECK before. */
#ifndef MEETING_H
#define MEETING_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline void nap(void) {
    struct timespec millisecond = {0, 1000000};
    nanosleep(&millisecond, NULL);
}

static inline void path_of(char *path, size_t size, const char *name) {
    snprintf(path, size, "%s/%s", getenv("TEST_DIR"), name);
}

/* Tells the other ranks something that is not the library's business: a file appears, whole. */
static inline void post_bytes(const char *name, const void *bytes, size_t size) {
    char path[512], unfinished[520];
    path_of(path, sizeof path, name);
    snprintf(unfinished, sizeof unfinished, "%s.new", path);
    FILE *file = fopen(unfinished, "wb");
    CHECK(file != NULL && (size == 0 || fwrite(bytes, size, 1, file) == 1) && fclose(file) == 0);
    CHECK(rename(unfinished, path) == 0);
}

/* Waits for it. The harness ends a wait without end. */
static inline void await_bytes(const char *name, void *bytes, size_t size) {
    char path[512];
    FILE *file;
    path_of(path, sizeof path, name);
    while ((file = fopen(path, "rb")) == NULL) nap();
    CHECK((size == 0 || fread(bytes, size, 1, file) == 1) && fclose(file) == 0);
}

#endif
