/* What the files of one program share. */
#ifndef PARTS_H
#define PARTS_H

#ifdef __cplusplus
extern "C" {
#endif
int of_c(int value);
#ifdef __cplusplus
}
int of_cxx(int value);
#endif
#ifdef __CUDACC__
extern __device__ int shared_by_files;
__device__ int twice(int value);
__global__ void of_the_other(int *at);
#endif

#endif
