#include "transformer_engine/cast.h"

#include <string>

#include "common/cuda_check.h"
#include "common/dispatcher.h"
#include "common/nvte/handles.h"
#include "cutedsl_quant/quantize.h"

namespace cutedsl_quant {
namespace nvte {
namespace {

static_assert(static_cast<int>(DType::kFloat32) == kNVTEFloat32 &&
                  static_cast<int>(DType::kFloat4E2M1) == kNVTEFloat4E2M1,
              "DType has TransformerEngine's values");
static_assert(kMaxDims == sizeof(NVTEShape::data) / sizeof(size_t), "so have the dimensions");

Device DeviceOf(const void* pointer) {
  cudaPointerAttributes attributes;
  const cudaError_t status = cudaPointerGetAttributes(&attributes, pointer);
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) return {};
  CheckCuda(status, "cudaPointerGetAttributes");
  const bool on_device =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  if (!on_device) return {};
  return {DeviceType::kCuda, attributes.device};
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

// Not allocated means not given.
Tensor TranslateIfAllocated(const NVTEBasicTensor& view, Device device) {
  return view.data_ptr == nullptr ? Tensor() : Translate(view, device);
}

QuantizedTensor TranslateQuantized(const char* function, const char* name,
                                   const TensorHandle& handle, Device device) {
  if (handle.scaling_mode != NVTE_MXFP8_1D_SCALING) {
    throw InvalidArgument(std::string(function) + ": " + name + " has scaling mode " +
                          std::to_string(handle.scaling_mode) +
                          "; NVTE_MXFP8_1D_SCALING (1) is accepted");
  }
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

// A tensor without elements may have no pointers at all: then there is nothing to translate.
bool IsEmpty(const NVTEBasicTensor& view) {
  for (size_t i = 0; i < view.shape.ndim; ++i) {
    if (view.shape.data[i] == 0) return true;
  }
  return false;
}

void QuantizeHandles(const char* function, NVTETensor input, NVTETensor output, NVTETensor noop,
                     cudaStream_t stream) {
  const NVTEBasicTensor& from = Handle(function, "input", input).views[kNVTERowwiseData];
  const TensorHandle& to = Handle(function, "output", output);
  if (IsEmpty(from)) return;
  const Device device = DeviceOf(from.data_ptr);
  QuantizeOptions options;
  if (noop != nullptr) {
    options.noop =
        TranslateIfAllocated(Handle(function, "noop", noop).views[kNVTERowwiseData], device);
  }
  QuantizeAs(function, Translate(from, device), TranslateQuantized(function, "output", to, device),
             options, stream);
}

}  // namespace
}  // namespace nvte
}  // namespace cutedsl_quant

namespace nvte = cutedsl_quant::nvte;

void nvte_quantize(const NVTETensor input, NVTETensor output, cudaStream_t stream) {
  nvte::QuantizeHandles(__func__, input, output, nullptr, stream);
}

void nvte_quantize_noop(const NVTETensor input, NVTETensor output, NVTETensor noop,
                        cudaStream_t stream) {
  nvte::QuantizeHandles(__func__, input, output, noop, stream);
}

void nvte_quantize_v2(const NVTETensor input, NVTETensor output,
                      const NVTEQuantizationConfig quant_config, cudaStream_t stream) {
  nvte::QuantizeHandles(__func__, input, output, nvte::NoopTensor(quant_config), stream);
}

void nvte_dequantize(const NVTETensor input, NVTETensor output, cudaStream_t stream) {
  const nvte::TensorHandle& from = nvte::Handle(__func__, "input", input);
  const NVTEBasicTensor& to = nvte::Handle(__func__, "output", output).views[kNVTERowwiseData];
  if (nvte::IsEmpty(from.main())) return;
  const cutedsl_quant::Device device = nvte::DeviceOf(from.main().data_ptr);
  cutedsl_quant::DequantizeAs(__func__, nvte::TranslateQuantized(__func__, "input", from, device),
                              nvte::Translate(to, device), stream);
}
