#include "transformer_engine/cast.h"

#include <string>

#include "common/dispatcher.h"
#include "common/nvte/translate.h"

namespace cutedsl_quant {
namespace nvte {
namespace {

void Cast(const char* function, NVTETensor input, NVTETensor output, NVTETensor noop,
          bool use_2d_blocks, cudaStream_t stream) {
  const auto operands = TranslateOperands(function, "input", input, output);
  if (!operands) return;
  QuantizeOptions options;
  options.use_2d_blocks = use_2d_blocks;
  if (noop != nullptr) {
    TranslateIfAllocated(Handle(function, "noop", noop).views[kNVTERowwiseData],
                         operands->input.device, &options.noop);
  }
  QuantizeAs(function, operands->input, operands->output, options, stream);
}

void CastAsConfigured(const char* function, NVTETensor input, NVTETensor output,
                      NVTEQuantizationConfig config, cudaStream_t stream) {
  Cast(function, input, output, NoopTensor(config), Uses2dBlocks(config), stream);
}

// Column sums take two calls: one to ask for the workspace, which is described in its handle, and
// one to run. `run` is given the translated dbias and workspace.
template <typename Run>
void WithWorkspace(const char* function, const char* input_name, NVTETensor input,
                   NVTETensor output, NVTETensor dbias, NVTETensor workspace, cudaStream_t stream,
                   const Run& run) {
  const NVTEBasicTensor& sums = Handle(function, "dbias", dbias).views[kNVTERowwiseData];
  NVTEBasicTensor& partial_sums = Handle(function, "workspace", workspace).views[kNVTERowwiseData];
  Tensor memory;
  if (const auto operands = TranslateOperands(function, input_name, input, output)) {
    const Device device = operands->input.device;
    memory = Translate(partial_sums, device);
    run(*operands, Translate(sums, device), &memory);
  } else {
    memory = Tensor(nullptr, DType::kFloat32, Device(), {0, Translate(sums, Device()).cols()});
    nvte_zero_tensor(dbias, stream);
  }
  if (partial_sums.data_ptr != nullptr) return;
  partial_sums.dtype = static_cast<NVTEDType>(memory.dtype);
  partial_sums.shape = {{static_cast<size_t>(memory.rows()), static_cast<size_t>(memory.cols())},
                        2};
}

void CastDbiasDActivation(const char* function, Activation derivative, NVTETensor grad,
                          NVTETensor act_input, NVTETensor output, NVTETensor dbias,
                          NVTETensor workspace, cudaStream_t stream) {
  const NVTEBasicTensor& at = Handle(function, "act_input", act_input).views[kNVTERowwiseData];
  WithWorkspace(function, "grad", grad, output, dbias, workspace, stream,
                [&](const Operands& operands, const Tensor& sums, Tensor* memory) {
                  QuantizeDbiasDActivationAs(function, derivative, operands.input,
                                             Translate(at, operands.input.device), operands.output,
                                             sums, memory, stream);
                });
}

}  // namespace
}  // namespace nvte
}  // namespace cutedsl_quant

using cutedsl_quant::Activation;
namespace nvte = cutedsl_quant::nvte;

void nvte_quantize(const NVTETensor input, NVTETensor output, cudaStream_t stream) {
  nvte::Cast(__func__, input, output, nullptr, false, stream);
}

void nvte_quantize_noop(const NVTETensor input, NVTETensor output, NVTETensor noop,
                        cudaStream_t stream) {
  nvte::Cast(__func__, input, output, noop, false, stream);
}

void nvte_quantize_v2(const NVTETensor input, NVTETensor output,
                      const NVTEQuantizationConfig quant_config, cudaStream_t stream) {
  nvte::CastAsConfigured(__func__, input, output, quant_config, stream);
}

void nvte_multi_tensor_quantize(const NVTETensor* inputs, NVTETensor* outputs,
                                const NVTEQuantizationConfig quant_config, const size_t num_tensors,
                                cudaStream_t stream) {
  using cutedsl_quant::InvalidArgument;
  if (num_tensors > 0 && (inputs == nullptr || outputs == nullptr)) {
    throw InvalidArgument(std::string(__func__) + ": " +
                          (inputs == nullptr ? "inputs" : "outputs") + " is null");
  }
  for (size_t i = 0; i < num_tensors; ++i) {
    try {
      nvte::CastAsConfigured(__func__, inputs[i], outputs[i], quant_config, stream);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(std::string(error.what()) + " (tensor " + std::to_string(i) + ")");
    }
  }
}

void nvte_quantize_dbias(const NVTETensor input, NVTETensor output, NVTETensor dbias,
                         NVTETensor workspace, cudaStream_t stream) {
  const char* const function = __func__;
  nvte::WithWorkspace(function, "input", input, output, dbias, workspace, stream,
                      [&](const nvte::Operands& operands, const cutedsl_quant::Tensor& sums,
                          cutedsl_quant::Tensor* memory) {
                        QuantizeDbiasAs(function, operands.input, operands.output, sums, memory,
                                        stream);
                      });
}

void nvte_quantize_dbias_dgelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                               NVTETensor dbias, NVTETensor workspace, cudaStream_t stream) {
  nvte::CastDbiasDActivation(__func__, Activation::kDGelu, grad, act_input, output, dbias,
                             workspace, stream);
}

void nvte_quantize_dbias_dsilu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                               NVTETensor dbias, NVTETensor workspace, cudaStream_t stream) {
  nvte::CastDbiasDActivation(__func__, Activation::kDSilu, grad, act_input, output, dbias,
                             workspace, stream);
}

void nvte_quantize_dbias_drelu(const NVTETensor grad, const NVTETensor act_input, NVTETensor output,
                               NVTETensor dbias, NVTETensor workspace, cudaStream_t stream) {
  nvte::CastDbiasDActivation(__func__, Activation::kDRelu, grad, act_input, output, dbias,
                             workspace, stream);
}

void nvte_quantize_dbias_dqgelu(const NVTETensor grad, const NVTETensor act_input,
                                NVTETensor output, NVTETensor dbias, NVTETensor workspace,
                                cudaStream_t stream) {
  nvte::CastDbiasDActivation(__func__, Activation::kDQGelu, grad, act_input, output, dbias,
                             workspace, stream);
}

void nvte_quantize_dbias_dsrelu(const NVTETensor grad, const NVTETensor act_input,
                                NVTETensor output, NVTETensor dbias, NVTETensor workspace,
                                cudaStream_t stream) {
  nvte::CastDbiasDActivation(__func__, Activation::kDSRelu, grad, act_input, output, dbias,
                             workspace, stream);
}

void nvte_dequantize(const NVTETensor input, NVTETensor output, cudaStream_t stream) {
  const nvte::TensorHandle& from = nvte::Handle(__func__, "input", input);
  const NVTEBasicTensor& to = nvte::Handle(__func__, "output", output).views[kNVTERowwiseData];
  if (nvte::IsEmpty(from.main())) return;
  const cutedsl_quant::Device device = nvte::DeviceOf(from.main().data_ptr);
  cutedsl_quant::DequantizeAs(__func__, nvte::TranslateQuantized(__func__, "input", from, device),
                              nvte::Translate(to, device), stream);
}
