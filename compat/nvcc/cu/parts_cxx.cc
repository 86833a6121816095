#include "parts.h"

#include <cuda_runtime.h>
#ifdef __CUDACC__
#error "a file of the host does not see a compiler of kernels"
#endif

int of_cxx(int value) { return value + 10; }
