// Casts to MXFP8 and back under TransformerEngine's names. The functions of
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

// The same with the noop tensor and the block shape of `quant_config`, which may be null.
void nvte_quantize_v2(const NVTETensor input, NVTETensor output,
                      const NVTEQuantizationConfig quant_config, cudaStream_t stream);

// The same for each of `num_tensors` pairs of tensors. The message of an InvalidArgument ends
// with the number of the pair that it is about; the pairs before it are done.
void nvte_multi_tensor_quantize(const NVTETensor* inputs, NVTETensor* outputs,
                                const NVTEQuantizationConfig quant_config, const size_t num_tensors,
                                cudaStream_t stream);

// QuantizeDbias. Called with a `workspace` that is not allocated, it only sets the workspace's
// shape and type and returns; the caller allocates that and calls again. An input without elements
// needs none: its dbias is zeroed at once.
void nvte_quantize_dbias(const NVTETensor input, NVTETensor output, NVTETensor dbias,
                         NVTETensor workspace, cudaStream_t stream);

// QuantizeDbiasDActivation, in the same two steps.
void nvte_quantize_dbias_dgelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                               NVTETensor dbias, NVTETensor workspace, cudaStream_t stream);
void nvte_quantize_dbias_dsilu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                               NVTETensor dbias, NVTETensor workspace, cudaStream_t stream);
void nvte_quantize_dbias_drelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                               NVTETensor dbias, NVTETensor workspace, cudaStream_t stream);
void nvte_quantize_dbias_dqgelu(const NVTETensor grad, const NVTETensor act_input,
                                NVTETensor output, NVTETensor dbias, NVTETensor workspace,
                                cudaStream_t stream);
void nvte_quantize_dbias_dsrelu(const NVTETensor grad, const NVTETensor act_input,
                                NVTETensor output, NVTETensor dbias, NVTETensor workspace,
                                cudaStream_t stream);

// Writes the rowwise data of `output` from one direction of `input`: rowwise if it is allocated,
// else columnwise.
void nvte_dequantize(const NVTETensor input, NVTETensor output, cudaStream_t stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TRANSFORMER_ENGINE_CAST_H_
