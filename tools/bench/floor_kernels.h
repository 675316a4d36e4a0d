// The least that kernels cost, to compare calls with.
#ifndef CUTEDSL_QUANT_TOOLS_BENCH_FLOOR_KERNELS_H_
#define CUTEDSL_QUANT_TOOLS_BENCH_FLOOR_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace cutedsl_quant {
namespace bench {

struct LaunchShape {
  dim3 grid = dim3(1, 1, 1);
  dim3 block = dim3(128, 1, 1);
  size_t shared_bytes = 0;  // dynamic
};

// Launches a kernel that does nothing, with <<<>>>.
void LaunchEmpty(const LaunchShape& shape, cudaStream_t stream);

// Launches a kernel whose threads read 16 bytes each, of `input`, and write 8 to `output`: what
// memory costs by the way there and back. Both have `bytes`; threads beyond their end do nothing.
// Like the kernels it stands for, it may start while the one before it ends.
void LaunchTouch(const LaunchShape& shape, const void* input, void* output, int64_t bytes,
                 cudaStream_t stream);

}  // namespace bench
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TOOLS_BENCH_FLOOR_KERNELS_H_
