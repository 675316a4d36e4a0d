#include "tests/gpu/call.h"

#include <algorithm>

namespace cutedsl_quant {
namespace testing {

std::string Shape::Name() const {
  std::string name;
  for (int64_t dim : dims) name += (name.empty() ? "" : "x") + std::to_string(dim);
  if (dims.empty()) name = "scalar";
  if (input_offset != 0) name += "_input" + std::to_string(input_offset);
  if (output_offset != 0) name += "_output" + std::to_string(output_offset);
  if (act_input_offset != 0) name += "_act_input" + std::to_string(act_input_offset);
  return name;
}

bool Call::skipped() const { return noop == 1.0f && config.IsCast(); }

std::string Call::Name() const {
  std::string name = config.Name() + " " + ScaleLayoutName(layout);
  if (noop) name += " noop=" + std::to_string(*noop);
  return name;
}

namespace {

Call MakeCall(QuantizeConfig fusion, DType dtype, DType fp8_dtype, int directions,
              ScaleLayout layout, bool with_amax) {
  fusion.dtype = dtype;
  fusion.fp8_dtype = fp8_dtype;
  fusion.rowwise = (directions & 1) != 0;
  fusion.colwise = (directions & 2) != 0;
  fusion.swizzled = layout == ScaleLayout::kSwizzled;
  fusion.with_amax = with_amax;
  return {fusion, layout, std::nullopt};
}

}  // namespace

std::vector<Call> AllCalls(const QuantizeConfig& fusion, DType dtype, DType fp8_dtype) {
  std::vector<Call> calls;
  for (int directions = 1; directions <= 3; ++directions) {
    for (ScaleLayout layout : kScaleLayouts) {
      for (bool with_amax : {false, true}) {
        calls.push_back(MakeCall(fusion, dtype, fp8_dtype, directions, layout, with_amax));
      }
    }
  }
  return calls;
}

std::vector<Call> FewCalls(const QuantizeConfig& fusion, DType dtype, DType fp8_dtype) {
  return {MakeCall(fusion, dtype, fp8_dtype, 1, ScaleLayout::kSwizzled, true),
          MakeCall(fusion, dtype, fp8_dtype, 2, ScaleLayout::kPadded, false),
          MakeCall(fusion, dtype, fp8_dtype, 3, ScaleLayout::kExact, true)};
}

bool IsSmooth(const QuantizeConfig& config) {
  switch (config.activation) {
    case Activation::kNone:
    case Activation::kRelu:
    case Activation::kSRelu:
    case Activation::kDRelu:
    case Activation::kDSRelu:
      return false;
    default:
      return true;
  }
}

Tensor MakeTensor(void* data, DType dtype, Device device, const std::vector<int64_t>& dims) {
  Tensor tensor(data, dtype, device, {});
  tensor.ndim = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), tensor.shape);
  return tensor;
}

}  // namespace testing
}  // namespace cutedsl_quant
