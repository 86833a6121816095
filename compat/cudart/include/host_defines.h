/* What a CUDA compiler knows: on the host these words mean nothing. */
#ifndef PENNY_HOST_DEFINES_H
#define PENNY_HOST_DEFINES_H

#define __host__
#define __device__
#define __global__
#define __constant__
#define __managed__
#define __shared__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define CUDARTAPI
#define CUDART_CB
#ifndef __align__
#define __align__(n) __attribute__((aligned(n)))
#endif

#endif
