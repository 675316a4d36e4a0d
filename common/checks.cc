#include "common/checks.h"

#include <cstring>
#include <sstream>
#include <string>

#include "common/numerics.h"

namespace cutedsl_quant {
namespace {

using numerics::ScaleShape;

// ---- What messages are made of.

// A name, or the number that has none.
std::ostream& PrintNamed(std::ostream& stream, const char* name, int value) {
  stream << name;
  return std::strcmp(name, "unknown") == 0 ? stream << " (" << value << ")" : stream;
}

std::ostream& operator<<(std::ostream& stream, DType dtype) {
  return PrintNamed(stream, DTypeName(dtype), static_cast<int>(dtype));
}

std::ostream& operator<<(std::ostream& stream, Activation activation) {
  return PrintNamed(stream, ActivationName(activation), static_cast<int>(activation));
}

std::ostream& operator<<(std::ostream& stream, Device device) {
  if (device.type == DeviceType::kCpu) return stream << "the host";
  return stream << "cuda:" << device.index;
}

std::ostream& operator<<(std::ostream& stream, ScaleShape shape) {
  return stream << "(" << shape.rows << ", " << shape.cols << ")";
}

// The dimensions or strides of a tensor.
struct Extents {
  const int64_t* values;
  int count;
};

std::ostream& operator<<(std::ostream& stream, Extents extents) {
  stream << "(";
  for (int i = 0; i < extents.count; ++i) stream << (i == 0 ? "" : ", ") << extents.values[i];
  return stream << ")";
}

Extents ShapeOf(const Tensor& tensor) { return {tensor.shape, tensor.ndim}; }

template <typename... Parts>
[[noreturn]] [[gnu::noinline]] void Fail(const char* function, const Parts&... parts) {
  std::ostringstream message;
  message << function << ": ";
  (message << ... << parts);
  throw InvalidArgument(message.str());
}

// ---- One tensor by itself.

int64_t ElementSize(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    default:
      return 1;  // FP8 and scales; other types are refused before they are asked for
  }
}

void CheckShape(const char* function, const char* name, const Tensor& tensor) {
  if (tensor.ndim > kMaxDims) {
    Fail(function, name, " has ", tensor.ndim, " dimensions; at most ", kMaxDims, " are accepted");
  }
  // Zeros count as ones, so that no product of some of the dimensions can overflow either.
  int64_t bytes = ElementSize(tensor.dtype);
  for (int i = 0; i < tensor.ndim; ++i) {
    const int64_t extent = tensor.shape[i];
    if (extent < 0) {
      Fail(function, name, " has shape ", ShapeOf(tensor), "; dimensions must not be negative");
    }
    if (__builtin_mul_overflow(bytes, extent > 0 ? extent : 1, &bytes)) {
      Fail(function, name, " has shape ", ShapeOf(tensor), "; its size must fit 63 bits");
    }
  }
}

void CheckContiguous(const char* function, const char* name, const Tensor& tensor) {
  if (tensor.strides == nullptr || tensor.size() == 0) return;
  int64_t contiguous[kMaxDims];
  int64_t stride = 1;
  bool matches = true;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    contiguous[i] = stride;
    matches = matches && (tensor.shape[i] == 1 || tensor.strides[i] == stride);
    stride *= tensor.shape[i];
  }
  if (matches) return;
  Fail(function, name, " of shape ", ShapeOf(tensor), " has strides ",
       Extents{tensor.strides, tensor.ndim}, "; it must be contiguous, with strides ",
       Extents{contiguous, tensor.ndim});
}

void CheckData(const char* function, const char* name, const Tensor& tensor) {
  if (tensor.size() == 0) return;
  if (tensor.data == nullptr) {
    Fail(function, name, " of shape ", ShapeOf(tensor), " has a null data pointer");
  }
  const int64_t element_size = ElementSize(tensor.dtype);
  if (reinterpret_cast<uintptr_t>(tensor.data) % element_size != 0) {
    Fail(function, name, " at ", tensor.data, " is not aligned to its elements; ", tensor.dtype,
         " takes a multiple of ", element_size, " bytes");
  }
}

// Everything but the type, which each kind of tensor checks first.
void CheckMemory(const char* function, const char* name, const Tensor& tensor, Device device) {
  CheckShape(function, name, tensor);
  CheckContiguous(function, name, tensor);
  CheckData(function, name, tensor);
  if (tensor.device != device) {
    Fail(function, name, " is on ", tensor.device,
         "; all tensors of a call must be on one device, ", device);
  }
}

// ---- Kinds of tensors.

void CheckHighPrecision(const char* function, const char* name, const Tensor& tensor,
                        Device device) {
  if (!tensor.present()) Fail(function, name, " is not given");
  if (tensor.dtype != DType::kFloat32 && tensor.dtype != DType::kFloat16 &&
      tensor.dtype != DType::kBFloat16) {
    Fail(function, name, " has dtype ", tensor.dtype,
         "; float32, float16 and bfloat16 are accepted");
  }
  CheckMemory(function, name, tensor, device);
}

void CheckFp8(const char* function, const char* name, const Tensor& tensor, Device device) {
  if (tensor.dtype != DType::kFloat8E4M3 && tensor.dtype != DType::kFloat8E5M2) {
    Fail(function, name, " has dtype ", tensor.dtype,
         "; float8_e4m3fn and float8_e5m2 are accepted");
  }
  CheckMemory(function, name, tensor, device);
}

void CheckSameShape(const char* function, const char* name, const Tensor& tensor,
                    const char* other_name, const Tensor& other) {
  if (tensor.rows() == other.rows() && tensor.cols() == other.cols()) return;
  Fail(function, name, " has shape ", ShapeOf(tensor), "; the shape of ", other_name, " is ",
       ShapeOf(other));
}

// A second tensor of the input's type.
void CheckLike(const char* function, const char* name, const Tensor& tensor, const char* input_name,
               const Tensor& input) {
  if (!tensor.present()) Fail(function, name, " is not given");
  if (tensor.dtype != input.dtype) {
    Fail(function, name, " has dtype ", tensor.dtype, "; the dtype of ", input_name, " is ",
         input.dtype);
  }
  CheckMemory(function, name, tensor, input.device);
}

// One fp32 number, or nothing.
float* CheckScalar(const char* function, const char* name, const Tensor& tensor, Device device) {
  if (!tensor.present()) return nullptr;
  if (tensor.dtype != DType::kFloat32) {
    Fail(function, name, " has dtype ", tensor.dtype, "; float32 is accepted");
  }
  CheckMemory(function, name, tensor, device);
  if (tensor.size() != 1) {
    Fail(function, name, " has shape ", ShapeOf(tensor), "; (1) is accepted");
  }
  return static_cast<float*>(tensor.data);
}

// One direction of an MXFP8 tensor among the arguments.
struct Direction {
  const char* data_name;
  const char* scale_inv_name;
  bool colwise;
};

constexpr Direction kOutputRowwise = {"output.rowwise_data", "output.rowwise_scale_inv", false};
constexpr Direction kOutputColumnwise = {"output.columnwise_data", "output.columnwise_scale_inv",
                                         true};
constexpr Direction kInputRowwise = {"input.rowwise_data", "input.rowwise_scale_inv", false};
constexpr Direction kInputColumnwise = {"input.columnwise_data", "input.columnwise_scale_inv",
                                        true};

// The scales of an m x n tensor, needed because `other_name` is given; either buffer shape is
// accepted if they are compact.
ScaleView CheckScales(const char* function, const Direction& direction, const Tensor& scales,
                      const char* other_name, Device device, bool swizzled, int64_t m, int64_t n) {
  const char* const name = direction.scale_inv_name;
  if (!scales.present()) Fail(function, name, " is not given, but ", other_name, " is");
  if (scales.dtype != DType::kFloat8E8M0) {
    Fail(function, name, " has dtype ", scales.dtype, "; float8_e8m0fnu is accepted");
  }
  CheckMemory(function, name, scales, device);
  const ScaleShape padded = direction.colwise ? numerics::PaddedColumnwiseScaleShape(m, n)
                                              : numerics::PaddedRowwiseScaleShape(m, n);
  const ScaleShape exact = direction.colwise ? numerics::ExactColumnwiseScaleShape(m, n)
                                             : numerics::ExactRowwiseScaleShape(m, n);
  const ScaleView view{static_cast<uint8_t*>(scales.data), scales.rows(), scales.cols()};
  const bool is_padded = view.rows == padded.rows && view.cols == padded.cols;
  const bool is_exact = view.rows == exact.rows && view.cols == exact.cols;
  if (is_padded || (is_exact && !swizzled)) return view;
  if (swizzled) {
    Fail(function, name, " has shape ", ShapeOf(scales), "; ", padded,
         " is accepted for swizzled scales");
  }
  Fail(function, name, " has shape ", ShapeOf(scales), "; ", padded, " and ", exact,
       " are accepted");
}

// Data and scales of one direction of an MXFP8 tensor that is shaped like `like`.
ScaleView CheckDirection(const char* function, const Direction& direction, const Tensor& data,
                         const Tensor& scale_inv, bool swizzled, const char* like_name,
                         const Tensor& like) {
  CheckFp8(function, direction.data_name, data, like.device);
  CheckSameShape(function, direction.data_name, data, like_name, like);
  return CheckScales(function, direction, scale_inv, direction.data_name, like.device, swizzled,
                     data.rows(), data.cols());
}

void CheckNoScales(const char* function, const Direction& direction, const Tensor& scale_inv) {
  if (!scale_inv.present()) return;
  Fail(function, direction.scale_inv_name, " is given, but ", direction.data_name, " is not");
}

// ---- The arguments of quantizing functions.

// The given directions of the output, shaped like the input.
void CheckOutput(const QuantizeRequest& request, const char* input_name, QuantizeConfig& config,
                 KernelArgs& args) {
  const char* const function = request.function;
  const QuantizedTensor& output = request.output;
  config.rowwise = output.rowwise_data.present();
  config.colwise = output.columnwise_data.present();
  config.swizzled = output.swizzled_scales;
  config.with_amax = output.amax.present();
  if (!config.rowwise && !config.colwise) {
    Fail(function, "output has neither rowwise_data nor columnwise_data; at least one is needed");
  }
  if (config.rowwise) {
    args.rowwise_scale_inv =
        CheckDirection(function, kOutputRowwise, output.rowwise_data, output.rowwise_scale_inv,
                       config.swizzled, input_name, request.input);
    args.rowwise_data = static_cast<uint8_t*>(output.rowwise_data.data);
    config.fp8_dtype = output.rowwise_data.dtype;
  } else {
    CheckNoScales(function, kOutputRowwise, output.rowwise_scale_inv);
  }
  if (config.colwise) {
    args.columnwise_scale_inv =
        CheckDirection(function, kOutputColumnwise, output.columnwise_data,
                       output.columnwise_scale_inv, config.swizzled, input_name, request.input);
    args.columnwise_data = static_cast<uint8_t*>(output.columnwise_data.data);
    if (config.rowwise && output.columnwise_data.dtype != config.fp8_dtype) {
      Fail(function, "output.columnwise_data has dtype ", output.columnwise_data.dtype,
           "; the dtype of output.rowwise_data is ", config.fp8_dtype);
    }
    config.fp8_dtype = output.columnwise_data.dtype;
  } else {
    CheckNoScales(function, kOutputColumnwise, output.columnwise_scale_inv);
  }
  args.amax = CheckScalar(function, "output.amax", output.amax, request.input.device);
}

void CheckActivation(const QuantizeRequest& request, QuantizeConfig& config, KernelArgs& args) {
  if (request.activation == nullptr) return;
  const char* const function = request.function;
  config.activation = *request.activation;
  config.with_act = request.act_input == nullptr;
  config.with_dact = !config.with_act;
  if (config.with_act && !IsForward(config.activation)) {
    Fail(function, "activation is ", config.activation,
         "; relu, gelu, silu, qgelu and srelu are accepted");
  }
  if (config.with_act) return;
  if (!IsDerivative(config.activation)) {
    Fail(function, "derivative is ", config.activation,
         "; drelu, dgelu, dsilu, dqgelu and dsrelu are accepted");
  }
  CheckLike(function, "act_input", *request.act_input, "grad", request.input);
  CheckSameShape(function, "act_input", *request.act_input, "grad", request.input);
  args.act_input = request.act_input->data;
}

void CheckDbias(const QuantizeRequest& request, const char* input_name, QuantizeCall& call) {
  if (request.dbias == nullptr) return;
  const char* const function = request.function;
  const Tensor& dbias = *request.dbias;
  QuantizeConfig& config = call.config;
  KernelArgs& args = call.args;
  CheckLike(function, "dbias", dbias, input_name, request.input);
  if (dbias.size() != args.cols) {
    Fail(function, "dbias has shape ", ShapeOf(dbias), "; (", args.cols, ") is accepted");
  }
  config.with_dbias = true;
  call.dbias = dbias.data;
  args.dbias_workspace_rows =
      numerics::CeilDiv(args.rows, numerics::DbiasChunkRows(config.with_dact));

  if (request.workspace == nullptr) Fail(function, "workspace is null");
  const Tensor& workspace = *request.workspace;
  if (workspace.data == nullptr) return;
  if (workspace.dtype != DType::kFloat32) {
    Fail(function, "workspace has dtype ", workspace.dtype, "; float32 is accepted");
  }
  CheckMemory(function, "workspace", workspace, request.input.device);
  if (workspace.size() < args.dbias_workspace_rows * args.cols) {
    Fail(function, "workspace has shape ", ShapeOf(workspace), "; (", args.dbias_workspace_rows,
         ", ", args.cols, ") or more is needed");
  }
  args.dbias_workspace = static_cast<float*>(workspace.data);
}

// ---- The arguments of functions that rearrange scales.

void CheckLayout(const char* function, const char* name, const QuantizedTensor& tensor,
                 bool swizzled) {
  if (tensor.swizzled_scales == swizzled) return;
  constexpr const char* kNames[] = {"compact", "swizzled"};
  Fail(function, name, " has ", kNames[!swizzled], " scales; ", kNames[swizzled],
       " ones are accepted");
}

// One of the data tensors, which all have the shape that the scales belong to.
const Tensor& CheckAllData(const char* function, const QuantizedTensor& input,
                           const QuantizedTensor& output) {
  const struct {
    const char* name;
    const Tensor& data;
  } candidates[] = {{kInputRowwise.data_name, input.rowwise_data},
                    {kInputColumnwise.data_name, input.columnwise_data},
                    {kOutputRowwise.data_name, output.rowwise_data},
                    {kOutputColumnwise.data_name, output.columnwise_data}};
  const auto* first = &candidates[0];
  for (const auto& candidate : candidates) {
    if (!candidate.data.present()) continue;
    CheckShape(function, candidate.name, candidate.data);
    if (!first->data.present()) first = &candidate;
    CheckSameShape(function, candidate.name, candidate.data, first->name, first->data);
  }
  if (!first->data.present()) {
    Fail(function, "neither input nor output has data; the shape of one is needed");
  }
  return first->data;
}

}  // namespace

QuantizeCall CheckQuantize(const QuantizeRequest& request) {
  const char* const input_name = request.act_input == nullptr ? "input" : "grad";
  const Tensor& input = request.input;
  CheckHighPrecision(request.function, input_name, input, input.device);

  QuantizeCall call;
  call.config.dtype = input.dtype;
  call.args.rows = input.rows();
  call.args.cols = input.cols();
  call.args.input = input.data;
  call.args.device = input.device;
  call.args.stream = request.stream;
  CheckActivation(request, call.config, call.args);
  CheckOutput(request, input_name, call.config, call.args);
  CheckDbias(request, input_name, call);
  if (request.options != nullptr) {
    call.config.use_2d_quantization = request.options->use_2d_blocks;
    call.args.noop = CheckScalar(request.function, "noop", request.options->noop, input.device);
  }
  return call;
}

DequantizeArgs CheckDequantize(const char* function, const QuantizedTensor& input,
                               const Tensor& output, Stream stream) {
  const bool rowwise = input.rowwise_data.present();
  if (!rowwise && !input.columnwise_data.present()) {
    Fail(function, "input has neither rowwise_data nor columnwise_data; one is needed");
  }
  const Tensor& data = rowwise ? input.rowwise_data : input.columnwise_data;
  const Tensor& scale_inv = rowwise ? input.rowwise_scale_inv : input.columnwise_scale_inv;
  CheckHighPrecision(function, "output", output, data.device);

  DequantizeArgs args;
  args.scale_inv = CheckDirection(function, rowwise ? kInputRowwise : kInputColumnwise, data,
                                  scale_inv, input.swizzled_scales, "output", output);
  args.rows = data.rows();
  args.cols = data.cols();
  args.data = static_cast<const uint8_t*>(data.data);
  args.fp8_dtype = data.dtype;
  args.colwise = !rowwise;
  args.swizzled = input.swizzled_scales;
  args.output = output.data;
  args.dtype = output.dtype;
  args.device = data.device;
  args.stream = stream;
  return args;
}

SwizzleCall CheckSwizzle(const char* function, const QuantizedTensor& input,
                         const QuantizedTensor& output, bool to_swizzled, Stream stream) {
  CheckLayout(function, "input", input, !to_swizzled);
  CheckLayout(function, "output", output, to_swizzled);
  const Tensor& data = CheckAllData(function, input, output);
  const struct {
    const Direction& from;
    const Tensor& from_scales;
    const Direction& to;
    const Tensor& to_scales;
  } directions[] = {
      {kInputRowwise, input.rowwise_scale_inv, kOutputRowwise, output.rowwise_scale_inv},
      {kInputColumnwise, input.columnwise_scale_inv, kOutputColumnwise,
       output.columnwise_scale_inv}};

  SwizzleCall call;
  for (const auto& direction : directions) {
    if (!direction.to_scales.present()) continue;
    SwizzleArgs& args = call.directions[call.count++];
    args.rows = data.rows();
    args.cols = data.cols();
    args.colwise = direction.to.colwise;
    args.device = call.count == 1 ? direction.to_scales.device : call.directions[0].device;
    args.stream = stream;
    const ScaleView to =
        CheckScales(function, direction.to, direction.to_scales, direction.from.scale_inv_name,
                    args.device, to_swizzled, args.rows, args.cols);
    const ScaleView from =
        CheckScales(function, direction.from, direction.from_scales, direction.to.scale_inv_name,
                    args.device, !to_swizzled, args.rows, args.cols);
    args.compact = to_swizzled ? from : to;
    args.swizzled = to_swizzled ? to : from;
  }
  if (call.count == 0) {
    Fail(function,
         "output has neither rowwise_scale_inv nor columnwise_scale_inv; at least one is needed");
  }
  return call;
}

}  // namespace cutedsl_quant
