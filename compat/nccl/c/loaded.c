/* A program that is not linked with the library loads it and looks for every name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, dlerror());                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

int main(void) {
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    char *names = strdup(getenv("TEST_NAMES"));
    for (char *name = strtok(names, " "); name != NULL; name = strtok(NULL, " ")) {
        CHECK(dlsym(library, name) != NULL);
        printf("%s\n", name);
    }
    free(names);
    ncclResult_t (*get_id)(ncclUniqueId *) = NULL;
    ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int) = NULL;
    ncclResult_t (*destroy)(ncclComm_t) = NULL;
    *(void **)&get_id = dlsym(library, "ncclGetUniqueId");
    *(void **)&init = dlsym(library, "ncclCommInitRank");
    *(void **)&destroy = dlsym(library, "ncclCommDestroy");
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    CHECK(get_id(&id) == ncclSuccess);
    CHECK(init(&comm, 1, id, 0) == ncclSuccess && comm != NULL);
    CHECK(destroy(comm) == ncclSuccess);
    return 0;
}
