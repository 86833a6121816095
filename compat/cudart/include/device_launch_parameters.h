/* A header of CUDA; everything is in cuda_runtime.h. */
#ifndef PENNY_DEVICE_LAUNCH_PARAMETERS_H
#define PENNY_DEVICE_LAUNCH_PARAMETERS_H

#include "cuda_runtime.h"

#endif
