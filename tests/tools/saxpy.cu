#include <cuda_fp8.h>

#include "tests/tools/saxpy.h"

namespace cutedsl_quant_test {
namespace {

__host__ __device__ float Saxpy(float x, float y) { return SAXPY_FACTOR * x + y; }

__global__ void SaxpyKernel(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = Saxpy(x[i], y[i]);
}

}  // namespace

float SaxpyOnHost(float x, float y) { return Saxpy(x, y); }

cudaError_t LaunchSaxpy(float* y, const float* x, int n, cudaStream_t stream) {
  SaxpyKernel<<<(n + 127) / 128, 128, 0, stream>>>(y, x, n);
  return cudaGetLastError();
}

}  // namespace cutedsl_quant_test
