#include "parts.h"

__device__ int shared_by_files = 3;
__device__ int twice(int value) { return 2 * value; }
__global__ void of_the_other(int *at) {
    at[0] = 100;
    shared_by_files += 4;
}
