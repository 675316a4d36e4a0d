// What a test of casts goes through: shapes, buffers for one call, and a slow oracle made of the
// functions of cuda_fp8.h that shares nothing with the library.
#ifndef CUTEDSL_QUANT_TESTS_COMMON_CAST_CASE_H_
#define CUTEDSL_QUANT_TESTS_COMMON_CAST_CASE_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cutedsl_quant/config.h"
#include "cutedsl_quant/quantize.h"
#include "tests/common/guarded_bytes.h"

namespace cutedsl_quant {

using Shape = std::vector<int64_t>;

inline Tensor HostTensor(void* data, DType dtype, const Shape& shape) {
  Tensor tensor(data, dtype, Device{}, {});
  for (int64_t extent : shape) tensor.shape[tensor.ndim++] = extent;
  return tensor;
}

inline int64_t ElementBytes(DType dtype) {
  return dtype == DType::kFloat32                                ? 4
         : dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? 2
                                                                 : 1;
}

// The 72 configurations that are plain casts.
inline std::vector<QuantizeConfig> CastConfigs() {
  std::vector<QuantizeConfig> casts;
  for (const QuantizeConfig& config : AllLegalConfigs()) {
    if (config.IsCast()) casts.push_back(config);
  }
  return casts;
}

inline void StoreElement(float value, DType dtype, uint8_t* bytes) {
  if (dtype == DType::kFloat32) {
    std::memcpy(bytes, &value, 4);
  } else if (dtype == DType::kFloat16) {
    const __half_raw raw = __float2half_rn(value);
    std::memcpy(bytes, &raw.x, 2);
  } else {
    const __nv_bfloat16_raw raw = __float2bfloat16_rn(value);
    std::memcpy(bytes, &raw.x, 2);
  }
}

inline float LoadElement(const uint8_t* bytes, DType dtype) {
  if (dtype == DType::kFloat32) {
    float value;
    std::memcpy(&value, bytes, 4);
    return value;
  }
  uint16_t code;
  std::memcpy(&code, bytes, 2);
  if (dtype == DType::kFloat16) return __half2float(__half(__half_raw{code}));
  return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{code}));
}

// Elements of every magnitude, with whole blocks scaled up and down, and special values among them.
inline std::vector<uint8_t> RandomElements(int64_t count, DType dtype, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const float specials[] = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,
                            1e-40f, -1e-45f, 448.0f,   57344.0f,  3e38f};
  std::vector<uint8_t> bytes(count * ElementBytes(dtype));
  int exponent = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i % 32 == 0) exponent = static_cast<int>(random() % 64) - 32;
    float value = std::ldexp(normal(random), exponent);
    if (random() % 97 == 0) value = specials[random() % std::size(specials)];
    StoreElement(value, dtype, bytes.data() + i * ElementBytes(dtype));
  }
  return bytes;
}

// std::fmax does not ignore signaling NaNs, which bit patterns are full of.
inline float MaxIgnoringNan(float amax, float value) { return value > amax ? value : amax; }

// One direction of an output, as it must be after a call.
struct ExpectedDirection {
  std::vector<uint8_t> data;
  std::vector<uint8_t> scales;  // as they lie in memory
};

struct ScaleBuffer {
  int64_t rows;
  int64_t cols;
};

inline int64_t RoundUpTo(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// The buffer shapes of quantize.h, written down a second time.
inline ScaleBuffer PaddedScales(bool colwise, int64_t m, int64_t n) {
  if (colwise) return {RoundUpTo((m + 31) / 32, 4), RoundUpTo(n, 128)};
  return {RoundUpTo(m, 128), RoundUpTo((n + 31) / 32, 4)};
}
inline ScaleBuffer ExactScales(bool colwise, int64_t m, int64_t n) {
  if (colwise) return {(m + 31) / 32, n};
  return {m, (n + 31) / 32};
}

// The scale of block number `block` of a line, which is a row or, columnwise, a column.
struct ScalePlace {
  int64_t line;
  int64_t block;
};

// What stands at a position of a swizzled buffer, or would if it existed; lines of `length`
// elements.
inline ScalePlace SwizzledPlace(int64_t position, int64_t length) {
  const int64_t tiles_per_row = (length + 127) / 128;
  const int64_t tile = position / 512;
  return {tile / tiles_per_row * 128 + position % 16 / 4 * 32 + position % 512 / 16,
          tile % tiles_per_row * 4 + position % 4};
}

inline int64_t CompactPosition(ScalePlace place, bool colwise, ScaleBuffer buffer) {
  return colwise ? place.block * buffer.cols + place.line : place.line * buffer.cols + place.block;
}

// Bytes that the call must not write keep kPoison.
inline ExpectedDirection Oracle(const std::vector<float>& x, int64_t m, int64_t n, DType fp8_dtype,
                                bool colwise, bool swizzled, ScaleBuffer buffer,
                                bool square_blocks = false) {
  const bool e4m3 = fp8_dtype == DType::kFloat8E4M3;
  const float max_reciprocal = static_cast<float>(1.0 / (e4m3 ? 448.0 : 57344.0));
  const int64_t lines = colwise ? n : m;   // one row or column of blocks each
  const int64_t length = colwise ? m : n;  // elements along a line
  const int64_t blocks = (length + 31) / 32;
  const auto at = [&](int64_t line, int64_t i) { return colwise ? i * n + line : line * n + i; };

  ExpectedDirection expected;
  expected.data.resize(m * n);
  expected.scales.assign(buffer.rows * buffer.cols, swizzled ? 0 : kPoison);
  std::vector<uint8_t> scales(lines * blocks);
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t end = std::min(length, block * 32 + 32);
      const int64_t first_line = square_blocks ? line / 32 * 32 : line;
      const int64_t end_line = square_blocks ? std::min(lines, first_line + 32) : line + 1;
      float amax = 0;
      for (int64_t l = first_line; l < end_line; ++l) {
        for (int64_t i = block * 32; i < end; ++i)
          amax = MaxIgnoringNan(amax, std::fabs(x[at(l, i)]));
      }
      const uint8_t scale =
          __nv_cvt_float_to_e8m0(amax * max_reciprocal, __NV_SATFINITE, cudaRoundPosInf);
      scales[line * blocks + block] = scale;
      const float inverse = std::ldexp(1.0f, 127 - scale);
      for (int64_t i = block * 32; i < end; ++i) {
        expected.data[at(line, i)] = __nv_cvt_float_to_fp8(x[at(line, i)] * inverse, __NV_SATFINITE,
                                                           e4m3 ? __NV_E4M3 : __NV_E5M2);
      }
    }
  }
  if (swizzled) {
    // From the position in memory back to the block that stands there.
    for (size_t p = 0; p < expected.scales.size(); ++p) {
      const auto [line, block] = SwizzledPlace(p, length);
      if (line < lines && block < blocks) expected.scales[p] = scales[line * blocks + block];
    }
  } else {
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t block = 0; block < blocks; ++block) {
        expected.scales[CompactPosition({line, block}, colwise, buffer)] =
            scales[line * blocks + block];
      }
    }
  }
  return expected;
}

// Poisoned host outputs for one configuration.
struct HostOutput {
  HostOutput(const QuantizeConfig& config, const Shape& shape, bool exact_scales)
      : view(HostTensor(nullptr, config.dtype, shape)),
        rowwise_buffer(exact_scales ? ExactScales(false, view.rows(), view.cols())
                                    : PaddedScales(false, view.rows(), view.cols())),
        colwise_buffer(exact_scales ? ExactScales(true, view.rows(), view.cols())
                                    : PaddedScales(true, view.rows(), view.cols())),
        rowwise_data(view.size()),
        rowwise_scales(rowwise_buffer.rows * rowwise_buffer.cols),
        colwise_data(view.size()),
        colwise_scales(colwise_buffer.rows * colwise_buffer.cols) {
    if (config.rowwise) {
      tensor.rowwise_data = HostTensor(rowwise_data.data(), config.fp8_dtype, shape);
      tensor.rowwise_scale_inv = HostTensor(rowwise_scales.data(), DType::kFloat8E8M0,
                                            {rowwise_buffer.rows, rowwise_buffer.cols});
    }
    if (config.colwise) {
      tensor.columnwise_data = HostTensor(colwise_data.data(), config.fp8_dtype, shape);
      tensor.columnwise_scale_inv = HostTensor(colwise_scales.data(), DType::kFloat8E8M0,
                                               {colwise_buffer.rows, colwise_buffer.cols});
    }
    if (config.with_amax) tensor.amax = HostTensor(&amax, DType::kFloat32, {1});
    tensor.swizzled_scales = config.swizzled;
  }

  bool untouched() const {
    return rowwise_data.untouched() && rowwise_scales.untouched() && colwise_data.untouched() &&
           colwise_scales.untouched();
  }
  bool guards_intact() const {
    return rowwise_data.guards_intact() && rowwise_scales.guards_intact() &&
           colwise_data.guards_intact() && colwise_scales.guards_intact();
  }

  Tensor view;
  ScaleBuffer rowwise_buffer;
  ScaleBuffer colwise_buffer;
  GuardedBytes rowwise_data;
  GuardedBytes rowwise_scales;
  GuardedBytes colwise_data;
  GuardedBytes colwise_scales;
  float amax = 0;
  QuantizedTensor tensor;
};

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_COMMON_CAST_CASE_H_
