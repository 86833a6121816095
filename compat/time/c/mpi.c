/* A stand-in for a library of MPI, a library that calls it, as Python's modules do, and a program that loads the second for itself alone. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(MPI)
int MPI_Scatter(const void *from, int count, void *type, void *to, int to_count, void *to_type, int root, void *comm) {
    return from == (void *)1 && count == 2 && type == (void *)3 && to == (void *)4 && to_count == 5 && to_type == (void *)6 && root == 7 &&
                   comm == (void *)8
               ? 42
               : 1;
}
#elif defined(MODULE)
int MPI_Scatter(const void *from, int count, void *type, void *to, int to_count, void *to_type, int root, void *comm);

int scatter(void) {
    return MPI_Scatter((void *)1, 2, (void *)3, (void *)4, 5, (void *)6, 7, (void *)8);
}
#else
int main(void) {
    void *module = dlopen(getenv("TEST_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*scatter)(void) = (int (*)(void))dlsym(module, "scatter");
    printf("scattered: %d\n", scatter());
    return 0;
}
#endif
