// What is behind the opaque handles of transformer_engine.h.
#ifndef CUTEDSL_QUANT_COMMON_NVTE_HANDLES_H_
#define CUTEDSL_QUANT_COMMON_NVTE_HANDLES_H_

#include <cstddef>
#include <cstdint>

#include "transformer_engine/transformer_engine.h"

namespace cutedsl_quant {
namespace nvte {

// The parameters that are views come first in NVTETensorParam.
inline constexpr size_t kNumViews = kNVTEWithGEMMSwizzledScales;

struct TensorHandle {
  NVTEScalingMode scaling_mode;
  NVTEBasicTensor views[kNumViews];  // by NVTETensorParam
  uint8_t swizzled_scales = 0;
  uint8_t row_scaled_nvfp4 = 0;
  int32_t nvfp4_e4m3_max = 448;

  const NVTEBasicTensor& main() const {
    const bool only_columnwise = views[kNVTERowwiseData].data_ptr == nullptr &&
                                 views[kNVTEColumnwiseData].data_ptr != nullptr;
    return views[only_columnwise ? kNVTEColumnwiseData : kNVTERowwiseData];
  }
};

// Throws InvalidArgument, naming `function` and `what`, if the handle is null.
TensorHandle& Handle(const char* function, const char* what, NVTETensor tensor);

// The noop tensor of a config; null if neither is set.
NVTETensor NoopTensor(NVTEQuantizationConfig config);

// Whether a config asks for 32x32 blocks; a null one does not.
bool Uses2dBlocks(NVTEQuantizationConfig config);

}  // namespace nvte
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_NVTE_HANDLES_H_
