// The library as TVM-FFI functions, for Python, JAX, Rust and others: libcutedsl_quant_ffi.so,
// loaded as a TVM-FFI module.
//
// Tensors are whatever TVM-FFI takes as a DLTensor; outputs are passed in. Where a type is lacking,
// the unsigned integers of its size stand for it: uint16 for bfloat16 (input, and output of
// dequantize), uint8 for float8_e8m0fnu (scales) and for FP8 data, which `fp8_dtype` then names
// ("e4m3" or "e5m2"). `stream` is a cudaStream_t as pointer or integer; None is TVM-FFI's current
// stream of the tensor's device.
//
// InvalidArgument arrives as ValueError, CudaError as RuntimeError.
#include <cuda_runtime_api.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>

#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/quantize.h"
#include "cutedsl_quant/stats.h"
#include "ffi_bridge/cutedsl_provider.h"
#include "ffi_bridge/dtype.h"
#include "ffi_bridge/errors.h"

namespace cutedsl_quant {
namespace {

namespace ffi = tvm::ffi;

using OptionalTensor = ffi::Optional<ffi::TensorView>;

// One tensor argument.
struct Role {
  std::string name;  // "<function>: <argument>", for messages
  const char* accepted;
  // What unsigned integers stand for.
  std::optional<DType> uint8;
  std::optional<DType> uint16;
};

constexpr char kWideTypes[] = "float32, float16 and bfloat16 (or its bits as uint16)";
constexpr char kFp8Types[] =
    "float8_e4m3fn and float8_e5m2 (or, with fp8_dtype, their bits as uint8)";
constexpr char kScaleTypes[] = "float8_e8m0fnu (or its bits as uint8)";
constexpr char kFloatType[] = "float32";

Device ToDevice(const std::string& name, DLDevice device) {
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
      return {DeviceType::kCpu, 0};
    case kDLCUDA:
    case kDLCUDAManaged:
      return {DeviceType::kCuda, device.device_id};
    default:
      TVM_FFI_THROW(ValueError) << name << " has DLPack device type " << device.device_type
                                << "; host and CUDA memory are accepted";
  }
  TVM_FFI_UNREACHABLE();
}

// TVM-FFI has no names for some of DLPack's types.
std::string TypeName(DLDataType dtype) {
  try {
    return ffi::DLDataTypeToString(dtype);
  } catch (const ffi::Error&) {
    return "DLPack type code " + std::to_string(dtype.code) + " with " +
           std::to_string(dtype.bits) + " bits";
  }
}

DType ToDType(const Role& role, DLDataType dtype) {
  if (dtype.code == kDLUInt && dtype.lanes == 1) {
    if (dtype.bits == 8 && role.uint8) return *role.uint8;
    if (dtype.bits == 16 && role.uint16) return *role.uint16;
  }
  if (const auto known = FromDLDataType(dtype)) return *known;
  const std::string came = TypeName(dtype);
  TVM_FFI_THROW(ValueError) << role.name << " has type " << came << "; " << role.accepted
                            << " are accepted";
  TVM_FFI_UNREACHABLE();
}

// Points into `view`, which must outlive the result.
Tensor ToTensor(const Role& role, const ffi::TensorView& view) {
  if (view.ndim() > kMaxDims) {
    TVM_FFI_THROW(ValueError) << role.name << " has " << view.ndim() << " dimensions; at most "
                              << kMaxDims << " are accepted";
  }
  Tensor tensor;
  tensor.data = view.data_ptr() == nullptr
                    ? nullptr
                    : static_cast<char*>(view.data_ptr()) + view.byte_offset();
  tensor.dtype = ToDType(role, view.dtype());
  tensor.device = ToDevice(role.name, view.device());
  tensor.ndim = view.ndim();
  for (int i = 0; i < tensor.ndim; ++i) tensor.shape[i] = view.size(i);
  tensor.strides = view.strides().data();
  return tensor;
}

Tensor ToTensor(const Role& role, const OptionalTensor& view) {
  return view.has_value() ? ToTensor(role, *view) : Tensor();
}

Stream ToStream(const char* function, const ffi::AnyView& stream, Device device) {
  if (device.type == DeviceType::kCpu) return nullptr;
  if (stream == nullptr) return static_cast<Stream>(TVMFFIEnvGetStream(kDLCUDA, device.index));
  if (const auto pointer = stream.as<void*>()) return static_cast<Stream>(*pointer);
  if (const auto number = stream.as<int64_t>()) return reinterpret_cast<Stream>(*number);
  TVM_FFI_THROW(ValueError) << function << ": stream is a " << stream.GetTypeKey()
                            << "; a pointer, an integer and None are accepted";
  TVM_FFI_UNREACHABLE();
}

std::optional<DType> ParseFp8(const std::string& function, const ffi::Optional<ffi::String>& name) {
  if (!name.has_value()) return std::nullopt;
  if (*name == "e4m3") return DType::kFloat8E4M3;
  if (*name == "e5m2") return DType::kFloat8E5M2;
  TVM_FFI_THROW(ValueError) << function << ": fp8_dtype is \"" << *name
                            << "\"; \"e4m3\" and \"e5m2\" are accepted";
  TVM_FFI_UNREACHABLE();
}

template <typename Call>
void WithErrorsTranslated(Call call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    TVM_FFI_THROW(ValueError) << error.what();
  } catch (const CudaError& error) {
    TVM_FFI_THROW(RuntimeError) << error.what();
  }
}

// The MXFP8 tensor of a call.
struct QuantizedViews {
  const OptionalTensor& rowwise_data;
  const OptionalTensor& rowwise_scale_inv;
  const OptionalTensor& columnwise_data;
  const OptionalTensor& columnwise_scale_inv;
  const ffi::Optional<ffi::String>& fp8_dtype;
  bool swizzled;
};

// `name` is the argument's.
QuantizedTensor ToQuantized(const std::string& function, const std::string& name,
                            const QuantizedViews& views) {
  const std::optional<DType> fp8 = ParseFp8(function, views.fp8_dtype);
  const std::string prefix = function + ": " + name + ".";
  const auto data = [&](const char* part, const OptionalTensor& view) {
    return ToTensor({prefix + part, kFp8Types, fp8, {}}, view);
  };
  const auto scales = [&](const char* part, const OptionalTensor& view) {
    return ToTensor({prefix + part, kScaleTypes, DType::kFloat8E8M0, {}}, view);
  };
  QuantizedTensor tensor;
  tensor.rowwise_data = data("rowwise_data", views.rowwise_data);
  tensor.rowwise_scale_inv = scales("rowwise_scale_inv", views.rowwise_scale_inv);
  tensor.columnwise_data = data("columnwise_data", views.columnwise_data);
  tensor.columnwise_scale_inv = scales("columnwise_scale_inv", views.columnwise_scale_inv);
  tensor.swizzled_scales = views.swizzled;
  return tensor;
}

void QuantizeExport(ffi::TensorView input, OptionalTensor rowwise_data,
                    OptionalTensor rowwise_scale_inv, OptionalTensor columnwise_data,
                    OptionalTensor columnwise_scale_inv, OptionalTensor amax, OptionalTensor noop,
                    ffi::Optional<ffi::String> fp8_dtype, bool swizzled, ffi::AnyView stream) {
  const Tensor in = ToTensor({"Quantize: input", kWideTypes, {}, DType::kBFloat16}, input);
  QuantizedTensor out = ToQuantized("Quantize", "output",
                                    {rowwise_data, rowwise_scale_inv, columnwise_data,
                                     columnwise_scale_inv, fp8_dtype, swizzled});
  out.amax = ToTensor({"Quantize: output.amax", kFloatType, {}, {}}, amax);
  QuantizeOptions options;
  options.noop = ToTensor({"Quantize: options.noop", kFloatType, {}, {}}, noop);
  WithErrorsTranslated(
      [&] { Quantize(in, out, options, ToStream("Quantize", stream, in.device)); });
}

// The function called `name`, as in configurations: "gelu", "dgelu", ...
Activation ParseActivation(const ffi::String& name) {
  const auto activation = ActivationFromName({name.data(), name.size()});
  if (activation && *activation != Activation::kNone) return *activation;
  TVM_FFI_THROW(ValueError) << "Quantize: activation is \"" << name
                            << "\"; relu, gelu, silu, qgelu, srelu and, with act_input, drelu, "
                               "dgelu, dsilu, dqgelu and dsrelu are accepted";
  TVM_FFI_UNREACHABLE();
}

// quantize with a fusion: an activation (forward without act_input, a derivative with it), column
// sums into dbias, or both of a derivative and column sums. Returns the shape of the float32
// workspace that a call with dbias needs; one that is given none only does that, unless the shape
// has no elements. Otherwise the shape is that of the workspace given, or empty.
ffi::Shape QuantizeFusedExport(ffi::TensorView input, OptionalTensor act_input,
                               ffi::Optional<ffi::String> activation, OptionalTensor rowwise_data,
                               OptionalTensor rowwise_scale_inv, OptionalTensor columnwise_data,
                               OptionalTensor columnwise_scale_inv, OptionalTensor amax,
                               OptionalTensor dbias, OptionalTensor workspace,
                               ffi::Optional<ffi::String> fp8_dtype, bool swizzled,
                               ffi::AnyView stream) {
  const auto wide = [](const char* name, const OptionalTensor& view) {
    return ToTensor({std::string("Quantize: ") + name, kWideTypes, {}, DType::kBFloat16}, view);
  };
  const Tensor in = wide("input", input);
  const Tensor act_in = wide("act_input", act_input);
  const Tensor sums = wide("dbias", dbias);
  Tensor scratch = ToTensor({"Quantize: workspace", kFloatType, {}, {}}, workspace);
  QuantizedTensor out = ToQuantized("Quantize", "output",
                                    {rowwise_data, rowwise_scale_inv, columnwise_data,
                                     columnwise_scale_inv, fp8_dtype, swizzled});
  out.amax = ToTensor({"Quantize: output.amax", kFloatType, {}, {}}, amax);
  const Stream to = ToStream("Quantize", stream, in.device);
  if (!activation.has_value() && (act_in.present() || !sums.present())) {
    TVM_FFI_THROW(ValueError) << "Quantize: activation is None, which is accepted with dbias and "
                                 "without act_input";
  }
  WithErrorsTranslated([&] {
    if (!activation.has_value()) return QuantizeDbias(in, out, sums, &scratch, to);
    const Activation function = ParseActivation(*activation);
    if (sums.present()) {
      return QuantizeDbiasDActivation(function, in, act_in, out, sums, &scratch, to);
    }
    if (act_in.present()) return QuantizeDActivation(function, in, act_in, out, to);
    QuantizeActivation(function, in, out, to);
  });
  return ffi::Shape(scratch.shape, scratch.shape + std::max(scratch.ndim, 0));
}

void DequantizeExport(OptionalTensor rowwise_data, OptionalTensor rowwise_scale_inv,
                      OptionalTensor columnwise_data, OptionalTensor columnwise_scale_inv,
                      ffi::Optional<ffi::String> fp8_dtype, bool swizzled, ffi::TensorView output,
                      ffi::AnyView stream) {
  const QuantizedTensor in = ToQuantized("Dequantize", "input",
                                         {rowwise_data, rowwise_scale_inv, columnwise_data,
                                          columnwise_scale_inv, fp8_dtype, swizzled});
  const Tensor out = ToTensor({"Dequantize: output", kWideTypes, {}, DType::kBFloat16}, output);
  WithErrorsTranslated([&] { Dequantize(in, out, ToStream("Dequantize", stream, out.device)); });
}

// Memory for outputs where no framework is there to ask for it.
class Allocator {
 public:
  void AllocData(DLTensor* tensor) {
    const size_t size = ffi::GetDataSize(*tensor);
    if (tensor->device.device_type == kDLCPU) {
      constexpr size_t kAlignment = 256;  // as cudaMalloc's
      tensor->data = std::aligned_alloc(kAlignment, (size / kAlignment + 1) * kAlignment);
      if (tensor->data == nullptr)
        TVM_FFI_THROW(MemoryError) << "no " << size << " bytes on the host";
      return;
    }
    int before = 0;
    cudaGetDevice(&before);
    cudaError_t error = cudaSetDevice(tensor->device.device_id);
    if (error == cudaSuccess) error = cudaMalloc(&tensor->data, size == 0 ? 1 : size);
    cudaSetDevice(before);
    if (error != cudaSuccess) {
      TVM_FFI_THROW(RuntimeError) << "no " << size << " bytes on cuda:" << tensor->device.device_id
                                  << ": " << cudaGetErrorString(error);
    }
  }
  void FreeData(DLTensor* tensor) {
    tensor->device.device_type == kDLCPU ? std::free(tensor->data)
                                         : static_cast<void>(cudaFree(tensor->data));
  }
};

// An uninitialised tensor in ordinary memory of `device`: also where an array in pinned or managed
// memory says that it is.
ffi::Tensor EmptyExport(ffi::Shape shape, DLDataType dtype, DLDevice device) {
  for (const int64_t extent : shape) {
    if (extent >= 0) continue;
    TVM_FFI_THROW(ValueError) << "empty: shape has the dimension " << extent
                              << "; dimensions must not be negative";
  }
  const Device place = ToDevice("empty: device", device);
  const auto type = place.type == DeviceType::kCuda ? kDLCUDA : kDLCPU;
  return ffi::Tensor::FromNDAlloc(Allocator(), shape, dtype, DLDevice{type, place.index});
}

// {"calls.cutedsl": 1, ..., "misses.disabled": 0, ...}
ffi::Map<ffi::String, int64_t> StatsExport() {
  std::vector<CutedslQuantCounter> counters(cutedsl_quant_stats(nullptr, 0));
  cutedsl_quant_stats(counters.data(), counters.size());
  ffi::Map<ffi::String, int64_t> stats;
  for (const auto& counter : counters) stats.Set(counter.name, static_cast<int64_t>(counter.count));
  return stats;
}

void ResetStatsExport() { ResetStats(); }

constexpr const char* kModeNames[] = {"off", "packaged", "jit"};  // by BackendMode

void SetBackendModeExport(ffi::String name) {
  for (size_t i = 0; i < std::size(kModeNames); ++i) {
    if (name == kModeNames[i]) return SetBackendMode(static_cast<BackendMode>(i));
  }
  TVM_FFI_THROW(ValueError) << "mode is \"" << name
                            << "\"; \"off\", \"packaged\" and \"jit\" are accepted";
}

ffi::String BackendModeExport() { return kModeNames[static_cast<size_t>(GetBackendMode())]; }

// Every package that was found, in order of precedence: path, status, message; and from its
// manifest, unless that could not be read, name, architecture, compute_capabilities, num_kernels.
ffi::Array<ffi::Map<ffi::String, ffi::Any>> PackagesExport() {
  ffi::Array<ffi::Map<ffi::String, ffi::Any>> packages;
  for (const auto& report : ProcessProvider().Packages()) {
    const PackageManifest& manifest = report.manifest;
    ffi::Array<int64_t> capabilities;
    for (int32_t capability : manifest.compute_capabilities) capabilities.push_back(capability);
    packages.push_back({{"path", report.path},
                        {"status", PackageStatusName(report.verdict.status)},
                        {"message", report.verdict.message},
                        {"name", manifest.name},
                        {"architecture", manifest.architecture},
                        {"compute_capabilities", capabilities},
                        {"num_kernels", static_cast<int64_t>(manifest.config_ids.size())}});
  }
  return packages;
}

// Why kernels could not be compiled or launched, latest last.
ffi::Array<ffi::String> RecentErrorsExport() {
  ffi::Array<ffi::String> errors;
  for (const std::string& error : RecentErrors()) errors.push_back(error);
  return errors;
}

}  // namespace
}  // namespace cutedsl_quant

TVM_FFI_DLL_EXPORT_TYPED_FUNC(quantize, cutedsl_quant::QuantizeExport)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(quantize_fused, cutedsl_quant::QuantizeFusedExport)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(dequantize, cutedsl_quant::DequantizeExport)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(empty, cutedsl_quant::EmptyExport)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(stats, cutedsl_quant::StatsExport)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(reset_stats, cutedsl_quant::ResetStatsExport)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(set_backend_mode, cutedsl_quant::SetBackendModeExport)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(backend_mode, cutedsl_quant::BackendModeExport)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(packages, cutedsl_quant::PackagesExport)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(recent_errors, cutedsl_quant::RecentErrorsExport)
