// Loading kernels ahead of the first call; see PreloadKernels in backend.h.
#ifndef CUTEDSL_QUANT_COMMON_PRELOAD_H_
#define CUTEDSL_QUANT_COMMON_PRELOAD_H_

#include <cstddef>

#include "cutedsl_quant/kernel_provider.h"

namespace cutedsl_quant {

// Memory that LaunchPackagedKernels needs, aligned to 16 bytes.
inline constexpr size_t kPreloadScratchBytes = 512;

// Launches every packaged kernel of `provider` for `device`, which is current, once, on the
// smallest tensors there are. All of them lie in `scratch`: what is computed does not matter.
void LaunchPackagedKernels(KernelProvider* provider, Device device, void* scratch, Stream stream);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_PRELOAD_H_
