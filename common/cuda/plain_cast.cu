#include "common/cuda/cast_kernel.cuh"

namespace cutedsl_quant {
namespace cuda {

CastKernelSelection SelectPlainCast(const QuantizeConfig& config, const KernelArgs& args) {
  return WithElementType(config.dtype, [&](auto type) {
    return SelectVector<Fusion::kNone, decltype(type), 8, 2, 1>(config, args);
  });
}

}  // namespace cuda
}  // namespace cutedsl_quant
