#include "tools/bench/empty_kernel.h"

namespace cutedsl_quant {
namespace bench {
namespace {

__global__ void EmptyKernel() {}

// From here on a kernel must be allowed to have more shared memory.
constexpr size_t kOrdinarySharedBytes = 48 << 10;

}  // namespace

void LaunchEmpty(const LaunchShape& shape, cudaStream_t stream) {
  if (shape.shared_bytes > kOrdinarySharedBytes) {
    cudaFuncSetAttribute(EmptyKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shape.shared_bytes));
  }
  EmptyKernel<<<shape.grid, shape.block, shape.shared_bytes, stream>>>();
}

}  // namespace bench
}  // namespace cutedsl_quant
