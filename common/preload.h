// Loading kernels ahead of the first call; see PreloadKernels in backend.h.
#ifndef CUTEDSL_QUANT_COMMON_PRELOAD_H_
#define CUTEDSL_QUANT_COMMON_PRELOAD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/numerics.h"
#include "cutedsl_quant/kernel_provider.h"

namespace cutedsl_quant {

inline constexpr int64_t kPreloadCols = 16;

// A kernel may have code of its own for tensors of different sizes (max_elements in
// cutedsl/tuning.py): the smallest tensors and such of so many rows have all of it launched.
inline constexpr int64_t kPreloadLargeRows = int64_t{1} << 19;

// Memory that LaunchPackagedKernels needs, aligned to 16 bytes.
constexpr size_t PreloadScratchBytes(int64_t rows) {
  const numerics::ScaleShape rowwise = numerics::PaddedRowwiseScaleShape(rows, kPreloadCols);
  const numerics::ScaleShape columnwise = numerics::PaddedColumnwiseScaleShape(rows, kPreloadCols);
  const int64_t input_bytes = rows * kPreloadCols * int64_t{sizeof(float)};
  return static_cast<size_t>(
      std::max({input_bytes, rowwise.rows * rowwise.cols, columnwise.rows * columnwise.cols}));
}

// Launches every packaged kernel of `provider` for `device`, which is current, once, on tensors of
// `rows` x kPreloadCols. All of them lie in `scratch`: what is computed does not matter.
void LaunchPackagedKernels(KernelProvider* provider, Device device, int64_t rows, void* scratch,
                           Stream stream);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_PRELOAD_H_
