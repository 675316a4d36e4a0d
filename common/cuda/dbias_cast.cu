#include "common/cuda/cast_kernel.cuh"

namespace cutedsl_quant {
namespace cuda {

CastKernelSelection SelectDbiasCast(const QuantizeConfig& config, const KernelArgs& args) {
  return SelectFused<Fusion::kDbias>(config, args);
}

}  // namespace cuda
}  // namespace cutedsl_quant
