/* A header of CUDA; everything is in cuda_runtime.h. */
#ifndef PENNY_MATH_FUNCTIONS_H
#define PENNY_MATH_FUNCTIONS_H

#include "cuda_runtime.h"

#endif
