#include "transformer_engine/transformer_engine.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <string>

#include "common/cuda_check.h"
#include "common/device_guard.h"
#include "common/nvte/handles.h"
#include "common/nvte/translate.h"
#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/quantize.h"

namespace cutedsl_quant {
namespace nvte {
namespace {

[[noreturn]] void Fail(const char* function, const std::string& message) {
  throw InvalidArgument(std::string(function) + ": " + message);
}

TensorHandle& TensorOf(const char* function, NVTETensor tensor) {
  return Handle(function, "tensor", tensor);
}

NVTEBasicTensor& View(const char* function, NVTETensor tensor, NVTETensorParam param) {
  if (static_cast<size_t>(param) >= kNumViews) {
    Fail(function, "parameter " + std::to_string(param) + " is not a view; 0 to " +
                       std::to_string(kNumViews - 1) + " are");
  }
  return TensorOf(function, tensor).views[param];
}

void CheckDims(const char* function, size_t ndim) {
  if (ndim <= size_t{kMaxDims}) return;
  Fail(function, "ndim is " + std::to_string(ndim) + "; at most " + std::to_string(kMaxDims) +
                     " are accepted");
}

void SetView(const char* function, NVTETensor tensor, NVTETensorParam param,
             const NVTEBasicTensor& view) {
  CheckDims(function, view.shape.ndim);
  View(function, tensor, param) = view;
}

void CheckSize(const char* function, size_t size_in_bytes, size_t needed) {
  if (size_in_bytes >= needed) return;
  Fail(function, "size_in_bytes is " + std::to_string(size_in_bytes) + "; the value takes " +
                     std::to_string(needed));
}

// Where a parameter's value is kept.
struct Value {
  void* data;
  size_t size;
};

template <typename T>
Value ValueOf(T& variable) {
  return {&variable, sizeof(variable)};
}

Value ParamValue(const char* function, NVTETensor tensor, NVTETensorParam param) {
  switch (param) {
    case kNVTEWithGEMMSwizzledScales:
      return ValueOf(TensorOf(function, tensor).swizzled_scales);
    case kNVTERowScaledNVFP4:
      return ValueOf(TensorOf(function, tensor).row_scaled_nvfp4);
    case kNVTENVFP4E4M3Max:
      return ValueOf(TensorOf(function, tensor).nvfp4_e4m3_max);
    default:
      return ValueOf(View(function, tensor, param));
  }
}

size_t NumElements(const NVTEShape& shape) {
  size_t product = 1;
  for (size_t i = 0; i < shape.ndim; ++i) product *= shape.data[i];
  return product;
}

size_t ElementBits(const char* function, NVTEDType dtype) {
  switch (dtype) {
    case kNVTEFloat4E2M1:
      return 4;
    case kNVTEByte:
    case kNVTEFloat8E4M3:
    case kNVTEFloat8E5M2:
    case kNVTEFloat8E8M0:
      return 8;
    case kNVTEInt16:
    case kNVTEFloat16:
    case kNVTEBFloat16:
      return 16;
    case kNVTEInt32:
    case kNVTEFloat32:
      return 32;
    case kNVTEInt64:
      return 64;
    case kNVTENumTypes:
      break;
  }
  Fail(function, "dtype " + std::to_string(dtype) + " is unknown");
}

// The value of an attribute as its caller sees it is in the first bytes of its row.
struct ConfigHandle {
  unsigned char values[kNVTEQuantizationConfigNumAttributes][8] = {};
};

constexpr size_t kAttributeSizes[kNVTEQuantizationConfigNumAttributes] = {
    sizeof(uint8_t),    sizeof(float),   sizeof(NVTETensor), sizeof(int32_t),
    sizeof(NVTETensor), sizeof(uint8_t), sizeof(uint8_t),    sizeof(uint8_t),
    sizeof(uint8_t),    sizeof(uint8_t), sizeof(uint8_t),
};

Value AttributeValue(const char* function, NVTEQuantizationConfig config,
                     NVTEQuantizationConfigAttribute attribute) {
  if (config == nullptr) Fail(function, "config is null");
  if (static_cast<size_t>(attribute) >= kNVTEQuantizationConfigNumAttributes) {
    Fail(function, "attribute " + std::to_string(attribute) + " is unknown; 0 to " +
                       std::to_string(kNVTEQuantizationConfigNumAttributes - 1) + " are accepted");
  }
  return {static_cast<ConfigHandle*>(config)->values[attribute], kAttributeSizes[attribute]};
}

void Zero(void* data, size_t bytes, cudaStream_t stream) {
  if (data == nullptr || bytes == 0) return;
  const Device device = DeviceOf(data);
  if (device.type == DeviceType::kCpu) {
    std::memset(data, 0, bytes);
    return;
  }
  const DeviceGuard guard(device);
  CheckCuda(cudaMemsetAsync(data, 0, bytes, stream), "cudaMemsetAsync");
}

size_t NumBytes(const char* function, const NVTEBasicTensor& view) {
  return (NumElements(view.shape) * ElementBits(function, view.dtype) + 7) / 8;
}

// What the setters and getters of both kinds of handles do.
void Set(const char* function, Value value, const void* buf, size_t size_in_bytes) {
  if (buf == nullptr) Fail(function, "buf is null");
  CheckSize(function, size_in_bytes, value.size);
  std::memcpy(value.data, buf, value.size);
}

void Get(const char* function, Value value, void* buf, size_t size_in_bytes, size_t* size_written) {
  if (size_written != nullptr) *size_written = value.size;
  if (buf == nullptr) return;
  CheckSize(function, size_in_bytes, value.size);
  std::memcpy(buf, value.data, value.size);
}

}  // namespace

TensorHandle& Handle(const char* function, const char* what, NVTETensor tensor) {
  if (tensor == nullptr) Fail(function, std::string(what) + " is a null handle");
  return *static_cast<TensorHandle*>(tensor);
}

NVTETensor NoopTensor(NVTEQuantizationConfig config) {
  NVTETensor tensor = nullptr;
  if (config != nullptr) {
    nvte_get_quantization_config_attribute(config, kNVTEQuantizationConfigNoopTensor, &tensor,
                                           sizeof(tensor), nullptr);
  }
  return tensor;
}

bool Uses2dBlocks(NVTEQuantizationConfig config) {
  uint8_t value = 0;
  if (config != nullptr) {
    nvte_get_quantization_config_attribute(config, kNVTEQuantizationConfigMXFP82DQuantization,
                                           &value, sizeof(value), nullptr);
  }
  return value != 0;
}

}  // namespace nvte
}  // namespace cutedsl_quant

using cutedsl_quant::nvte::ConfigHandle;
using cutedsl_quant::nvte::TensorHandle;
namespace nvte = cutedsl_quant::nvte;

NVTETensor nvte_create_tensor(NVTEScalingMode scaling_mode) {
  auto* tensor = new TensorHandle{scaling_mode, {}};
  for (NVTEBasicTensor& view : tensor->views) view = {nullptr, kNVTEFloat32, {{0}, 1}};
  return tensor;
}

void nvte_destroy_tensor(NVTETensor tensor) { delete static_cast<TensorHandle*>(tensor); }

void nvte_set_tensor_param_v2(NVTETensor tensor, NVTETensorParam param, const void* buf,
                              size_t size_in_bytes) {
  const nvte::Value value = nvte::ParamValue(__func__, tensor, param);
  if (static_cast<size_t>(param) >= nvte::kNumViews) {
    nvte::Set(__func__, value, buf, size_in_bytes);
  } else {
    NVTEBasicTensor view;
    nvte::Set(__func__, {&view, value.size}, buf, size_in_bytes);
    nvte::SetView(__func__, tensor, param, view);
  }
}

void nvte_get_tensor_param_v2(const NVTETensor tensor, NVTETensorParam param, void* buf,
                              size_t size_in_bytes, size_t* size_written) {
  nvte::Get(__func__, nvte::ParamValue(__func__, tensor, param), buf, size_in_bytes, size_written);
}

void nvte_set_tensor_param(NVTETensor* tensor, NVTETensorParam param_name,
                           const NVTEBasicTensor* param) {
  if (tensor == nullptr) nvte::Fail(__func__, "tensor is null");
  if (param == nullptr) nvte::Fail(__func__, "param is null");
  nvte::SetView(__func__, *tensor, param_name, *param);
}

NVTEBasicTensor nvte_get_tensor_param(const NVTETensor tensor, NVTETensorParam param_name) {
  return nvte::View(__func__, tensor, param_name);
}

NVTEScalingMode nvte_tensor_scaling_mode(const NVTETensor tensor) {
  return nvte::TensorOf(__func__, tensor).scaling_mode;
}

NVTEShape nvte_tensor_shape(const NVTETensor tensor) {
  return nvte::TensorOf(__func__, tensor).main().shape;
}

size_t nvte_tensor_ndims(const NVTETensor tensor) { return nvte_tensor_shape(tensor).ndim; }

size_t nvte_tensor_size(const NVTETensor tensor, const size_t dim) {
  const NVTEShape shape = nvte_tensor_shape(tensor);
  if (dim >= shape.ndim) {
    nvte::Fail(__func__, "dim is " + std::to_string(dim) + "; the tensor has " +
                             std::to_string(shape.ndim) + " dimensions");
  }
  return shape.data[dim];
}

size_t nvte_tensor_numel(const NVTETensor tensor) {
  return nvte::NumElements(nvte_tensor_shape(tensor));
}

NVTEDType nvte_tensor_type(const NVTETensor tensor) {
  return nvte::TensorOf(__func__, tensor).main().dtype;
}

size_t nvte_tensor_element_size_bits(const NVTETensor tensor) {
  return nvte::ElementBits(__func__, nvte_tensor_type(tensor));
}

size_t nvte_tensor_element_size(const NVTETensor tensor) {
  const size_t bits = nvte_tensor_element_size_bits(tensor);
  if (bits < 8) nvte::Fail(__func__, "4-bit elements have no size in bytes");
  return bits / 8;
}

size_t nvte_tensor_size_bytes(const NVTETensor tensor) {
  return nvte::NumBytes(__func__, nvte::TensorOf(__func__, tensor).main());
}

NVTEShape nvte_tensor_columnwise_shape(const NVTETensor tensor) {
  return nvte::TensorOf(__func__, tensor).views[kNVTEColumnwiseData].shape;
}

NVTEShape nvte_tensor_scale_inv_shape(const NVTETensor tensor) {
  return nvte::TensorOf(__func__, tensor).views[kNVTERowwiseScaleInv].shape;
}

void* nvte_tensor_data(const NVTETensor tensor) {
  return nvte::TensorOf(__func__, tensor).views[kNVTERowwiseData].data_ptr;
}

void* nvte_tensor_columnwise_data(const NVTETensor tensor) {
  return nvte::TensorOf(__func__, tensor).views[kNVTEColumnwiseData].data_ptr;
}

float* nvte_tensor_amax(const NVTETensor tensor) {
  return static_cast<float*>(nvte::TensorOf(__func__, tensor).views[kNVTEAmax].data_ptr);
}

float* nvte_tensor_scale(const NVTETensor tensor) {
  return static_cast<float*>(nvte::TensorOf(__func__, tensor).views[kNVTEScale].data_ptr);
}

float* nvte_tensor_scale_inv(const NVTETensor tensor) {
  return static_cast<float*>(nvte::TensorOf(__func__, tensor).views[kNVTERowwiseScaleInv].data_ptr);
}

void nvte_zero_tensor(const NVTETensor tensor, cudaStream_t stream) {
  if (tensor == nullptr) return;
  const TensorHandle& handle = nvte::TensorOf(__func__, tensor);
  const NVTEBasicTensor& data = handle.views[kNVTERowwiseData];
  nvte::Zero(data.data_ptr, nvte::NumBytes(__func__, data), stream);
  nvte::Zero(handle.views[kNVTEAmax].data_ptr, sizeof(float), stream);
}

NVTEShape nvte_make_shape(const size_t* data, size_t ndim) {
  nvte::CheckDims(__func__, ndim);
  NVTEShape shape = {};
  if (data != nullptr) std::memcpy(shape.data, data, ndim * sizeof(data[0]));
  shape.ndim = ndim;
  return shape;
}

NVTEQuantizationConfig nvte_create_quantization_config() { return new ConfigHandle; }

void nvte_destroy_quantization_config(NVTEQuantizationConfig config) {
  delete static_cast<ConfigHandle*>(config);
}

void nvte_set_quantization_config_attribute(NVTEQuantizationConfig config,
                                            NVTEQuantizationConfigAttribute attr, const void* buf,
                                            size_t size_in_bytes) {
  nvte::Set(__func__, nvte::AttributeValue(__func__, config, attr), buf, size_in_bytes);
}

void nvte_get_quantization_config_attribute(NVTEQuantizationConfig config,
                                            NVTEQuantizationConfigAttribute attr, void* buf,
                                            size_t size_in_bytes, size_t* size_written) {
  nvte::Get(__func__, nvte::AttributeValue(__func__, config, attr), buf, size_in_bytes,
            size_written);
}

void nvte_preload_kernels() {
  using cutedsl_quant::DeviceType;
  int device = 0;
  const cudaError_t status = cudaGetDevice(&device);
  if (nvte::MeansNoGpu(status)) return;
  cutedsl_quant::CheckCuda(status, "cudaGetDevice");
  cutedsl_quant::PreloadKernels({DeviceType::kCuda, device});
}

void nvte_set_cutedsl_quant_backend(int enabled) {
  using cutedsl_quant::BackendMode;
  cutedsl_quant::SetBackendMode(enabled != 0 ? BackendMode::kJit : BackendMode::kOff);
}
