// CUDA kernels for casts to MXFP8 and back: they serve every shape, alignment and size on compute
// capability 9.0 and up, whatever the CuTeDSL kernels refuse.
#ifndef CUTEDSL_QUANT_COMMON_CUDA_CAST_H_
#define CUTEDSL_QUANT_COMMON_CUDA_CAST_H_

#include <cstdint>

#include "common/dequantize_args.h"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/kernel_provider.h"
#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {
namespace cuda {

// Launch on args.stream, args.device being current. Throw CudaError if CUDA refuses the launch.

// Serves every legal configuration, and plain casts with 2-D blocks. With column sums, writes one
// row of args.dbias_workspace for every numerics::DbiasChunkRows rows of the input. args.noop is
// read by plain casts only.
void Quantize(const QuantizeConfig& config, const KernelArgs& args);
void Dequantize(const DequantizeArgs& args);

// dbias[col] = sum of `rows` x `cols` partial sums over the rows, always in the same order, rounded
// to `dtype` (kFloat32, kFloat16 or kBFloat16); zeros if there are no rows.
void ReduceDbias(const float* workspace, int64_t rows, int64_t cols, void* dbias, DType dtype,
                 Stream stream);

}  // namespace cuda
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CUDA_CAST_H_
