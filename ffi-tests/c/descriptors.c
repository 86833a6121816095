/* A program that closes all descriptors but the usual three, those of the library with them, and opens files of its own. */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 64
#define BYTES (16 << 20)

/* Waits until the thread that has brought the ranks together is gone: it closes its connections when they have what they need. */
static void await_the_end_of_the_meeting(void) {
    int looks, is_there = 1;
    for (looks = 0; is_there && looks < 2000; looks++) {
        DIR *threads = opendir("/proc/self/task");
        struct dirent *one;
        is_there = 0;
        while ((one = readdir(threads)) != NULL) {
            char path[300], name[32] = "";
            FILE *file;
            snprintf(path, sizeof path, "/proc/self/task/%s/comm", one->d_name);
            file = fopen(path, "r");
            if (file == NULL) continue;
            is_there |= fgets(name, sizeof name, file) != NULL && strncmp(name, "penny-meet", 10) == 0;
            fclose(file);
        }
        closedir(threads);
        if (is_there) usleep(5000);
    }
    CHECK(!is_there);
}

static void a_file_that_gets_the_descriptor_of_the_librarys_memory_stays_as_it_is(void) {
    pennyComm_t comm, other;
    void *before, *after;
    char name[] = "/tmp/penny-descriptors-XXXXXX", *text = malloc(BYTES), *read = malloc(BYTES);
    struct stat about;
    int file, i;
    CHECK(text != NULL && read != NULL);
    memset(text, 'x', BYTES);
    OK(pennyCommInitRank(&comm, ranks, shared_id(), rank));
    OK(pennyMemAlloc(&before, 4 << 20));
    OK(pennyShmemInit(comm));
    OK(pennyBarrier(comm, NULL));
    await_the_end_of_the_meeting();
    /* What the harness reads of this process ends with its output. */
    for (i = 3; i < 3 + FILES; i++) close(i);
    file = mkstemp(name);
    CHECK(file == 3 && unlink(name) == 0);
    CHECK(write(file, text, BYTES) == BYTES);
    for (i = 1; i < FILES; i++) CHECK(dup(file) == 3 + i);

    /* What needs no more memory goes on; what does is refused. */
    OK(pennyAllReduce(text, read, BYTES / 4, pennyInt8, pennyMax, comm, NULL));
    FAILS(pennySystemError, "the program has closed file descriptor", pennyMemAlloc(&after, 64 << 20));
    CHECK(pennyCommDup(comm, &other) == pennySystemError);
    OK(pennyMemFree(before));
    OK(pennyCommDestroy(comm));

    CHECK(fstat(file, &about) == 0 && about.st_size == BYTES);
    CHECK(pread(file, read, BYTES, 0) == BYTES);
    CHECK(memcmp(text, read, BYTES) == 0);
    for (i = 0; i < FILES; i++) CHECK(fcntl(3 + i, F_GETFD) >= 0);
    free(text);
    free(read);
}

int main(void) {
    begin();
    RUN(a_file_that_gets_the_descriptor_of_the_librarys_memory_stays_as_it_is);
    return 0;
}
