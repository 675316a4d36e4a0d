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

void Fill(const NVTEBasicTensor& view, Device device, Tensor* tensor) {
  tensor->data = view.data_ptr;
  tensor->dtype = static_cast<DType>(view.dtype);
  // A GPU reads pinned memory too; the CPU must not be sent to a device's.
  tensor->device = device.type == DeviceType::kCpu ? DeviceOf(view.data_ptr) : device;
  tensor->ndim = static_cast<int>(view.shape.ndim);
  for (int i = 0; i < tensor->ndim; ++i) {
    tensor->shape[i] = static_cast<int64_t>(view.shape.data[i]);
  }
}

}  // namespace

bool MeansNoGpu(cudaError_t status) {
  return status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver;
}

Device DeviceOf(const void* pointer) {
  if (pointer == nullptr) return {};
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
  Fill(view, device, &tensor);
  return tensor;
}

void TranslateIfAllocated(const NVTEBasicTensor& view, Device device, Tensor* tensor) {
  if (view.data_ptr != nullptr) Fill(view, device, tensor);
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
                                       Tensor* data_out, Tensor* scale_inv_out) {
    TranslateIfAllocated(handle.views[data], device, data_out);
    if (data_out->present()) {
      TranslateIfAllocated(handle.views[scale_inv], device, scale_inv_out);
    }
  };
  translate_direction(kNVTERowwiseData, kNVTERowwiseScaleInv, &tensor.rowwise_data,
                      &tensor.rowwise_scale_inv);
  translate_direction(kNVTEColumnwiseData, kNVTEColumnwiseScaleInv, &tensor.columnwise_data,
                      &tensor.columnwise_scale_inv);
  TranslateIfAllocated(handle.views[kNVTEAmax], device, &tensor.amax);
  tensor.swizzled_scales = handle.swizzled_scales != 0;
  return tensor;
}

std::optional<Operands> TranslateOperands(const char* function, const char* input_name,
                                          NVTETensor input, NVTETensor output) {
  const NVTEBasicTensor& from = Handle(function, input_name, input).views[kNVTERowwiseData];
  const TensorHandle& to = Handle(function, "output", output);
  std::optional<Operands> operands;
  if (!IsEmpty(from) || !IsEmpty(to.main())) {
    operands.emplace(function, from, to, DeviceOf(from.data_ptr));
  }
  return operands;
}

}  // namespace nvte
}  // namespace cutedsl_quant
