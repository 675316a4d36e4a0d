// A device function, a kernel and a host function: what cuda_library has to get through both
// compilers.
#ifndef CUTEDSL_QUANT_TESTS_TOOLS_SAXPY_H_
#define CUTEDSL_QUANT_TESTS_TOOLS_SAXPY_H_

#include <cuda_runtime_api.h>

namespace cutedsl_quant_test {

// SAXPY_FACTOR * x + y, computed by the __host__ side of a __host__ __device__ function.
float SaxpyOnHost(float x, float y);

// Launches the kernel; returns what the CUDA runtime says of it.
cudaError_t LaunchSaxpy(float* y, const float* x, int n, cudaStream_t stream);

// From a .cc file of the same library.
int SaxpyFactor();

}  // namespace cutedsl_quant_test

#endif  // CUTEDSL_QUANT_TESTS_TOOLS_SAXPY_H_
