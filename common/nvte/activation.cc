#include "transformer_engine/activation.h"

#include "common/dispatcher.h"
#include "common/nvte/translate.h"

namespace cutedsl_quant {
namespace nvte {
namespace {

void Activate(const char* function, Activation activation, NVTETensor input, NVTETensor output,
              cudaStream_t stream) {
  if (const auto operands = TranslateOperands(function, "input", input, output)) {
    QuantizeActivationAs(function, activation, operands->input, operands->output, stream);
  }
}

void Derive(const char* function, Activation derivative, NVTETensor grad, NVTETensor act_input,
            NVTETensor output, cudaStream_t stream) {
  const NVTEBasicTensor& at = Handle(function, "act_input", act_input).views[kNVTERowwiseData];
  if (const auto operands = TranslateOperands(function, "grad", grad, output)) {
    QuantizeDActivationAs(function, derivative, operands->input,
                          Translate(at, operands->input.device), operands->output, stream);
  }
}

}  // namespace
}  // namespace nvte
}  // namespace cutedsl_quant

using cutedsl_quant::Activation;
using cutedsl_quant::nvte::Activate;
using cutedsl_quant::nvte::Derive;

void nvte_gelu(const NVTETensor input, NVTETensor output, cudaStream_t stream) {
  Activate(__func__, Activation::kGelu, input, output, stream);
}

void nvte_silu(const NVTETensor input, NVTETensor output, cudaStream_t stream) {
  Activate(__func__, Activation::kSilu, input, output, stream);
}

void nvte_relu(const NVTETensor input, NVTETensor output, cudaStream_t stream) {
  Activate(__func__, Activation::kRelu, input, output, stream);
}

void nvte_qgelu(const NVTETensor input, NVTETensor output, cudaStream_t stream) {
  Activate(__func__, Activation::kQGelu, input, output, stream);
}

void nvte_srelu(const NVTETensor input, NVTETensor output, cudaStream_t stream) {
  Activate(__func__, Activation::kSRelu, input, output, stream);
}

void nvte_dgelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                cudaStream_t stream) {
  Derive(__func__, Activation::kDGelu, grad, act_input, output, stream);
}

void nvte_dsilu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                cudaStream_t stream) {
  Derive(__func__, Activation::kDSilu, grad, act_input, output, stream);
}

void nvte_drelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                cudaStream_t stream) {
  Derive(__func__, Activation::kDRelu, grad, act_input, output, stream);
}

void nvte_dqgelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                 cudaStream_t stream) {
  Derive(__func__, Activation::kDQGelu, grad, act_input, output, stream);
}

void nvte_dsrelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                 cudaStream_t stream) {
  Derive(__func__, Activation::kDSRelu, grad, act_input, output, stream);
}
