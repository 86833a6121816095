/* The profiler's functions, which do nothing, are in cuda_runtime_api.h. */
#ifndef PENNY_CUDA_PROFILER_API_H
#define PENNY_CUDA_PROFILER_API_H
#include "cuda_runtime_api.h"
#endif
