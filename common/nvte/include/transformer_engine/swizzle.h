// Layouts of MXFP8 scales under TransformerEngine's names: SwizzleScales and UnswizzleScales of
// cutedsl_quant/quantize.h. The scaling mode of both tensors is NVTE_MXFP8_1D_SCALING. A direction
// is asked for by allocating its scales in both; data is neither read nor written.
#ifndef TRANSFORMER_ENGINE_SWIZZLE_H_
#define TRANSFORMER_ENGINE_SWIZZLE_H_

#include "transformer_engine/transformer_engine.h"

#ifdef __cplusplus
extern "C" {
#endif

// Rearranges compact scales into the 128x4 tiles that a GEMM reads. The shape of the data says
// which of them are padding, which becomes zero.
void nvte_swizzle_scaling_factors(const NVTETensor input, NVTETensor output, cudaStream_t stream);

// Rearranges the tiles back. Fills the whole scale buffers of `output`: if they are padded, what
// stands in the padding of `input` goes along.
void nvte_unswizzle_scaling_factors(const NVTETensor input, NVTETensor output, cudaStream_t stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TRANSFORMER_ENGINE_SWIZZLE_H_
