// Casts to MXFP8. One kernel shape for all directions: data stays in registers, loads and stores
// are plain (cache hints cost 10 % on Hopper), and block maxima cross threads by shuffles along
// rows and by shared memory along columns.
//
// A tile is 32 columns wide. kLanes = 32 / kVec neighbouring lanes share a tile's row, each with
// kVec neighbouring columns; a thread holds kRows rows of them, and the kWarps warps of a
// block lie below each other. Tiles are numbered row by row, and the lanes of a warp walk along
// this numbering, so narrow and ragged tensors keep all lanes busy.

#include <algorithm>

#include "common/cuda/cast.h"
#include "common/cuda/device_math.cuh"
#include "common/cuda/launch.h"
#include "common/numerics.h"

namespace cutedsl_quant {
namespace cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;

// More rows in flight a thread cost occupancy; 32x1 blocks need 32 rows a block of threads.
template <bool kColwise>
inline constexpr int kRowsPerThread = kColwise ? numerics::kBlockSize / kWarps : 4;

struct ScaleOutput {
  uint8_t* data;
  int64_t stride;       // compact: bytes between rows of the buffer
  int64_t inner_tiles;  // swizzled: see numerics::SwizzledIndex
};

struct CastParams {
  const void* input;
  uint8_t* rowwise_data;
  uint8_t* columnwise_data;
  ScaleOutput rowwise_scale;
  ScaleOutput columnwise_scale;
  float* amax;
  const float* noop;
  int64_t rows;
  int64_t cols;
  // Swizzled scales are computed for the padded extent: blocks without elements get the scale 0,
  // which is what the padding has to hold.
  int64_t tiles;
  GridColumns tile_columns;
  bool swizzled;
};

// Raises *amax to the largest of all threads' values, with one access a block.
__device__ __forceinline__ void RaiseAmax(float* amax, float value) {
  __shared__ unsigned warp_maxima[kWarps];
  // Non-negative floats are ordered as their bits are.
  const unsigned warp_maximum = __reduce_max_sync(0xFFFFFFFFu, numerics::FloatToBits(value));
  if (threadIdx.x % 32 == 0) warp_maxima[threadIdx.x / 32] = warp_maximum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  unsigned maximum = warp_maximum;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) maximum = max(maximum, warp_maxima[w]);
  // Signed: a negative start value lies below. Most blocks find a larger value there and leave the
  // atomic unit alone.
  int* const bits = reinterpret_cast<int*>(amax);
  if (static_cast<int>(maximum) > *static_cast<volatile int*>(bits)) {
    atomicMax(bits, static_cast<int>(maximum));
  }
}

// Stores the scales of the kVec columns from col0 in the band of 32 rows.
template <int kVec>
__device__ __forceinline__ void StoreColumnScales(const CastParams& p, int64_t tile, int64_t band,
                                                  int64_t col0, bool exists,
                                                  const uint32_t (&scales)[kVec]) {
  if (p.swizzled) {
    uint8_t* const to = p.columnwise_scale.data +
                        numerics::SwizzledIndex(col0, band, p.columnwise_scale.inner_tiles);
#pragma unroll
    for (int v = 0; v < kVec; ++v) StoreIf<1>(tile < p.tiles, to + v * 16, &scales[v]);
  } else {
    uint32_t bytes[(kVec + 3) / 4] = {};
#pragma unroll
    for (int v = 0; v < kVec; ++v) bytes[v / 4] |= scales[v] << v % 4 * 8;
    StoreIf<kVec>(exists, p.columnwise_scale.data + band * p.columnwise_scale.stride + col0, bytes);
  }
}

template <typename T, DType kFp8, bool kRowwise, bool kColwise, int kVec>
__global__ void __launch_bounds__(kThreads) CastKernel(const __grid_constant__ CastParams p) {
  if (p.noop != nullptr && *p.noop == 1.0f) return;

  using Words = typename WordsOf<T, kVec>::Type;
  using Word = typename Words::Word;
  constexpr int kWords = kVec / Words::kPerWord;
  constexpr int kLanes = numerics::kBlockSize / kVec;
  constexpr int kRows = kRowsPerThread<kColwise>;

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % kLanes;
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * kVec + threadIdx.x % 32 / kLanes;
  int64_t band, tile_col;
  p.tile_columns.Split(tile, &band, &tile_col);
  const int64_t row0 = band * (kRows * kWarps) + warp * kRows;
  const int64_t col0 = tile_col * numerics::kBlockSize + lane * kVec;
  const int64_t offset0 = row0 * p.cols + col0;
  // Of this thread's rows, those that exist.
  const int num_rows = col0 < p.cols ? static_cast<int>(min(p.rows - row0, int64_t{kRows})) : 0;

  Word x[kRows][kWords];
  const T* from = static_cast<const T*>(p.input) + offset0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    LoadWordsIf<T, kVec>(r < num_rows, x[r], from);
    from += p.cols;
  }

  Word thread_maximum = 0;
  if constexpr (kRowwise) {
    constexpr int kBatch = kRows < kLanes ? kRows : kLanes;
    // Rows of a thread never cross one of the layout's groups of 32.
    const int64_t scale_index =
        p.swizzled ? numerics::SwizzledIndex(row0 + lane, tile_col, p.rowwise_scale.inner_tiles)
                   : (row0 + lane) * p.rowwise_scale.stride + tile_col;
    const int64_t scale_step = p.swizzled ? 16 : p.rowwise_scale.stride;
    uint8_t* scale_to = p.rowwise_scale.data + scale_index;
    uint8_t* to = p.rowwise_data + offset0;
#pragma unroll
    for (int batch = 0; batch < kRows; batch += kBatch) {
      Word maxima[kBatch];
#pragma unroll
      for (int r = 0; r < kBatch; ++r) {
        maxima[r] = 0;
#pragma unroll
        for (int w = 0; w < kWords; ++w) maxima[r] = Words::AbsMax(maxima[r], x[batch + r][w]);
      }
      const Word maximum = TransposedMax<Words, kLanes>(maxima, lane);
      thread_maximum = Words::AbsMax(thread_maximum, maximum);

      // For a moment this lane stands for one of the rows.
      const uint32_t scale = numerics::BlockScale(Words::MaxOfWord(maximum), kFp8);
      const bool exists = p.swizzled ? tile < p.tiles : row0 + batch + lane < p.rows;
      StoreIf<1>(exists && lane < kBatch, scale_to, &scale);
      scale_to += kBatch * scale_step;
      const float lane_inverse = numerics::InverseScale(static_cast<uint8_t>(scale));
#pragma unroll
      for (int r = 0; r < kBatch; ++r) {
        const float inverse = __shfl_sync(0xFFFFFFFFu, lane_inverse, r, kLanes);
        float inverse_scales[kVec];
#pragma unroll
        for (int v = 0; v < kVec; ++v) inverse_scales[v] = inverse;
        CastAndStoreIf<kFp8, Words>(batch + r < num_rows, to, x[batch + r], inverse_scales);
        to += p.cols;
      }
    }
  }

  if constexpr (kColwise) {
    __shared__ Word exchange[kWarps][kWords][32];
    Word maxima[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      maxima[w] = 0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) maxima[w] = Words::AbsMax(maxima[w], x[r][w]);
      exchange[warp][w][threadIdx.x % 32] = maxima[w];
    }
    __syncthreads();
    float inverse_scales[kVec];  // of the columns; their maxima at first
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
#pragma unroll
      for (int other = 1; other < kWarps; ++other) {
        maxima[w] =
            Words::AbsMax(maxima[w], exchange[(warp + other) % kWarps][w][threadIdx.x % 32]);
      }
      thread_maximum = Words::AbsMax(thread_maximum, maxima[w]);
      Words::Unpack(maxima[w], inverse_scales + w * Words::kPerWord);
    }
    uint32_t scales[kVec];
#pragma unroll
    for (int v = 0; v < kVec; ++v) {
      scales[v] = numerics::BlockScale(fabsf(inverse_scales[v]), kFp8);
      inverse_scales[v] = numerics::InverseScale(static_cast<uint8_t>(scales[v]));
    }
    if (warp == 0) StoreColumnScales<kVec>(p, tile, band, col0, num_rows > 0, scales);
    uint8_t* to = p.columnwise_data + offset0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      CastAndStoreIf<kFp8, Words>(r < num_rows, to, x[r], inverse_scales);
      to += p.cols;
    }
  }

  if (p.amax != nullptr) RaiseAmax(p.amax, Words::MaxOfWord(thread_maximum));
}

using KernelPointer = void (*)(CastParams);

template <typename T, DType kFp8, int kVec>
KernelPointer SelectDirections(const QuantizeConfig& config) {
  if (!config.colwise) return CastKernel<T, kFp8, true, false, kVec>;
  if (!config.rowwise) return CastKernel<T, kFp8, false, true, kVec>;
  return CastKernel<T, kFp8, true, true, kVec>;
}

template <typename T, int kVec>
KernelPointer SelectFp8(const QuantizeConfig& config) {
  return config.fp8_dtype == DType::kFloat8E4M3
             ? SelectDirections<T, DType::kFloat8E4M3, kVec>(config)
             : SelectDirections<T, DType::kFloat8E5M2, kVec>(config);
}

// Whether kVec neighbouring elements can be accessed at once everywhere.
bool FitsVector(const QuantizeConfig& config, const KernelArgs& args, int vec, int element_size) {
  const bool compact_columnwise = config.colwise && !config.swizzled;
  return args.cols % vec == 0 &&
         IsAligned(args.input, std::min(vec * element_size, kMaxAccessBytes)) &&
         IsAligned(args.rowwise_data, vec) && IsAligned(args.columnwise_data, vec) &&
         !(compact_columnwise && (!IsAligned(args.columnwise_scale_inv.data, vec) ||
                                  args.columnwise_scale_inv.cols % vec != 0));
}

struct Selection {
  KernelPointer kernel;
  int vec;
};

template <typename T, int kVec, int... kNarrower>
Selection Select(const QuantizeConfig& config, const KernelArgs& args) {
  if constexpr (sizeof...(kNarrower) != 0) {
    if (!FitsVector(config, args, kVec, sizeof(T))) {
      return Select<T, kNarrower...>(config, args);
    }
  }
  return {SelectFp8<T, kVec>(config), kVec};
}

Selection Select(const QuantizeConfig& config, const KernelArgs& args) {
  switch (config.dtype) {
    case DType::kFloat32:
      return Select<float, 8, 2, 1>(config, args);
    case DType::kFloat16:
      return Select<__half, 8, 2, 1>(config, args);
    default:
      return Select<__nv_bfloat16, 8, 2, 1>(config, args);
  }
}

}  // namespace

void Quantize(const QuantizeConfig& config, const KernelArgs& args) {
  CastParams params = {};
  params.input = args.input;
  params.rowwise_data = args.rowwise_data;
  params.columnwise_data = args.columnwise_data;
  params.rowwise_scale = {args.rowwise_scale_inv.data, args.rowwise_scale_inv.cols,
                          numerics::CeilDiv(args.cols, 128)};
  params.columnwise_scale = {args.columnwise_scale_inv.data, args.columnwise_scale_inv.cols,
                             numerics::CeilDiv(args.rows, 128)};
  params.amax = args.amax;
  params.noop = args.noop;
  params.rows = args.rows;
  params.cols = args.cols;
  params.swizzled = config.swizzled;

  const numerics::ScaleShape extent = config.swizzled
                                          ? numerics::PaddedRowwiseScaleShape(args.rows, args.cols)
                                          : numerics::ExactRowwiseScaleShape(args.rows, args.cols);
  params.tile_columns = GridColumns(extent.cols);
  const int tile_rows = kWarps * (config.colwise ? kRowsPerThread<true> : kRowsPerThread<false>);
  params.tiles = extent.cols * numerics::CeilDiv(extent.rows, tile_rows);

  const Selection selected = Select(config, args);
  Launch(selected.kernel, numerics::CeilDiv(params.tiles, selected.vec), kThreads, params,
         args.stream);
}

}  // namespace cuda
}  // namespace cutedsl_quant
