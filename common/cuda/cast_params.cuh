// What the cast kernels of this folder are launched with, and how one is chosen.
#ifndef CUTEDSL_QUANT_COMMON_CUDA_CAST_PARAMS_CUH_
#define CUTEDSL_QUANT_COMMON_CUDA_CAST_PARAMS_CUH_

#include <cstdint>

#include "common/activations.h"
#include "common/cuda/device_math.cuh"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/kernel_provider.h"

namespace cutedsl_quant {
namespace cuda {

struct ScaleOutput {
  uint8_t* data;
  int64_t stride;       // compact: bytes between rows of the buffer
  int64_t inner_tiles;  // swizzled: see numerics::SwizzledIndex
};

struct CastParams {
  const void* input;
  const void* act_input;
  numerics::ActivationFunction activation;
  uint8_t* rowwise_data;
  uint8_t* columnwise_data;
  ScaleOutput rowwise_scale;
  ScaleOutput columnwise_scale;
  float* amax;
  float* dbias_workspace;
  const float* noop;
  int64_t rows;
  int64_t cols;
  // Swizzled scales are computed for the padded extent: blocks without elements get the scale 0,
  // which is what the padding has to hold.
  int64_t tiles;
  GridColumns tile_columns;
  bool swizzled;
};

using CastKernelPointer = void (*)(CastParams);

struct CastKernelSelection {
  CastKernelPointer kernel;
  int vec;  // tiles side by side in a block of threads
  int warps;
  int tile_rows;
};

// The kernel for a configuration and the alignment of its tensors; one function for each family of
// fusions, in a file and thus a module of its own, so that a process loads what it uses.
CastKernelSelection SelectPlainCast(const QuantizeConfig& config, const KernelArgs& args);
CastKernelSelection SelectActivationCast(const QuantizeConfig& config, const KernelArgs& args);
CastKernelSelection SelectDerivativeCast(const QuantizeConfig& config, const KernelArgs& args);
CastKernelSelection SelectDbiasCast(const QuantizeConfig& config, const KernelArgs& args);
CastKernelSelection SelectSquareBlocksCast(const QuantizeConfig& config, const KernelArgs& args);

}  // namespace cuda
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CUDA_CAST_PARAMS_CUH_
