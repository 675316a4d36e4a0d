// How the CUDA kernels of this folder are launched.
#ifndef CUTEDSL_QUANT_COMMON_CUDA_LAUNCH_H_
#define CUTEDSL_QUANT_COMMON_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda_check.h"

namespace cutedsl_quant {
namespace cuda {

// Grids are one-dimensional: 2^31 - 1 blocks there are more than any memory holds of our tiles.
template <typename Params>
void Launch(void (*kernel)(Params), int64_t blocks, int threads, const Params& params,
            cudaStream_t stream) {
  void* args[] = {const_cast<Params*>(&params)};
  // Not <<<>>>: its errors have to be fetched from where those of other calls wait too.
  CheckCuda(
      cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                       dim3(static_cast<unsigned>(threads)), args, 0, stream),
      "cudaLaunchKernel");
}

inline bool IsAligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

}  // namespace cuda
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CUDA_LAUNCH_H_
