// Turns the status of a CUDA runtime call into an exception.
#ifndef CUTEDSL_QUANT_COMMON_CUDA_CHECK_H_
#define CUTEDSL_QUANT_COMMON_CUDA_CHECK_H_

#include <cuda_runtime_api.h>

#include <string>

#include "cutedsl_quant/quantize.h"

namespace cutedsl_quant {

// Throws CudaError naming `call` and the error, unless `status` is success.
inline void CheckCuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw CudaError(std::string(call) + " failed: " + cudaGetErrorName(status) + " (" +
                  cudaGetErrorString(status) + ")");
}

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CUDA_CHECK_H_
