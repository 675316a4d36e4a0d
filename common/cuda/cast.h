// CUDA kernels for casts to MXFP8 and back: they serve every shape, alignment and size on compute
// capability 9.0 and up, whatever the CuTeDSL kernels refuse.
#ifndef CUTEDSL_QUANT_COMMON_CUDA_CAST_H_
#define CUTEDSL_QUANT_COMMON_CUDA_CAST_H_

#include "common/dequantize_args.h"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/kernel_provider.h"

namespace cutedsl_quant {
namespace cuda {

// Launch on args.stream, args.device being current. Throw CudaError if CUDA refuses the launch.
// Quantize is a plain cast: configurations with a fusion or 2-D blocks are not served.
void Quantize(const QuantizeConfig& config, const KernelArgs& args);
void Dequantize(const DequantizeArgs& args);

}  // namespace cuda
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CUDA_CAST_H_
