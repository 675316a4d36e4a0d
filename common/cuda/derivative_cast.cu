#include "common/cuda/cast_kernel.cuh"

namespace cutedsl_quant {
namespace cuda {

CastKernelSelection SelectDerivativeCast(const QuantizeConfig& config, const KernelArgs& args) {
  return SelectFused<Fusion::kDact>(config, args);
}

}  // namespace cuda
}  // namespace cutedsl_quant
