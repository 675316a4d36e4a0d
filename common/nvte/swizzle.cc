#include "transformer_engine/swizzle.h"

#include "common/dispatcher.h"
#include "common/numerics.h"
#include "common/nvte/translate.h"

namespace cutedsl_quant {
namespace nvte {
namespace {

constexpr NVTETensorParam kScales[] = {kNVTERowwiseScaleInv, kNVTEColumnwiseScaleInv};

// Data goes for its shape alone, allocated or not: the first that has elements, or null.
const NVTEBasicTensor* FindData(const TensorHandle& input, const TensorHandle& output) {
  for (const TensorHandle* handle : {&input, &output}) {
    for (const NVTETensorParam param : {kNVTERowwiseData, kNVTEColumnwiseData}) {
      if (!IsEmpty(handle->views[param])) return &handle->views[param];
    }
  }
  return nullptr;
}

const void* FirstScales(const TensorHandle& handle) {
  for (const NVTETensorParam param : kScales) {
    if (!IsEmpty(handle.views[param])) return handle.views[param].data_ptr;
  }
  return nullptr;
}

QuantizedTensor TranslateScales(const TensorHandle& handle, Device device) {
  QuantizedTensor tensor;
  TranslateIfAllocated(handle.views[kNVTERowwiseScaleInv], device, &tensor.rowwise_scale_inv);
  TranslateIfAllocated(handle.views[kNVTEColumnwiseScaleInv], device, &tensor.columnwise_scale_inv);
  tensor.swizzled_scales = handle.swizzled_scales != 0;
  return tensor;
}

// As large as the scales of both tensors say, if those asked for are of one size.
Tensor WithPadding(const Tensor& data, const TensorHandle& input, const TensorHandle& output) {
  for (const NVTETensorParam param : kScales) {
    if (output.views[param].data_ptr == nullptr) continue;
    const int64_t size = Translate(output.views[param], Device()).size();
    if (size != Translate(input.views[param], Device()).size()) return data;
  }
  const auto scales = numerics::PaddedRowwiseScaleShape(data.rows(), data.cols());
  return {nullptr, data.dtype, data.device, {scales.rows, scales.cols * numerics::kBlockSize}};
}

using Rearrange = void (*)(const char* function, const QuantizedTensor& input,
                           const QuantizedTensor& output, Stream stream);

void RearrangeScales(const char* function, NVTETensor input, NVTETensor output, bool with_padding,
                     Rearrange rearrange, cudaStream_t stream) {
  const TensorHandle& from = Handle(function, "input", input);
  const TensorHandle& to = Handle(function, "output", output);
  CheckIsMxfp8(function, "input", from);
  CheckIsMxfp8(function, "output", to);
  const NVTEBasicTensor* const data = FindData(from, to);
  const void* const scales = FirstScales(to);
  if (data == nullptr && scales == nullptr) return;  // no elements
  const Device device = DeviceOf(scales);
  QuantizedTensor source = TranslateScales(from, device);
  if (data != nullptr) {
    source.rowwise_data = Translate(*data, device);
    if (with_padding) source.rowwise_data = WithPadding(source.rowwise_data, from, to);
  }
  rearrange(function, source, TranslateScales(to, device), stream);
}

}  // namespace
}  // namespace nvte
}  // namespace cutedsl_quant

namespace nvte = cutedsl_quant::nvte;

void nvte_swizzle_scaling_factors(const NVTETensor input, NVTETensor output, cudaStream_t stream) {
  nvte::RearrangeScales(__func__, input, output, /*with_padding=*/false,
                        cutedsl_quant::SwizzleScalesAs, stream);
}

void nvte_unswizzle_scaling_factors(const NVTETensor input, NVTETensor output,
                                    cudaStream_t stream) {
  nvte::RearrangeScales(__func__, input, output, /*with_padding=*/true,
                        cutedsl_quant::UnswizzleScalesAs, stream);
}
