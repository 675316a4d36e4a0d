#include "tools/bench/floor_kernels.h"

namespace cutedsl_quant {
namespace bench {
namespace {

__global__ void EmptyKernel() {}

// From here on a kernel must be allowed to have more shared memory.
constexpr size_t kOrdinarySharedBytes = 48 << 10;

__global__ void TouchKernel(const uint4* input, uint2* output, int64_t words) {
  cudaGridDependencySynchronize();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= words) return;
  const uint4 word = __ldg(input + i);
  output[i] = make_uint2(word.x ^ word.y, word.z ^ word.w);
}

}  // namespace

void LaunchEmpty(const LaunchShape& shape, cudaStream_t stream) {
  if (shape.shared_bytes > kOrdinarySharedBytes) {
    cudaFuncSetAttribute(EmptyKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shape.shared_bytes));
  }
  EmptyKernel<<<shape.grid, shape.block, shape.shared_bytes, stream>>>();
}

void LaunchTouch(const LaunchShape& shape, const void* input, void* output, int64_t bytes,
                 cudaStream_t stream) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, TouchKernel, static_cast<const uint4*>(input),
                     static_cast<uint2*>(output), bytes / int64_t{sizeof(uint4)});
}

}  // namespace bench
}  // namespace cutedsl_quant
