// The functions of quantize.h on host matrices under C names, for test_reference_oracle.py.
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "cutedsl_quant/config.h"
#include "cutedsl_quant/quantize.h"

namespace {

using cutedsl_quant::Device;
using cutedsl_quant::DType;
using cutedsl_quant::QuantizeConfig;
using cutedsl_quant::QuantizedTensor;
using cutedsl_quant::Tensor;

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

// What the configuration takes besides its output.
struct Inputs {
  Tensor input;
  Tensor act_input;
  Tensor noop;
};

void Call(const QuantizeConfig& config, const Inputs& inputs, const QuantizedTensor& output) {
  if (config.with_act) {
    QuantizeActivation(config.activation, inputs.input, output, nullptr);
  } else if (config.with_dact) {
    QuantizeDActivation(config.activation, inputs.input, inputs.act_input, output, nullptr);
  } else {
    Quantize(inputs.input, output, {inputs.noop}, nullptr);
  }
}

// Twice: the first call says what the workspace has to be.
void CallWithDbias(const QuantizeConfig& config, const Inputs& inputs,
                   const QuantizedTensor& output, const Tensor& dbias) {
  Tensor workspace;
  const auto call = [&] {
    if (config.with_dact) {
      QuantizeDbiasDActivation(config.activation, inputs.input, inputs.act_input, output, dbias,
                               &workspace, nullptr);
    } else {
      QuantizeDbias(inputs.input, output, dbias, &workspace, nullptr);
    }
  };
  call();
  std::vector<float> sums(workspace.size());
  workspace.data = sums.data();
  call();
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
    QuantizedTensor output;
    output.rowwise_data = View(rowwise_data, config.fp8_dtype);
    output.rowwise_scale_inv = View(rowwise_scale_inv, DType::kFloat8E8M0);
    output.columnwise_data = View(columnwise_data, config.fp8_dtype);
    output.columnwise_scale_inv = View(columnwise_scale_inv, DType::kFloat8E8M0);
    output.amax = Scalar(amax);
    output.swizzled_scales = config.swizzled;
    const Inputs inputs = {View(input, config.dtype), View(act_input, config.dtype), Scalar(noop)};
    config.with_dbias ? CallWithDbias(config, inputs, output, View(dbias, config.dtype))
                      : Call(config, inputs, output);
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
