// The facts of the MXFP8 format that every backend written in C++ shares: constants, scale
// arithmetic, scale layouts. Compiled by nvcc the functions work on both sides; device code takes
// the hardware's conversion where there is one.
#ifndef CUTEDSL_QUANT_COMMON_NUMERICS_H_
#define CUTEDSL_QUANT_COMMON_NUMERICS_H_

#include <cstdint>
#include <cstring>

#include "cutedsl_quant/tensor.h"

#ifdef __CUDACC__
#define CUTEDSL_QUANT_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define CUTEDSL_QUANT_HOST_DEVICE inline
#endif

namespace cutedsl_quant {
namespace numerics {

// Elements that share one scale.
inline constexpr int kBlockSize = 32;

// Largest finite values.
inline constexpr float kE4M3Max = 448.0f;
inline constexpr float kE5M2Max = 57344.0f;
// (float)(1 / max): the scale is a product with it, not a quotient.
inline constexpr uint32_t kE4M3MaxReciprocalBits = 0x3B124925u;
inline constexpr uint32_t kE5M2MaxReciprocalBits = 0x37924925u;
// What a NaN element becomes in both FP8 formats.
inline constexpr uint8_t kFp8Nan = 0x7F;
// The scale byte that stands for NaN.
inline constexpr uint8_t kE8M0Nan = 0xFF;

CUTEDSL_QUANT_HOST_DEVICE uint32_t FloatToBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

CUTEDSL_QUANT_HOST_DEVICE float BitsToFloat(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// 1 / max of kFloat8E4M3 or kFloat8E5M2.
CUTEDSL_QUANT_HOST_DEVICE float MaxReciprocal(DType fp8_dtype) {
  return BitsToFloat(fp8_dtype == DType::kFloat8E4M3 ? kE4M3MaxReciprocalBits
                                                     : kE5M2MaxReciprocalBits);
}

// The smallest power of two that is not below a non-negative `value`, as an E8M0 byte e (2^(e -
// 127)); saturates at 0xFE, NaN is 0xFF.
CUTEDSL_QUANT_HOST_DEVICE uint8_t E8M0RoundUp(float value) {
#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1000
  uint16_t pair;
  asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  return static_cast<uint8_t>(pair);
#else
  const uint32_t bits = FloatToBits(value);
  uint32_t exponent = (bits + 0x7FFFFFu) >> 23;  // the next one if there is any mantissa
  exponent = exponent < 0xFE ? exponent : 0xFE;
  exponent = bits <= 0x400000u ? 0 : exponent;  // up to 2^-127, which is subnormal in fp32
  return static_cast<uint8_t>(bits > 0x7F800000u ? kE8M0Nan : exponent);
#endif
}

// The scale byte of a block whose largest absolute value is `amax`.
CUTEDSL_QUANT_HOST_DEVICE uint8_t BlockScale(float amax, DType fp8_dtype) {
  return E8M0RoundUp(amax * MaxReciprocal(fp8_dtype));
}

// 1 / 2^(scale - 127), what elements are multiplied with before the cast.
CUTEDSL_QUANT_HOST_DEVICE float InverseScale(uint8_t scale) {
  uint32_t bits = static_cast<uint32_t>(254 - scale) << 23;
  bits = scale == 0xFE ? 0x00400000u : bits;  // 2^-127 is subnormal
  return BitsToFloat(scale == kE8M0Nan ? 0x7FFFFFFFu : bits);
}

// 2^(scale - 127), what elements are multiplied with to dequantize.
CUTEDSL_QUANT_HOST_DEVICE float DecodeE8M0(uint8_t scale) {
  uint32_t bits = static_cast<uint32_t>(scale) << 23;
  bits = scale == 0 ? 0x00400000u : bits;  // 2^-127 is subnormal
  return BitsToFloat(scale == kE8M0Nan ? 0x7FFFFFFFu : bits);
}

CUTEDSL_QUANT_HOST_DEVICE constexpr int64_t CeilDiv(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit;
}

CUTEDSL_QUANT_HOST_DEVICE constexpr int64_t RoundUp(int64_t value, int64_t unit) {
  return CeilDiv(value, unit) * unit;
}

// Rows that one fp32 row of partial column sums stands for, in every backend's dbias workspace.
CUTEDSL_QUANT_HOST_DEVICE constexpr int64_t DbiasChunkRows(bool with_dact) {
  return with_dact ? 64 : 128;
}

struct ScaleShape {
  int64_t rows;
  int64_t cols;
};

// Number of scales of an M x N tensor in each direction; compact buffers may have just this size.
inline constexpr ScaleShape ExactRowwiseScaleShape(int64_t m, int64_t n) {
  return {m, CeilDiv(n, kBlockSize)};
}
inline constexpr ScaleShape ExactColumnwiseScaleShape(int64_t m, int64_t n) {
  return {CeilDiv(m, kBlockSize), n};
}
// The same padded to whole 128x4 tiles: the shape of swizzled buffers, and the usual one of compact
// buffers.
inline constexpr ScaleShape PaddedRowwiseScaleShape(int64_t m, int64_t n) {
  return {RoundUp(m, 128), RoundUp(CeilDiv(n, kBlockSize), 4)};
}
inline constexpr ScaleShape PaddedColumnwiseScaleShape(int64_t m, int64_t n) {
  return {RoundUp(CeilDiv(m, kBlockSize), 4), RoundUp(n, 128)};
}

// Where a GEMM looks for the scale (outer, inner) in a buffer of 128x4 tiles, `inner_tiles` of them
// side by side. Rowwise: outer = row, inner = col / 32, inner_tiles = ceil(N / 128). Columnwise:
// outer = col, inner = row / 32, inner_tiles = ceil(M / 128).
CUTEDSL_QUANT_HOST_DEVICE constexpr int64_t SwizzledIndex(int64_t outer, int64_t inner,
                                                          int64_t inner_tiles) {
  const uint64_t i = static_cast<uint64_t>(outer);  // unsigned division by 2^n is a shift
  const uint64_t j = static_cast<uint64_t>(inner);
  const uint64_t tile = i / 128 * static_cast<uint64_t>(inner_tiles) + j / 4;
  return static_cast<int64_t>(tile * 512 + i % 32 * 16 + i % 128 / 32 * 4 + j % 4);
}

}  // namespace numerics
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_NUMERICS_H_
