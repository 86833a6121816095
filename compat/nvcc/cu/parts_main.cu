/* A program of several files: with -dc their functions and variables of devices are one program's. */
#include "check.h"
#include "parts.h"

__global__ void use(int *at) { at[threadIdx.x] = twice(at[threadIdx.x]) + shared_by_files; }

int main() {
    int *at = device<int>(4, [](int i) { return i; });
    of_the_other<<<1, 1>>>(at);
    use<<<1, 4>>>(at);
    CUDA(cudaDeviceSynchronize());
    CHECK(at[0] == 2 * 100 + 7 && at[3] == 2 * 3 + 7);
    CHECK(of_c(3) == 9 && of_cxx(3) == 13);
    std::puts("parts");
}
