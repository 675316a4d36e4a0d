// How the CUDA kernels of this folder are launched.
#ifndef CUTEDSL_QUANT_COMMON_CUDA_LAUNCH_H_
#define CUTEDSL_QUANT_COMMON_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <string>

#include "common/cuda_check.h"

namespace cutedsl_quant {
namespace cuda {

// What CUDA does by itself at a kernel's first launch. Launches without blocks do only this.
inline void Load(const void* kernel) {
  cudaFuncAttributes attributes;
  CheckCuda(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
}

// One-dimensional, as all of them are. Only tensors of more than 2^33 rows of a few elements could
// need more blocks than CUDA takes; they must not be cut to what fits.
inline dim3 Grid(int64_t blocks) {
  constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();
  if (blocks > kMaxBlocks) {
    throw CudaError("a grid has at most " + std::to_string(kMaxBlocks) +
                    " blocks; the tensor needs " + std::to_string(blocks));
  }
  return dim3(static_cast<unsigned>(blocks));
}

// Sets a kernel up while the kernel before it in the stream still runs, which makes streams of
// short kernels faster and costs the host less. Every thread of `kernel` therefore calls
// cudaGridDependencySynchronize before it does anything else.
template <typename Params>
void Launch(void (*kernel)(Params), int64_t blocks, int threads, const Params& params,
            cudaStream_t stream) {
  const auto* const function = reinterpret_cast<const void*>(kernel);
  if (blocks == 0) return Load(function);
  void* args[] = {const_cast<Params*>(&params)};
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = Grid(blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  // Not <<<>>>: its errors have to be fetched from where those of other calls wait too.
  CheckCuda(cudaLaunchKernelExC(&config, function, args), "cudaLaunchKernelExC");
}

inline bool IsAligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

}  // namespace cuda
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CUDA_LAUNCH_H_
