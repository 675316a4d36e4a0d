#include "common/cuda/cast_kernel.cuh"

namespace cutedsl_quant {
namespace cuda {

CastKernelSelection SelectActivationCast(const QuantizeConfig& config, const KernelArgs& args) {
  return SelectFused<Fusion::kAct>(config, args);
}

}  // namespace cuda
}  // namespace cutedsl_quant
