// Scales between the compact and the swizzled layout. A thread moves the 16 bytes that are
// neighbours in the swizzled layout: scales (i, j) to (i, j + 3) of four i that are 32 apart. Here
// i counts rows (rowwise) or columns (columnwise) of the tensor, and j blocks along them.
#include <algorithm>

#include "common/cuda/device_math.cuh"
#include "common/cuda/launch.h"
#include "common/cuda/swizzle.h"
#include "common/numerics.h"

namespace cutedsl_quant {
namespace cuda {
namespace {

// Of a tile of the swizzled layout, see numerics::SwizzledIndex.
constexpr int kTileOuter = 128;
constexpr int kTileInner = 4;
constexpr int kTileThreads = 32;                // that stand for a tile
constexpr int kWords = 4;                       // of 4 scales each a thread
constexpr int kMaxTileBits = 3;                 // tiles a warp: at most 2^3, one sector of each row
constexpr int kBlockTiles = 1 << kMaxTileBits;  // tiles a block
constexpr int kThreads = kBlockTiles * kTileThreads;

struct SwizzleParams {
  uint8_t* compact;
  uint8_t* swizzled;
  int64_t outer_stride;  // scale (i, j) lies at compact[i * outer_stride + j * inner_stride]
  int64_t inner_stride;
  int64_t outer_count;  // scales that exist
  int64_t inner_count;
  int64_t tiles;
  int64_t inner_tiles;  // side by side
  GridColumns tile_columns;
  int tile_bits;          // 2^tile_bits neighbouring lanes stand for neighbouring tiles
  bool word_access;       // (i, j) to (i, j + 3) of the compact layout can be accessed at once
  bool swizzled_aligned;  // to 16 bytes
};

// Words from the compact layout, zeros for scales that do not exist.
__device__ __forceinline__ void LoadCompact(const SwizzleParams& p, int64_t i0, int64_t j0,
                                            uint32_t (&words)[kWords]) {
  const uint8_t* const from = p.compact + i0 * p.outer_stride + j0 * p.inner_stride;
  if (p.word_access) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int i = w * kTileThreads;
      LoadIf<4>(i0 + i < p.outer_count, &words[w], from + i * p.outer_stride);
    }
    // The last words of the rows may end with padding, which can hold anything.
    const int excess = static_cast<int>(max(j0 + kTileInner - p.inner_count, int64_t{0}));
#pragma unroll
    for (int w = 0; w < kWords; ++w) words[w] &= 0xFFFFFFFFu >> excess * 8;
  } else {
    uint32_t bytes[kWords][kTileInner] = {};
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
#pragma unroll
      for (int j = 0; j < kTileInner; ++j) {
        const int i = w * kTileThreads;
        LoadIf<1>(i0 + i < p.outer_count && j0 + j < p.inner_count, &bytes[w][j],
                  from + i * p.outer_stride + j * p.inner_stride);
      }
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
#pragma unroll
      for (int j = 0; j < kTileInner; ++j) words[w] |= bytes[w][j] << j * 8;
    }
  }
}

__device__ __forceinline__ void StoreCompact(const SwizzleParams& p, int64_t i0, int64_t j0,
                                             const uint32_t (&words)[kWords]) {
  uint8_t* const to = p.compact + i0 * p.outer_stride + j0 * p.inner_stride;
  if (p.word_access && j0 + kTileInner <= p.inner_count) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int i = w * kTileThreads;
      StoreIf<4>(i0 + i < p.outer_count, to + i * p.outer_stride, &words[w]);
    }
    return;
  }
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
#pragma unroll
    for (int j = 0; j < kTileInner; ++j) {
      const int i = w * kTileThreads;
      const uint32_t scale = words[w] >> j * 8;
      StoreIf<1>(i0 + i < p.outer_count && j0 + j < p.inner_count,
                 to + i * p.outer_stride + j * p.inner_stride, &scale);
    }
  }
}

__device__ __forceinline__ void LoadSwizzled(const SwizzleParams& p, const uint8_t* from,
                                             uint32_t (&words)[kWords]) {
  if (p.swizzled_aligned) {
    LoadIf<16>(true, words, from);
    return;
  }
  uint32_t bytes[kWords * 4] = {};
#pragma unroll
  for (int b = 0; b < kWords * 4; ++b) LoadIf<1>(true, &bytes[b], from + b);
#pragma unroll
  for (int b = 0; b < kWords * 4; ++b) words[b / 4] |= bytes[b] << b % 4 * 8;
}

__device__ __forceinline__ void StoreSwizzled(const SwizzleParams& p, uint8_t* to,
                                              const uint32_t (&words)[kWords]) {
  if (p.swizzled_aligned) {
    StoreIf<16>(true, to, words);
    return;
  }
#pragma unroll
  for (int b = 0; b < kWords * 4; ++b) {
    const uint32_t scale = words[b / 4] >> b % 4 * 8;
    StoreIf<1>(true, to + b, &scale);
  }
}

template <bool kToSwizzled>
__global__ void __launch_bounds__(kThreads) SwizzleKernel(const __grid_constant__ SwizzleParams p) {
  cudaGridDependencySynchronize();
  // The thread's number, from the lowest bits: which of neighbouring tiles, which 16 bytes of the
  // tile, which group of neighbouring tiles.
  const int neighbour = threadIdx.x & ((1 << p.tile_bits) - 1);
  const int segment = threadIdx.x >> p.tile_bits & (kTileThreads - 1);
  const int group = threadIdx.x / kTileThreads >> p.tile_bits;
  const int64_t tile =
      static_cast<int64_t>(blockIdx.x) * kBlockTiles + (group << p.tile_bits) + neighbour;
  if (tile >= p.tiles) return;
  int64_t outer_tile, inner_tile;
  p.tile_columns.Split(tile, &outer_tile, &inner_tile);
  const int64_t i0 = outer_tile * kTileOuter + segment;
  const int64_t j0 = inner_tile * kTileInner;
  uint8_t* const swizzled = p.swizzled + numerics::SwizzledIndex(i0, j0, p.inner_tiles);

  uint32_t words[kWords] = {};
  if constexpr (kToSwizzled) {
    LoadCompact(p, i0, j0, words);
    StoreSwizzled(p, swizzled, words);
  } else {
    LoadSwizzled(p, swizzled, words);
    StoreCompact(p, i0, j0, words);
  }
}

template <bool kToSwizzled>
void LaunchSwizzle(const SwizzleArgs& args) {
  const int64_t blocks_along =
      numerics::CeilDiv(args.colwise ? args.rows : args.cols, numerics::kBlockSize);
  SwizzleParams params = {};
  params.compact = args.compact.data;
  params.swizzled = args.swizzled.data;
  params.outer_stride = args.colwise ? 1 : args.compact.cols;
  params.inner_stride = args.colwise ? args.compact.cols : 1;
  params.outer_count = args.colwise ? args.cols : args.rows;
  params.inner_count = blocks_along;
  params.inner_tiles = numerics::CeilDiv(blocks_along, kTileInner);
  params.tiles = numerics::CeilDiv(params.outer_count, kTileOuter) * params.inner_tiles;
  params.tile_columns = GridColumns(params.inner_tiles);
  // Rowwise, compact neighbours lie in neighbouring tiles; columnwise, in the same.
  while (!args.colwise && params.tile_bits < kMaxTileBits &&
         1 << params.tile_bits < params.inner_tiles) {
    ++params.tile_bits;
  }
  params.word_access =
      !args.colwise && args.compact.cols % kTileInner == 0 && IsAligned(args.compact.data, 4);
  params.swizzled_aligned = IsAligned(args.swizzled.data, 16);
  Launch(SwizzleKernel<kToSwizzled>, numerics::CeilDiv(params.tiles, kBlockTiles), kThreads, params,
         args.stream);
}

}  // namespace

void SwizzleScales(const SwizzleArgs& args) { LaunchSwizzle<true>(args); }

void UnswizzleScales(const SwizzleArgs& args) { LaunchSwizzle<false>(args); }

}  // namespace cuda
}  // namespace cutedsl_quant
