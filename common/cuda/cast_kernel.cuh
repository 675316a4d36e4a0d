// Casts to MXFP8, with or without a fusion before them. One kernel shape for all directions: data
// stays in registers, loads and stores are plain (cache hints cost 10 % on Hopper), and block
// maxima cross threads by shuffles along rows and by shared memory along columns.
//
// A tile is 32 columns wide. kLanes = 32 / kVec neighbouring lanes share a tile's row, each with
// kVec neighbouring columns; a thread holds kRows rows of them, and the kWarps warps of a
// block lie below each other. Tiles are numbered row by row, and the lanes of a warp walk along
// this numbering, so narrow and ragged tensors keep all lanes busy.

#ifndef CUTEDSL_QUANT_COMMON_CUDA_CAST_KERNEL_CUH_
#define CUTEDSL_QUANT_COMMON_CUDA_CAST_KERNEL_CUH_

#include <algorithm>

#include "common/activations.h"
#include "common/cuda/cast_params.cuh"
#include "common/cuda/device_math.cuh"
#include "common/cuda/launch.h"
#include "common/numerics.h"

namespace cutedsl_quant {
namespace cuda {

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
inline constexpr int kBandWarps = 4;
template <bool kColwise, Fusion kFusion>
inline constexpr int kRowsPerThread =
    kColwise || kHasSums<kFusion> ? numerics::kBlockSize / kBandWarps : 4;

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
  cudaGridDependencySynchronize();
  if constexpr (kFusion == Fusion::kNone) {
    if (p.noop != nullptr && *p.noop == 1.0f) return;
  }
  // The kernel that adds the workspace up may be set up; it waits for all that is written.
  if constexpr (kHasSums<kFusion>) cudaTriggerProgrammaticLaunchCompletion();

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

template <typename T, DType kFp8, int kVec, Fusion kFusion>
CastKernelPointer SelectDirections(const QuantizeConfig& config) {
  if (!config.colwise) return CastKernel<T, kFp8, true, false, kVec, kFusion>;
  if (!config.rowwise) return CastKernel<T, kFp8, false, true, kVec, kFusion>;
  return CastKernel<T, kFp8, true, true, kVec, kFusion>;
}

template <typename T, int kVec, Fusion kFusion>
CastKernelPointer SelectFp8(const QuantizeConfig& config) {
  return config.fp8_dtype == DType::kFloat8E4M3
             ? SelectDirections<T, DType::kFloat8E4M3, kVec, kFusion>(config)
             : SelectDirections<T, DType::kFloat8E5M2, kVec, kFusion>(config);
}

// Whether kVec neighbouring elements can be accessed at once everywhere.
inline bool FitsVector(const QuantizeConfig& config, const KernelArgs& args, int vec,
                       int element_size) {
  const bool compact_columnwise = config.colwise && !config.swizzled;
  return args.cols % vec == 0 &&
         IsAligned(args.input, std::min(vec * element_size, kMaxAccessBytes)) &&
         IsAligned(args.act_input, std::min(vec * element_size, kMaxAccessBytes)) &&
         IsAligned(args.rowwise_data, vec) && IsAligned(args.columnwise_data, vec) &&
         !(compact_columnwise && (!IsAligned(args.columnwise_scale_inv.data, vec) ||
                                  args.columnwise_scale_inv.cols % vec != 0));
}

template <Fusion kFusion, typename T, int kVec, int... kNarrower>
CastKernelSelection SelectVector(const QuantizeConfig& config, const KernelArgs& args) {
  if constexpr (sizeof...(kNarrower) != 0) {
    if (!FitsVector(config, args, kVec, sizeof(T))) {
      return SelectVector<kFusion, T, kNarrower...>(config, args);
    }
  }
  const int rows = config.colwise ? kRowsPerThread<true, kFusion> : kRowsPerThread<false, kFusion>;
  return {SelectFp8<T, kVec, kFusion>(config), kVec, kWarps<kFusion>, rows * kWarps<kFusion>};
}

// Calls select(T()) with the input's element type.
template <typename Function>
CastKernelSelection WithElementType(DType dtype, Function select) {
  switch (dtype) {
    case DType::kFloat32:
      return select(float());
    case DType::kFloat16:
      return select(__half());
    default:
      return select(__nv_bfloat16());
  }
}

// Two inputs of 8 fp32 a row would not fit the registers.
template <typename T>
inline constexpr int kFusedVec = sizeof(T) == 4 ? 4 : 8;

template <Fusion kFusion>
CastKernelSelection SelectFused(const QuantizeConfig& config, const KernelArgs& args) {
  return WithElementType(config.dtype, [&](auto type) {
    using T = decltype(type);
    return SelectVector<kFusion, T, kFusedVec<T>, 1>(config, args);
  });
}

}  // namespace cuda
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CUDA_CAST_KERNEL_CUH_
