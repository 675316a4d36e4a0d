// CUDA kernels that rearrange scales.
#ifndef CUTEDSL_QUANT_COMMON_CUDA_SWIZZLE_H_
#define CUTEDSL_QUANT_COMMON_CUDA_SWIZZLE_H_

#include "common/swizzle_args.h"

namespace cutedsl_quant {
namespace cuda {

// Launch on args.stream, args.device being current. Throw CudaError if CUDA refuses the launch.

// Writes all of args.swizzled, zeros into its padding.
void SwizzleScales(const SwizzleArgs& args);
// Writes the valid region of args.compact.
void UnswizzleScales(const SwizzleArgs& args);

}  // namespace cuda
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CUDA_SWIZZLE_H_
