// The functions of quantize.h on host matrices under C names, for test_reference_oracle.py.
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "cutedsl_quant/config.h"
#include "cutedsl_quant/quantize.h"
#include "tools/bench/fusions.h"

namespace {

using cutedsl_quant::Device;
using cutedsl_quant::DType;
using cutedsl_quant::QuantizeConfig;
using cutedsl_quant::QuantizedTensor;
using cutedsl_quant::Tensor;
using cutedsl_quant::bench::CallTensors;
using cutedsl_quant::bench::RunCall;

// A matrix of bytes with a type; null data is "not given".
struct Matrix {
  void* data;
  int64_t rows;
  int64_t cols;
};

Tensor View(const Matrix& matrix, DType dtype) {
  if (matrix.data == nullptr) return {};
  return {matrix.data, dtype, Device{}, {matrix.rows, matrix.cols}};
}

Tensor Scalar(float* value) {
  if (value == nullptr) return {};
  return {value, DType::kFloat32, Device{}, {1}};
}

// With dbias twice: the first call says what the workspace has to be.
void Call(const QuantizeConfig& config, CallTensors& tensors) {
  RunCall(config, tensors, nullptr);
  if (!config.with_dbias) return;
  std::vector<float> sums(tensors.workspace.size());
  tensors.workspace.data = sums.data();
  RunCall(config, tensors, nullptr);
}

template <typename Function>
const char* MessageOf(Function function) {
  static thread_local std::string message;
  try {
    function();
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
    return message.c_str();
  }
}

}  // namespace

// Both return null, or the message of what was thrown.
extern "C" const char* TestQuantize(uint32_t config_id, Matrix input, Matrix act_input,
                                    Matrix rowwise_data, Matrix rowwise_scale_inv,
                                    Matrix columnwise_data, Matrix columnwise_scale_inv,
                                    float* amax, Matrix dbias, float* noop) {
  return MessageOf([=] {
    const QuantizeConfig config = QuantizeConfig::FromId(config_id).value();
    CallTensors tensors;
    tensors.input = View(input, config.dtype);
    tensors.act_input = View(act_input, config.dtype);
    tensors.dbias = View(dbias, config.dtype);
    tensors.options.noop = Scalar(noop);
    QuantizedTensor& output = tensors.output;
    output.rowwise_data = View(rowwise_data, config.fp8_dtype);
    output.rowwise_scale_inv = View(rowwise_scale_inv, DType::kFloat8E8M0);
    output.columnwise_data = View(columnwise_data, config.fp8_dtype);
    output.columnwise_scale_inv = View(columnwise_scale_inv, DType::kFloat8E8M0);
    output.amax = Scalar(amax);
    output.swizzled_scales = config.swizzled;
    Call(config, tensors);
  });
}

// Reads the direction of the configuration, which must be one; writes its dtype.
extern "C" const char* TestDequantize(uint32_t config_id, Matrix data, Matrix scale_inv,
                                      Matrix output) {
  return MessageOf([=] {
    const QuantizeConfig config = QuantizeConfig::FromId(config_id).value();
    QuantizedTensor input;
    (config.rowwise ? input.rowwise_data : input.columnwise_data) = View(data, config.fp8_dtype);
    (config.rowwise ? input.rowwise_scale_inv : input.columnwise_scale_inv) =
        View(scale_inv, DType::kFloat8E8M0);
    input.swizzled_scales = config.swizzled;
    cutedsl_quant::Dequantize(input, View(output, config.dtype), nullptr);
  });
}
