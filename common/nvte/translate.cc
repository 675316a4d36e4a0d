#include "common/nvte/translate.h"

#include <string>

#include "common/cuda_check.h"

namespace cutedsl_quant {
namespace nvte {
namespace {

static_assert(static_cast<int>(DType::kFloat32) == kNVTEFloat32 &&
                  static_cast<int>(DType::kFloat4E2M1) == kNVTEFloat4E2M1,
              "DType has TransformerEngine's values");
static_assert(kMaxDims == sizeof(NVTEShape::data) / sizeof(size_t), "so have the dimensions");

}  // namespace

bool MeansNoGpu(cudaError_t status) {
  return status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver;
}

Device DeviceOf(const void* pointer) {
  cudaPointerAttributes attributes;
  const cudaError_t status = cudaPointerGetAttributes(&attributes, pointer);
  if (MeansNoGpu(status)) return {};
  CheckCuda(status, "cudaPointerGetAttributes");
  const bool on_device =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  if (!on_device) return {};
  return {DeviceType::kCuda, attributes.device};
}

bool IsEmpty(const NVTEBasicTensor& view) {
  for (size_t i = 0; i < view.shape.ndim; ++i) {
    if (view.shape.data[i] == 0) return true;
  }
  return false;
}

Tensor Translate(const NVTEBasicTensor& view, Device device) {
  Tensor tensor;
  tensor.data = view.data_ptr;
  tensor.dtype = static_cast<DType>(view.dtype);
  tensor.device = device;
  tensor.ndim = static_cast<int>(view.shape.ndim);
  for (int i = 0; i < tensor.ndim; ++i) {
    tensor.shape[i] = static_cast<int64_t>(view.shape.data[i]);
  }
  return tensor;
}

Tensor TranslateIfAllocated(const NVTEBasicTensor& view, Device device) {
  return view.data_ptr == nullptr ? Tensor() : Translate(view, device);
}

void CheckIsMxfp8(const char* function, const char* name, const TensorHandle& handle) {
  if (handle.scaling_mode == NVTE_MXFP8_1D_SCALING) return;
  throw InvalidArgument(std::string(function) + ": " + name + " has scaling mode " +
                        std::to_string(handle.scaling_mode) +
                        "; NVTE_MXFP8_1D_SCALING (1) is accepted");
}

QuantizedTensor TranslateQuantized(const char* function, const char* name,
                                   const TensorHandle& handle, Device device) {
  CheckIsMxfp8(function, name, handle);
  QuantizedTensor tensor;
  const auto translate_direction = [&](NVTETensorParam data, NVTETensorParam scale_inv,
                                       Tensor& data_out, Tensor& scale_inv_out) {
    data_out = TranslateIfAllocated(handle.views[data], device);
    if (data_out.present()) {
      scale_inv_out = TranslateIfAllocated(handle.views[scale_inv], device);
    }
  };
  translate_direction(kNVTERowwiseData, kNVTERowwiseScaleInv, tensor.rowwise_data,
                      tensor.rowwise_scale_inv);
  translate_direction(kNVTEColumnwiseData, kNVTEColumnwiseScaleInv, tensor.columnwise_data,
                      tensor.columnwise_scale_inv);
  tensor.amax = TranslateIfAllocated(handle.views[kNVTEAmax], device);
  tensor.swizzled_scales = handle.swizzled_scales != 0;
  return tensor;
}

std::optional<Operands> TranslateOperands(const char* function, const char* input_name,
                                          NVTETensor input, NVTETensor output) {
  const NVTEBasicTensor& from = Handle(function, input_name, input).views[kNVTERowwiseData];
  const TensorHandle& to = Handle(function, "output", output);
  if (IsEmpty(from)) return std::nullopt;
  const Device device = DeviceOf(from.data_ptr);
  return Operands{Translate(from, device), TranslateQuantized(function, "output", to, device)};
}

}  // namespace nvte
}  // namespace cutedsl_quant
