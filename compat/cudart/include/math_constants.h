/* Constants of CUDA's mathematics. */
#ifndef PENNY_MATH_CONSTANTS_H
#define PENNY_MATH_CONSTANTS_H

#include <math.h>

#define CUDART_INF_F ((float)INFINITY)
#define CUDART_NAN_F ((float)NAN)
#define CUDART_MAX_NORMAL_F 3.402823466e+38f
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_PI_F 3.141592654f
#define CUDART_INF ((double)INFINITY)
#define CUDART_NAN ((double)NAN)
#define CUDART_ZERO 0.0
#define CUDART_ONE 1.0
#define CUDART_PI 3.14159265358979323846
#define CUDART_SQRT_TWO 1.41421356237309504880

#endif
