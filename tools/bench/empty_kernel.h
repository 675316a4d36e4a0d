// The least that a kernel costs, to compare calls with.
#ifndef CUTEDSL_QUANT_TOOLS_BENCH_EMPTY_KERNEL_H_
#define CUTEDSL_QUANT_TOOLS_BENCH_EMPTY_KERNEL_H_

#include <cuda_runtime_api.h>

#include <cstddef>

namespace cutedsl_quant {
namespace bench {

struct LaunchShape {
  dim3 grid = dim3(1, 1, 1);
  dim3 block = dim3(128, 1, 1);
  size_t shared_bytes = 0;  // dynamic
};

// Launches a kernel that does nothing, with <<<>>>.
void LaunchEmpty(const LaunchShape& shape, cudaStream_t stream);

}  // namespace bench
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TOOLS_BENCH_EMPTY_KERNEL_H_
