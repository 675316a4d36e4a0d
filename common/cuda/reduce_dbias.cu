// Sums of the columns of a workspace of partial sums. A warp stands for 32 neighbouring columns;
// the warps of a block share the rows.
#include "common/cuda/cast.h"
#include "common/cuda/device_math.cuh"
#include "common/cuda/launch.h"
#include "common/numerics.h"

namespace cutedsl_quant {
namespace cuda {
namespace {

constexpr int kWarps = 16;
constexpr int kUnroll = 4;  // loads in flight a thread

struct ReduceParams {
  const float* workspace;
  void* dbias;
  int64_t rows;
  int64_t cols;
};

template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    ReduceDbiasKernel(const __grid_constant__ ReduceParams p) {
  cudaGridDependencySynchronize();
  __shared__ float warp_sums[kWarps][32];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int64_t col = static_cast<int64_t>(blockIdx.x) * 32 + lane;
  float sum = 0;
  for (int64_t row0 = warp; row0 < p.rows; row0 += kWarps * kUnroll) {
    uint32_t bits[kUnroll] = {};
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t row = row0 + i * kWarps;
      LoadIf<4>(row < p.rows && col < p.cols, &bits[i], p.workspace + row * p.cols + col);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) sum += numerics::BitsToFloat(bits[i]);
  }
  // As the CuTeDSL kernels do: the next one may be set up.
  cudaTriggerProgrammaticLaunchCompletion();
  warp_sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || col >= p.cols) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += warp_sums[w][lane];
  static_cast<T*>(p.dbias)[col] = FromFloat<T>(sum);
}

}  // namespace

void ReduceDbias(const float* workspace, int64_t rows, int64_t cols, void* dbias, DType dtype,
                 Stream stream) {
  const auto kernel = dtype == DType::kFloat32   ? ReduceDbiasKernel<float>
                      : dtype == DType::kFloat16 ? ReduceDbiasKernel<__half>
                                                 : ReduceDbiasKernel<__nv_bfloat16>;
  Launch(kernel, numerics::CeilDiv(cols, 32), kWarps * 32,
         ReduceParams{workspace, dbias, rows, cols}, stream);
}

}  // namespace cuda
}  // namespace cutedsl_quant
