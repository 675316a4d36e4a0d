// Casts from MXFP8. A thread owns kVec neighbouring columns of kRows rows.
#include "common/cuda/cast.h"
#include "common/cuda/device_math.cuh"
#include "common/cuda/launch.h"
#include "common/numerics.h"

namespace cutedsl_quant {
namespace cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 4;  // divides 32, so that they share their 32x1 blocks

struct DequantizeParams {
  const uint8_t* data;
  const uint8_t* scale;
  int64_t scale_stride;  // compact: bytes between rows of the buffer
  int64_t inner_tiles;   // swizzled: see numerics::SwizzledIndex
  void* output;
  int64_t rows;
  int64_t cols;
  GridColumns chunk_columns;  // of kVec columns each
  bool colwise;
  bool swizzled;
};

// The scale of element (row, col).
__device__ __forceinline__ float ScaleAt(const DequantizeParams& p, int64_t row, int64_t col) {
  const int64_t i = p.colwise ? row / numerics::kBlockSize : row;
  const int64_t j = p.colwise ? col : col / numerics::kBlockSize;
  const int64_t index = !p.swizzled ? i * p.scale_stride + j
                        : p.colwise ? numerics::SwizzledIndex(j, i, p.inner_tiles)
                                    : numerics::SwizzledIndex(i, j, p.inner_tiles);
  return numerics::DecodeE8M0(p.scale[index]);
}

template <typename T, DType kFp8, int kVec>
__global__ void __launch_bounds__(kThreads)
    DequantizeKernel(const __grid_constant__ DequantizeParams p) {
  cudaGridDependencySynchronize();
  int64_t band, chunk;
  p.chunk_columns.Split(static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, &band, &chunk);
  const int64_t row0 = band * kRows;
  const int64_t col0 = chunk * kVec;

  uint32_t codes[kRows][(kVec + 3) / 4] = {};
  const uint8_t* from = p.data + row0 * p.cols + col0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    LoadIf<kVec>(row0 + r < p.rows, codes[r], from);
    from += p.cols;
  }

  float scales[kVec];
  T* to = static_cast<T*>(p.output) + row0 * p.cols + col0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (row0 + r >= p.rows) return;
    if (r == 0 || !p.colwise) {
#pragma unroll
      for (int v = 0; v < kVec; ++v) {
        // Neighbouring columns never belong to two blocks of a row.
        scales[v] = v == 0 || p.colwise ? ScaleAt(p, row0 + r, col0 + v) : scales[0];
      }
    }
    T values[kVec];
#pragma unroll
    for (int v = 0; v < kVec; ++v) {
      const uint8_t code = static_cast<uint8_t>(codes[r][v / 4] >> v % 4 * 8);
      const __half value(__nv_cvt_fp8_to_halfraw(code, kInterpretation<kFp8>));
      values[v] = FromFloat<T>(__half2float(value) * scales[v]);
    }
    uint32_t bits[(kVec * sizeof(T) + 3) / 4] = {};
    memcpy(bits, values, sizeof(values));
    StoreIf<kVec * sizeof(T)>(true, to, bits);
    to += p.cols;
  }
}

using KernelPointer = void (*)(DequantizeParams);

template <typename T, int kVec>
KernelPointer SelectFp8(DType fp8_dtype) {
  return fp8_dtype == DType::kFloat8E4M3 ? DequantizeKernel<T, DType::kFloat8E4M3, kVec>
                                         : DequantizeKernel<T, DType::kFloat8E5M2, kVec>;
}

template <typename T>
void LaunchDequantize(const DequantizeArgs& args, DequantizeParams params) {
  constexpr int kWide = 16 / sizeof(T);
  const bool wide =
      args.cols % kWide == 0 && IsAligned(args.data, kWide) && IsAligned(args.output, 16);
  params.chunk_columns = GridColumns(numerics::CeilDiv(args.cols, wide ? kWide : 1));
  const int64_t threads = numerics::CeilDiv(args.rows, kRows) * params.chunk_columns.count();
  Launch(wide ? SelectFp8<T, kWide>(args.fp8_dtype) : SelectFp8<T, 1>(args.fp8_dtype),
         numerics::CeilDiv(threads, kThreads), kThreads, params, args.stream);
}

}  // namespace

void Dequantize(const DequantizeArgs& args) {
  DequantizeParams params = {};
  params.data = args.data;
  params.scale = args.scale_inv.data;
  params.scale_stride = args.scale_inv.cols;
  params.inner_tiles = numerics::CeilDiv(args.colwise ? args.rows : args.cols, 128);
  params.output = args.output;
  params.rows = args.rows;
  params.cols = args.cols;
  params.colwise = args.colwise;
  params.swizzled = args.swizzled;
  switch (args.dtype) {
    case DType::kFloat32:
      return LaunchDequantize<float>(args, params);
    case DType::kFloat16:
      return LaunchDequantize<__half>(args, params);
    default:
      return LaunchDequantize<__nv_bfloat16>(args, params);
  }
}

}  // namespace cuda
}  // namespace cutedsl_quant
