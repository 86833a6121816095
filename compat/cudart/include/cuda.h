/* The driver's interface is not there; this has its version and the types that programs of the runtime use. */
#ifndef PENNY_CUDA_H
#define PENNY_CUDA_H

#include "driver_types.h"

#define CUDA_VERSION 12080

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef cudaStream_t CUstream;
typedef cudaEvent_t CUevent;

#endif
