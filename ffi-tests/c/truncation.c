/* A process of the same user shrinks every segment that it finds while the ranks use them. Needs PENNY_SHM=memfd. */
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Is it a segment? They have no name, but their descriptors have. */
static int is_segment(const char *path) {
    char link[256];
    ssize_t length = readlink(path, link, sizeof link - 1);
    if (length < 0) return 0;
    link[length] = 0;
    return strncmp(link, "/memfd:penny", 12) == 0 || strncmp(link, "/dev/shm/#", 10) == 0;
}

/* Shrinks every segment that a process has open; how often that was refused with EPERM. */
static int shrink(int pid) {
    char folder[64], path[512];
    int refused = 0;
    snprintf(folder, sizeof folder, "/proc/%d/fd", pid);
    DIR *open_files = opendir(folder);
    CHECK(open_files != NULL);
    for (struct dirent *entry; (entry = readdir(open_files)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (!is_segment(path)) continue;
        int file = open(path, O_RDWR);
        if (file < 0) continue; /* it was closed meanwhile */
        if (ftruncate(file, 0) == 0 || errno != EPERM) FAIL("%s was shrunk", path);
        CHECK(ftruncate(file, (off_t)1 << 50) != 0 && errno == EPERM);
        CHECK(open(path, O_RDWR | O_TRUNC) < 0);
        close(file);
        refused++;
    }
    closedir(open_files);
    return refused;
}

static void nobody_can_shrink_what_ranks_use(void) {
    enum { COUNT = 200000 };
    pennyComm_t comm = join();
    char name[32];
    int pid = (int)getpid();
    snprintf(name, sizeof name, "pid%d", rank);
    post_bytes(name, &pid, sizeof pid);
    float *heap, *own = malloc(COUNT * sizeof *own);
    CHECK(own != NULL);
    OK(pennyMemAlloc((void **)&heap, COUNT * sizeof *heap));
    OK(pennyShmemInit(comm));
    pid_t attacker = -1;
    if (rank == 0) {
        attacker = fork();
        CHECK(attacker >= 0);
        if (attacker == 0) {
            for (int round = 0; round < 100; round++) {
                for (int r = 0; r < ranks; r++) {
                    snprintf(name, sizeof name, "pid%d", r);
                    await_bytes(name, &pid, sizeof pid);
                    /* Its heap, and the communicator's segment. */
                    if (shrink(pid) < 2) _exit(2);
                }
            }
            _exit(0);
        }
    }
    /* Until the attacker has ended, and once more. */
    for (float over = 0, all = 0; all == 0;) {
        int status = -1;
        if (rank == 0 && waitpid(attacker, &status, WNOHANG) == attacker) {
            CHECK_INT(status, 0);
            over = 1;
        }
        OK(pennyAllReduce(&over, &all, 1, pennyFloat, pennyMax, comm, NULL));
        for (int i = 0; i < COUNT; i++) own[i] = heap[i] = (float)(rank + i % 10);
        OK(pennyAllReduce(own, own, COUNT, pennyFloat, pennySum, comm, NULL));
        OK(pennyAllReduce(heap, heap, COUNT, pennyFloat, pennySum, comm, NULL));
        for (int i = 0; i < COUNT; i++) {
            CHECK_INT(own[i], ranks * (ranks - 1) / 2 + ranks * (i % 10));
            CHECK_INT(heap[i], ranks * (ranks - 1) / 2 + ranks * (i % 10));
        }
    }
    OK(pennyShmemFinalize(comm));
    OK(pennyCommDestroy(comm));
    OK(pennyMemFree(heap));
    free(own);
}

int main(void) {
    begin();
    RUN(nobody_can_shrink_what_ranks_use);
    return 0;
}
