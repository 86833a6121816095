/* A header of CUDA; everything is in cuda_runtime.h. */
#ifndef PENNY_CUDA_DEVICE_RUNTIME_API_H
#define PENNY_CUDA_DEVICE_RUNTIME_API_H

#include "cuda_runtime.h"

#endif
