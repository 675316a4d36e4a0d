#include "common/cuda/cast_kernel.cuh"

namespace cutedsl_quant {
namespace cuda {
namespace {

// A plain cast with one scale for 32x32 elements, which stands in the scale buffers once for each
// of the block's rows and columns. Both directions hold the same data.
template <typename T, DType kFp8, int kVec>
__global__ void __launch_bounds__(kThreads<Fusion::kNone>)
    CastSquareBlocksKernel(const __grid_constant__ CastParams p) {
  cudaGridDependencySynchronize();
  if (p.noop != nullptr && *p.noop == 1.0f) return;

  using Words = typename WordsOf<T, kVec>::Type;
  using Word = typename Words::Word;
  constexpr int kWords = kVec / Words::kPerWord;
  constexpr int kLanes = numerics::kBlockSize / kVec;
  constexpr int kRows = numerics::kBlockSize / kBandWarps;

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % kLanes;
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * kVec + threadIdx.x % 32 / kLanes;
  int64_t band, tile_col;
  p.tile_columns.Split(tile, &band, &tile_col);
  const int64_t row0 = band * numerics::kBlockSize + warp * kRows;
  const int64_t col0 = tile_col * numerics::kBlockSize + lane * kVec;
  const int64_t offset0 = row0 * p.cols + col0;
  const int num_rows = col0 < p.cols ? static_cast<int>(min(p.rows - row0, int64_t{kRows})) : 0;

  Word x[kRows][kWords];
  Word word_maximum = 0;
  const T* from = static_cast<const T*>(p.input) + offset0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    LoadWordsIf<T, kVec>(r < num_rows, x[r], from);
    from += p.cols;
  }
#pragma unroll
  for (int i = 0; i < kRows * kWords; ++i) {
    word_maximum = Words::AbsMax(word_maximum, x[i / kWords][i % kWords]);
  }

  float maximum = Words::MaxOfWord(word_maximum);
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) {
    maximum = FloatWords::AbsMax(maximum, __shfl_xor_sync(0xFFFFFFFFu, maximum, step));
  }
  __shared__ float exchange[kBandWarps][32];
  exchange[warp][threadIdx.x % 32] = maximum;
  __syncthreads();
#pragma unroll
  for (int other = 1; other < kBandWarps; ++other) {
    maximum = FloatWords::AbsMax(maximum, exchange[(warp + other) % kBandWarps][threadIdx.x % 32]);
  }
  const uint32_t scale = numerics::BlockScale(maximum, kFp8);

  if (p.rowwise_data != nullptr) {
#pragma unroll
    for (int r = lane; r < kRows; r += kLanes) {
      const int64_t row = row0 + r;
      const int64_t index =
          p.swizzled ? numerics::SwizzledIndex(row, tile_col, p.rowwise_scale.inner_tiles)
                     : row * p.rowwise_scale.stride + tile_col;
      // Rows beyond the matrix are padding.
      const uint32_t row_scale = row < p.rows ? scale : 0;
      StoreIf<1>(p.swizzled ? tile < p.tiles : row < p.rows, p.rowwise_scale.data + index,
                 &row_scale);
    }
  }
  if (p.columnwise_data != nullptr && warp == 0) {
    uint32_t scales[kVec];
#pragma unroll
    for (int v = 0; v < kVec; ++v) scales[v] = num_rows > 0 ? scale : 0;
    StoreColumnScales<kVec>(p, tile, band, col0, num_rows > 0, scales);
  }

  float inverse_scales[kVec];
#pragma unroll
  for (int v = 0; v < kVec; ++v) {
    inverse_scales[v] = numerics::InverseScale(static_cast<uint8_t>(scale));
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const bool exists = r < num_rows;
    const int64_t offset = offset0 + r * p.cols;
    CastAndStoreIf<kFp8, Words>(exists && p.rowwise_data != nullptr, p.rowwise_data + offset, x[r],
                                inverse_scales);
    CastAndStoreIf<kFp8, Words>(exists && p.columnwise_data != nullptr, p.columnwise_data + offset,
                                x[r], inverse_scales);
  }

  if (p.amax != nullptr) RaiseAmax<kBandWarps>(p.amax, maximum);
}

template <typename T, int kVec>
CastKernelSelection SelectKernel(const QuantizeConfig& config) {
  const CastKernelPointer kernel = config.fp8_dtype == DType::kFloat8E4M3
                                       ? CastSquareBlocksKernel<T, DType::kFloat8E4M3, kVec>
                                       : CastSquareBlocksKernel<T, DType::kFloat8E5M2, kVec>;
  return {kernel, kVec, kBandWarps, numerics::kBlockSize};
}

}  // namespace

CastKernelSelection SelectSquareBlocksCast(const QuantizeConfig& config, const KernelArgs& args) {
  return WithElementType(config.dtype, [&](auto type) {
    using T = decltype(type);
    return FitsVector(config, args, 8, sizeof(T)) ? SelectKernel<T, 8>(config)
                                                  : SelectKernel<T, 1>(config);
  });
}

}  // namespace cuda
}  // namespace cutedsl_quant
