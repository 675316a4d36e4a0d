// How the CUDA kernels of this folder are launched.
#ifndef CUTEDSL_QUANT_COMMON_CUDA_LAUNCH_H_
#define CUTEDSL_QUANT_COMMON_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda_check.h"

namespace cutedsl_quant {
namespace cuda {

// What CUDA does by itself at a kernel's first launch. Launches without blocks do only this.
inline void Load(const void* kernel) {
  cudaFuncAttributes attributes;
  CheckCuda(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
}

// Grids are one-dimensional: 2^31 - 1 blocks there are more than any memory holds of our tiles.
template <typename Params>
void Launch(void (*kernel)(Params), int64_t blocks, int threads, const Params& params,
            cudaStream_t stream) {
  const auto* const function = reinterpret_cast<const void*>(kernel);
  if (blocks == 0) return Load(function);
  void* args[] = {const_cast<Params*>(&params)};
  // Not <<<>>>: its errors have to be fetched from where those of other calls wait too.
  CheckCuda(cudaLaunchKernel(function, dim3(static_cast<unsigned>(blocks)),
                             dim3(static_cast<unsigned>(threads)), args, 0, stream),
            "cudaLaunchKernel");
}

// Launches a kernel that calls cudaGridDependencySynchronize before it touches what kernels before
// it in the stream may write or read: it is set up while the last of them still runs.
template <typename Params>
void LaunchDependent(void (*kernel)(Params), int64_t blocks, int threads, const Params& params,
                     cudaStream_t stream) {
  const auto* const function = reinterpret_cast<const void*>(kernel);
  if (blocks == 0) return Load(function);
  void* args[] = {const_cast<Params*>(&params)};
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  CheckCuda(cudaLaunchKernelExC(&config, function, args), "cudaLaunchKernelExC");
}

inline bool IsAligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

}  // namespace cuda
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CUDA_LAUNCH_H_
