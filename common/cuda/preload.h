// Loading the CUDA kernels of this folder ahead of their first launch, when CUDA would do it.
#ifndef CUTEDSL_QUANT_COMMON_CUDA_PRELOAD_H_
#define CUTEDSL_QUANT_COMMON_CUDA_PRELOAD_H_

namespace cutedsl_quant {
namespace cuda {

// All of them, on the current device. Throws CudaError if CUDA has none for it.
void Preload();

}  // namespace cuda
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CUDA_PRELOAD_H_
