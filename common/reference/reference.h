// The CPU reference: serves host tensors, and is what the other backends are compared with. Plain
// and synchronous. Results do not depend on the calling thread's floating-point environment.
#ifndef CUTEDSL_QUANT_COMMON_REFERENCE_REFERENCE_H_
#define CUTEDSL_QUANT_COMMON_REFERENCE_REFERENCE_H_

#include <cstdint>

#include "common/dequantize_args.h"
#include "common/swizzle_args.h"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/kernel_provider.h"
#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {
namespace reference {

// All pointers are host memory.

// Serves every legal configuration, and plain casts with 2-D blocks. With column sums, writes one
// row of args.dbias_workspace for every numerics::DbiasChunkRows rows of the input. args.noop is
// read by plain casts only.
void Quantize(const QuantizeConfig& config, const KernelArgs& args);

// dbias[col] = sum of `rows` x `cols` partial sums over the rows, from the first to the last,
// rounded to `dtype` (kFloat32, kFloat16 or kBFloat16); zeros if there are no rows.
void ReduceDbias(const float* workspace, int64_t rows, int64_t cols, void* dbias, DType dtype);

void Dequantize(const DequantizeArgs& args);

// Writes all of args.swizzled, zeros into its padding.
void SwizzleScales(const SwizzleArgs& args);
// Writes the valid region of args.compact.
void UnswizzleScales(const SwizzleArgs& args);

}  // namespace reference
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_REFERENCE_REFERENCE_H_
