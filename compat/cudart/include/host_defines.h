/* What a CUDA compiler knows. For penny-nvcc these words stay, under names of its own; for other compilers they mean nothing. */
#ifndef PENNY_HOST_DEFINES_H
#define PENNY_HOST_DEFINES_H

#define __host__
#ifdef PENNY_NVCC
#define __device__ __penny_device__
#define __global__ __penny_global__
#define __constant__ __penny_constant__
#define __managed__ __penny_managed__
#define __shared__ __penny_shared__
#else
#define __device__
#define __global__
#define __constant__
#define __managed__
#define __shared__
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __nv_pure__
#define CUDARTAPI
#define CUDART_CB
#ifndef __align__
#define __align__(n) __attribute__((aligned(n)))
#endif

#endif
