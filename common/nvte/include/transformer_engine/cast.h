// Casts to MXFP8 and back under TransformerEngine's names. Quantize and Dequantize of
// cutedsl_quant/quantize.h say what they do and which shapes and types they take; a direction is
// asked for by allocating its data.
//
// The device is that of the input's pointer. Host memory, pinned memory included, is served by the
// CPU at once, whatever the stream.
#ifndef TRANSFORMER_ENGINE_CAST_H_
#define TRANSFORMER_ENGINE_CAST_H_

#include "transformer_engine/transformer_engine.h"

#ifdef __cplusplus
extern "C" {
#endif

// Quantizes `input` into `output`, whose scaling mode is NVTE_MXFP8_1D_SCALING.
void nvte_quantize(const NVTETensor input, NVTETensor output, cudaStream_t stream);

// The same, unless the one fp32 of `noop` is 1 when the kernel runs. Null or not allocated: no
// flag.
void nvte_quantize_noop(const NVTETensor input, NVTETensor output, NVTETensor noop,
                        cudaStream_t stream);

// The same with the noop tensor of `quant_config`, which may be null.
void nvte_quantize_v2(const NVTETensor input, NVTETensor output,
                      const NVTEQuantizationConfig quant_config, cudaStream_t stream);

// Writes the rowwise data of `output` from one direction of `input`: rowwise if it is allocated,
// else columnwise.
void nvte_dequantize(const NVTETensor input, NVTETensor output, cudaStream_t stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TRANSFORMER_ENGINE_CAST_H_
