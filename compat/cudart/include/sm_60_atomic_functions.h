/* A header of CUDA; everything is in cuda_runtime.h. */
#ifndef PENNY_SM_60_ATOMIC_FUNCTIONS_H
#define PENNY_SM_60_ATOMIC_FUNCTIONS_H

#include "cuda_runtime.h"

#endif
