// Activations fused with a cast to MXFP8, under TransformerEngine's names: QuantizeActivation and
// QuantizeDActivation of cutedsl_quant/quantize.h. The scaling mode of `output` is
// NVTE_MXFP8_1D_SCALING; otherwise what cast.h says holds here too.
#ifndef TRANSFORMER_ENGINE_ACTIVATION_H_
#define TRANSFORMER_ENGINE_ACTIVATION_H_

#include "transformer_engine/transformer_engine.h"

#ifdef __cplusplus
extern "C" {
#endif

// Quantize activation(input).
void nvte_gelu(const NVTETensor input, NVTETensor output, cudaStream_t stream);
void nvte_silu(const NVTETensor input, NVTETensor output, cudaStream_t stream);
void nvte_relu(const NVTETensor input, NVTETensor output, cudaStream_t stream);
void nvte_qgelu(const NVTETensor input, NVTETensor output, cudaStream_t stream);
void nvte_srelu(const NVTETensor input, NVTETensor output, cudaStream_t stream);

// Quantize grad * derivative(act_input), `act_input` being what the activation was given.
void nvte_dgelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                cudaStream_t stream);
void nvte_dsilu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                cudaStream_t stream);
void nvte_drelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                cudaStream_t stream);
void nvte_dqgelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                 cudaStream_t stream);
void nvte_dsrelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                 cudaStream_t stream);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TRANSFORMER_ENGINE_ACTIVATION_H_
