// Casts to MXFP8, with or without a fusion before them. One kernel shape for all directions: data
// stays in registers, loads and stores are plain (cache hints cost 10 % on Hopper), and block
// maxima cross threads by shuffles along rows and by shared memory along columns.
//
// A tile is 32 columns wide. kLanes = 32 / kVec neighbouring lanes share a tile's row, each with
// kVec neighbouring columns; a thread holds kRows rows of them, and the kWarps warps of a
// block lie below each other. Tiles are numbered row by row, and the lanes of a warp walk along
// this numbering, so narrow and ragged tensors keep all lanes busy.

#include <algorithm>

#include "common/activations.h"
#include "common/cuda/cast.h"
#include "common/cuda/device_math.cuh"
#include "common/cuda/launch.h"
#include "common/numerics.h"

namespace cutedsl_quant {
namespace cuda {
namespace {

// What happens to elements between load and cast.
enum class Fusion {
  kNone,
  kAct,    // activation
  kDbias,  // column sums
  kDact,   // times the activation's derivative at another input; column sums if asked for
};

template <Fusion kFusion>
inline constexpr bool kHasSums = kFusion == Fusion::kDbias || kFusion == Fusion::kDact;

// Blocks of threads with column sums cover a chunk of rows of the workspace.
template <Fusion kFusion>
inline constexpr int kWarps = kFusion == Fusion::kDbias  ? 16
                              : kFusion == Fusion::kDact ? 8
                                                         : 4;
template <Fusion kFusion>
inline constexpr int kThreads = kWarps<kFusion> * 32;
// Blocks a multiprocessor, named (not 0) where the compiler would spill to reach more of them.
template <typename T, Fusion kFusion>
inline constexpr int kMinBlocks =
    sizeof(T) == 4 && (kFusion == Fusion::kAct || kFusion == Fusion::kDbias) ? 1 : 0;

// More rows in flight a thread cost occupancy; 32x1 blocks need 32 rows in four warps.
constexpr int kBandWarps = 4;
template <bool kColwise, Fusion kFusion>
inline constexpr int kRowsPerThread =
    kColwise || kHasSums<kFusion> ? numerics::kBlockSize / kBandWarps : 4;

struct ScaleOutput {
  uint8_t* data;
  int64_t stride;       // compact: bytes between rows of the buffer
  int64_t inner_tiles;  // swizzled: see numerics::SwizzledIndex
};

struct CastParams {
  const void* input;
  const void* act_input;
  numerics::ActivationFunction activation;
  uint8_t* rowwise_data;
  uint8_t* columnwise_data;
  ScaleOutput rowwise_scale;
  ScaleOutput columnwise_scale;
  float* amax;
  float* dbias_workspace;
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
template <int kNumWarps>
__device__ __forceinline__ void RaiseAmax(float* amax, float value) {
  __shared__ unsigned warp_maxima[kNumWarps];
  // Non-negative floats are ordered as their bits are.
  const unsigned warp_maximum = __reduce_max_sync(0xFFFFFFFFu, numerics::FloatToBits(value));
  if (threadIdx.x % 32 == 0) warp_maxima[threadIdx.x / 32] = warp_maximum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  unsigned maximum = warp_maximum;
#pragma unroll
  for (int w = 1; w < kNumWarps; ++w) maximum = max(maximum, warp_maxima[w]);
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

// Replaces elements by what is to be cast, and adds the columns up before anything is rounded.
template <typename T, Fusion kFusion, typename Words, int kVec, int kRows, int kWords>
__device__ __forceinline__ void Fuse(const CastParams& p, int64_t offset0, int num_rows,
                                     typename Words::Word (&x)[kRows][kWords],
                                     float (&sums)[kVec]) {
  [[maybe_unused]] typename Words::Word act_x[kRows][kWords];
  if constexpr (kFusion == Fusion::kDact) {
    const T* from = static_cast<const T*>(p.act_input) + offset0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      LoadWordsIf<T, kVec>(r < num_rows, act_x[r], from);
      from += p.cols;
    }
  }
  const auto replace = [&](auto function) {
#pragma unroll
    for (int i = 0; i < kRows * kWords; ++i) {
      const int r = i / kWords;
      const int w = i % kWords;
      float values[Words::kPerWord];
      [[maybe_unused]] float act_values[Words::kPerWord];
      Words::Unpack(x[r][w], values);
      if constexpr (kFusion == Fusion::kDact) Words::Unpack(act_x[r][w], act_values);
#pragma unroll
      for (int v = 0; v < Words::kPerWord; ++v) {
        if constexpr (kFusion == Fusion::kAct) values[v] = function(values[v]);
        // Rounded for itself, as a sum with fused products would differ from other backends'.
        if constexpr (kFusion == Fusion::kDact) {
          values[v] = __fmul_rn(values[v], function(act_values[v]));
        }
        if constexpr (kHasSums<kFusion>) sums[w * Words::kPerWord + v] += values[v];
      }
      if constexpr (kFusion != Fusion::kDbias) x[r][w] = Words::template Pack<T>(values);
    }
  };
  // The families are told apart once for all elements.
  if constexpr (kFusion == Fusion::kDbias) {
    replace([](float value) { return value; });
  } else if (p.activation.rectifies()) {
    replace([&](float value) {
      return kFusion == Fusion::kAct ? p.activation.Rectified(value)
                                     : p.activation.RectifiedDerivative(value);
    });
  } else {
    replace([&](float value) {
      return kFusion == Fusion::kAct ? p.activation.Gated(value)
                                     : p.activation.GatedDerivative(value);
    });
  }
}

// Adds the warps' column sums up, from the first to the last, and stores them.
template <Fusion kFusion, int kTileRows, int kVec>
__device__ __forceinline__ void StoreColumnSums(const CastParams& p, const float (&sums)[kVec]) {
  constexpr int kCols = 32 * kVec;
  static_assert(kCols <= kThreads<kFusion>);
  static_assert(kTileRows == numerics::DbiasChunkRows(kFusion == Fusion::kDact));
  __shared__ float warp_sums[kWarps<kFusion>][kCols];
#pragma unroll
  for (int v = 0; v < kVec; ++v) {
    warp_sums[threadIdx.x / 32][threadIdx.x % 32 * kVec + v] = sums[v];
  }
  __syncthreads();
  if (threadIdx.x >= kCols) return;
  float sum = warp_sums[0][threadIdx.x];
#pragma unroll
  for (int w = 1; w < kWarps<kFusion>; ++w) sum += warp_sums[w][threadIdx.x];
  // Threads stand for other columns than before: neighbours for neighbours.
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * kVec + threadIdx.x / 32;
  int64_t chunk, tile_col;
  p.tile_columns.Split(tile, &chunk, &tile_col);
  const int64_t col = tile_col * numerics::kBlockSize + threadIdx.x % 32;
  if (chunk * kTileRows < p.rows && col < p.cols) p.dbias_workspace[chunk * p.cols + col] = sum;
}

template <typename T, DType kFp8, bool kRowwise, bool kColwise, int kVec, Fusion kFusion>
__global__ void __launch_bounds__(kThreads<kFusion>, kMinBlocks<T, kFusion>)
    CastKernel(const __grid_constant__ CastParams p) {
  if constexpr (kFusion == Fusion::kNone) {
    if (p.noop != nullptr && *p.noop == 1.0f) return;
  }

  using Words = typename WordsOf<T, kVec>::Type;
  using Word = typename Words::Word;
  constexpr int kWords = kVec / Words::kPerWord;
  constexpr int kLanes = numerics::kBlockSize / kVec;
  constexpr int kRows = kRowsPerThread<kColwise, kFusion>;
  constexpr int kTileRows = kRows * kWarps<kFusion>;

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % kLanes;
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * kVec + threadIdx.x % 32 / kLanes;
  int64_t tile_row, tile_col;
  p.tile_columns.Split(tile, &tile_row, &tile_col);
  const int64_t row0 = tile_row * kTileRows + warp * kRows;
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

  if constexpr (kFusion != Fusion::kNone) {
    float sums[kVec] = {};
    Fuse<T, kFusion, Words>(p, offset0, num_rows, x, sums);
    if constexpr (kHasSums<kFusion>) {
      if (p.dbias_workspace != nullptr) StoreColumnSums<kFusion, kTileRows>(p, sums);
    }
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
    __shared__ Word exchange[kWarps<kFusion>][kWords][32];
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
      for (int other = 1; other < kBandWarps; ++other) {
        const int band_warp = warp / kBandWarps * kBandWarps + (warp + other) % kBandWarps;
        maxima[w] = Words::AbsMax(maxima[w], exchange[band_warp][w][threadIdx.x % 32]);
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
    if (warp % kBandWarps == 0) {
      const int64_t band = tile_row * (kTileRows / numerics::kBlockSize) + warp / kBandWarps;
      StoreColumnScales<kVec>(p, tile, band, col0, num_rows > 0, scales);
    }
    uint8_t* to = p.columnwise_data + offset0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      CastAndStoreIf<kFp8, Words>(r < num_rows, to, x[r], inverse_scales);
      to += p.cols;
    }
  }

  if (p.amax != nullptr) RaiseAmax<kWarps<kFusion>>(p.amax, Words::MaxOfWord(thread_maximum));
}

// A plain cast with one scale for 32x32 elements, which stands in the scale buffers once for each
// of the block's rows and columns. Both directions hold the same data.
template <typename T, DType kFp8, int kVec>
__global__ void __launch_bounds__(kThreads<Fusion::kNone>)
    CastSquareBlocksKernel(const __grid_constant__ CastParams p) {
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

using KernelPointer = void (*)(CastParams);

template <typename T, DType kFp8, int kVec, Fusion kFusion>
KernelPointer SelectDirections(const QuantizeConfig& config) {
  if (!config.colwise) return CastKernel<T, kFp8, true, false, kVec, kFusion>;
  if (!config.rowwise) return CastKernel<T, kFp8, false, true, kVec, kFusion>;
  return CastKernel<T, kFp8, true, true, kVec, kFusion>;
}

template <typename T, int kVec, Fusion kFusion>
KernelPointer SelectFp8(const QuantizeConfig& config) {
  return config.fp8_dtype == DType::kFloat8E4M3
             ? SelectDirections<T, DType::kFloat8E4M3, kVec, kFusion>(config)
             : SelectDirections<T, DType::kFloat8E5M2, kVec, kFusion>(config);
}

// Whether kVec neighbouring elements can be accessed at once everywhere.
bool FitsVector(const QuantizeConfig& config, const KernelArgs& args, int vec, int element_size) {
  const bool compact_columnwise = config.colwise && !config.swizzled;
  return args.cols % vec == 0 &&
         IsAligned(args.input, std::min(vec * element_size, kMaxAccessBytes)) &&
         IsAligned(args.act_input, std::min(vec * element_size, kMaxAccessBytes)) &&
         IsAligned(args.rowwise_data, vec) && IsAligned(args.columnwise_data, vec) &&
         !(compact_columnwise && (!IsAligned(args.columnwise_scale_inv.data, vec) ||
                                  args.columnwise_scale_inv.cols % vec != 0));
}

struct Selection {
  KernelPointer kernel;
  int vec;
  int warps;
  int tile_rows;
};

template <Fusion kFusion, typename T, int kVec, int... kNarrower>
Selection SelectVector(const QuantizeConfig& config, const KernelArgs& args) {
  if constexpr (sizeof...(kNarrower) != 0) {
    if (!FitsVector(config, args, kVec, sizeof(T))) {
      return SelectVector<kFusion, T, kNarrower...>(config, args);
    }
  }
  const int rows = config.colwise ? kRowsPerThread<true, kFusion> : kRowsPerThread<false, kFusion>;
  return {SelectFp8<T, kVec, kFusion>(config), kVec, kWarps<kFusion>, rows * kWarps<kFusion>};
}

template <typename T, int kVec>
Selection SelectSquareBlocks(const QuantizeConfig& config) {
  const KernelPointer kernel = config.fp8_dtype == DType::kFloat8E4M3
                                   ? CastSquareBlocksKernel<T, DType::kFloat8E4M3, kVec>
                                   : CastSquareBlocksKernel<T, DType::kFloat8E5M2, kVec>;
  return {kernel, kVec, kBandWarps, numerics::kBlockSize};
}

template <typename T>
Selection SelectFusion(const QuantizeConfig& config, const KernelArgs& args) {
  // Two inputs of 8 fp32 a row would not fit the registers.
  constexpr int kFusedVec = sizeof(T) == 4 ? 4 : 8;
  if (config.use_2d_quantization) {
    return FitsVector(config, args, 8, sizeof(T)) ? SelectSquareBlocks<T, 8>(config)
                                                  : SelectSquareBlocks<T, 1>(config);
  }
  if (config.with_dact) return SelectVector<Fusion::kDact, T, kFusedVec, 1>(config, args);
  if (config.with_dbias) return SelectVector<Fusion::kDbias, T, kFusedVec, 1>(config, args);
  if (config.with_act) return SelectVector<Fusion::kAct, T, kFusedVec, 1>(config, args);
  return SelectVector<Fusion::kNone, T, 8, 2, 1>(config, args);
}

Selection Select(const QuantizeConfig& config, const KernelArgs& args) {
  switch (config.dtype) {
    case DType::kFloat32:
      return SelectFusion<float>(config, args);
    case DType::kFloat16:
      return SelectFusion<__half>(config, args);
    default:
      return SelectFusion<__nv_bfloat16>(config, args);
  }
}

}  // namespace

void Quantize(const QuantizeConfig& config, const KernelArgs& args) {
  CastParams params = {};
  params.input = args.input;
  params.act_input = args.act_input;
  params.activation = numerics::ActivationFunction(config.activation);
  params.rowwise_data = args.rowwise_data;
  params.columnwise_data = args.columnwise_data;
  params.rowwise_scale = {args.rowwise_scale_inv.data, args.rowwise_scale_inv.cols,
                          numerics::CeilDiv(args.cols, 128)};
  params.columnwise_scale = {args.columnwise_scale_inv.data, args.columnwise_scale_inv.cols,
                             numerics::CeilDiv(args.rows, 128)};
  params.amax = args.amax;
  params.dbias_workspace = args.dbias_workspace;
  params.noop = args.noop;
  params.rows = args.rows;
  params.cols = args.cols;
  params.swizzled = config.swizzled;

  const Selection selected = Select(config, args);
  const numerics::ScaleShape extent = config.swizzled
                                          ? numerics::PaddedRowwiseScaleShape(args.rows, args.cols)
                                          : numerics::ExactRowwiseScaleShape(args.rows, args.cols);
  params.tile_columns = GridColumns(extent.cols);
  params.tiles = extent.cols * numerics::CeilDiv(extent.rows, selected.tile_rows);
  Launch(selected.kernel, numerics::CeilDiv(params.tiles, selected.vec), selected.warps * 32,
         params, args.stream);
}

}  // namespace cuda
}  // namespace cutedsl_quant
