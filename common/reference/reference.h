// The CPU reference: serves host tensors, and is what the other backends are compared with. Plain
// and synchronous.
#ifndef CUTEDSL_QUANT_COMMON_REFERENCE_REFERENCE_H_
#define CUTEDSL_QUANT_COMMON_REFERENCE_REFERENCE_H_

#include "common/dequantize_args.h"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/kernel_provider.h"

namespace cutedsl_quant {
namespace reference {

// A plain cast: configurations with a fusion or 2-D blocks are not served. All pointers are host
// memory.
void Quantize(const QuantizeConfig& config, const KernelArgs& args);

// dbias[col] = sum of `rows` x `cols` partial sums over the rows, from the first to the last,
// rounded to `dtype` (kFloat32, kFloat16 or kBFloat16); zeros if there are no rows.
void ReduceDbias(const float* workspace, int64_t rows, int64_t cols, void* dbias, DType dtype);

void Dequantize(const DequantizeArgs& args);

}  // namespace reference
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_REFERENCE_REFERENCE_H_
