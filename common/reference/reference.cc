#include "common/reference/reference.h"

#include <algorithm>
#include <cstring>

#include "common/numerics.h"
#include "common/reference/float_formats.h"

namespace cutedsl_quant {
namespace reference {
namespace {

using numerics::kBlockSize;

struct Float32 {
  using Storage = float;
  static float Decode(float value) { return value; }
  static float Encode(float value) {
    // A NaN result has no sign or payload on the device.
    return value == value ? value : numerics::BitsToFloat(kFloatMagnitude);
  }
};

struct Float16 {
  using Storage = uint16_t;
  static float Decode(uint16_t code) { return DecodeFloat16(code); }
  static uint16_t Encode(float value) { return EncodeFloat16(value); }
};

struct BFloat16 {
  using Storage = uint16_t;
  static float Decode(uint16_t code) { return DecodeBFloat16(code); }
  static uint16_t Encode(float value) { return EncodeBFloat16(value); }
};

struct E4M3 {
  static constexpr DType kDType = DType::kFloat8E4M3;
  static uint8_t Encode(float value) { return EncodeE4M3(value); }
  static float Decode(uint8_t code) { return DecodeE4M3(code); }
};

struct E5M2 {
  static constexpr DType kDType = DType::kFloat8E5M2;
  static uint8_t Encode(float value) { return EncodeE5M2(value); }
  static float Decode(uint8_t code) { return DecodeE5M2(code); }
};

// Calls function(type) with one of the structures above.
template <typename Function>
void WithType(DType dtype, Function function) {
  switch (dtype) {
    case DType::kFloat32:
      return function(Float32());
    case DType::kFloat16:
      return function(Float16());
    default:
      return function(BFloat16());
  }
}

// Calls function(type, fp8_type).
template <typename Function>
void WithTypes(DType dtype, DType fp8_dtype, Function function) {
  WithType(dtype, [&](auto type) {
    fp8_dtype == DType::kFloat8E4M3 ? function(type, E4M3()) : function(type, E5M2());
  });
}

// Where the scales of an m x n tensor lie in their buffer.
struct ScaleLayout {
  bool colwise;
  bool swizzled;
  int64_t inner_tiles;  // swizzled: tiles side by side
  int64_t row_stride;   // compact: of the buffer

  ScaleLayout(const ScaleView& scales, bool colwise, bool swizzled, int64_t m, int64_t n)
      : colwise(colwise),
        swizzled(swizzled),
        inner_tiles(numerics::CeilDiv(colwise ? m : n, 128)),
        row_stride(scales.cols) {}

  // Of the block of element [row, col].
  int64_t Index(int64_t row, int64_t col) const {
    const int64_t outer = colwise ? col : row;
    const int64_t inner = (colwise ? row : col) / kBlockSize;
    if (swizzled) return numerics::SwizzledIndex(outer, inner, inner_tiles);
    return colwise ? inner * row_stride + outer : outer * row_stride + inner;
  }
};

// 32 x 32 elements of the input. Columns beyond the matrix hold zeros, which change no amax.
struct Tile {
  int64_t row0;
  int64_t col0;
  int rows;
  int cols;
  float values[kBlockSize][kBlockSize];
};

template <typename Input>
void Load(const KernelArgs& args, Tile& tile) {
  const auto* input = static_cast<const typename Input::Storage*>(args.input);
  for (int r = 0; r < tile.rows; ++r) {
    typename Input::Storage row[kBlockSize] = {};
    std::memcpy(row, input + (tile.row0 + r) * args.cols + tile.col0, tile.cols * sizeof(row[0]));
    for (int c = 0; c < kBlockSize; ++c) tile.values[r][c] = Input::Decode(row[c]);
  }
}

// |value| as bits, which order as the values do; NaN is nothing.
uint32_t AmaxBits(float value) {
  const uint32_t magnitude = numerics::FloatToBits(value) & kFloatMagnitude;
  return magnitude > kFloatInfinity ? 0 : magnitude;
}

uint32_t RowAmaxBits(const float (&row)[kBlockSize]) {
  uint32_t amax = 0;
  for (float value : row) amax = std::max(amax, AmaxBits(value));
  return amax;
}

template <typename Fp8>
void QuantizeRows(const Tile& tile, const KernelArgs& args, const ScaleLayout& layout) {
  for (int r = 0; r < tile.rows; ++r) {
    const float amax = numerics::BitsToFloat(RowAmaxBits(tile.values[r]));
    const uint8_t scale = numerics::BlockScale(amax, Fp8::kDType);
    const float inverse = numerics::InverseScale(scale);
    args.rowwise_scale_inv.data[layout.Index(tile.row0 + r, tile.col0)] = scale;
    uint8_t codes[kBlockSize];
    for (int c = 0; c < kBlockSize; ++c) codes[c] = Fp8::Encode(tile.values[r][c] * inverse);
    std::memcpy(args.rowwise_data + (tile.row0 + r) * args.cols + tile.col0, codes, tile.cols);
  }
}

template <typename Fp8>
void QuantizeColumns(const Tile& tile, const KernelArgs& args, const ScaleLayout& layout) {
  uint32_t amax_bits[kBlockSize] = {};
  for (int r = 0; r < tile.rows; ++r) {
    for (int c = 0; c < kBlockSize; ++c) {
      amax_bits[c] = std::max(amax_bits[c], AmaxBits(tile.values[r][c]));
    }
  }
  float inverse[kBlockSize] = {};
  for (int c = 0; c < tile.cols; ++c) {
    const uint8_t scale = numerics::BlockScale(numerics::BitsToFloat(amax_bits[c]), Fp8::kDType);
    inverse[c] = numerics::InverseScale(scale);
    args.columnwise_scale_inv.data[layout.Index(tile.row0, tile.col0 + c)] = scale;
  }
  for (int r = 0; r < tile.rows; ++r) {
    uint8_t codes[kBlockSize];
    for (int c = 0; c < kBlockSize; ++c) codes[c] = Fp8::Encode(tile.values[r][c] * inverse[c]);
    std::memcpy(args.columnwise_data + (tile.row0 + r) * args.cols + tile.col0, codes, tile.cols);
  }
}

// The same maximum of the bits as signed integers that the device takes atomically.
void RaiseAmax(float* amax, uint32_t bits) {
  int32_t current;
  std::memcpy(&current, amax, sizeof(current));
  current = std::max(current, static_cast<int32_t>(bits));
  std::memcpy(amax, &current, sizeof(current));
}

void ZeroSwizzledPadding(const ScaleView& scales) {
  std::memset(scales.data, 0, static_cast<size_t>(scales.rows * scales.cols));
}

template <typename Input, typename Fp8>
void QuantizeTiles(const QuantizeConfig& config, const KernelArgs& args) {
  const ScaleLayout rowwise(args.rowwise_scale_inv, /*colwise=*/false, config.swizzled, args.rows,
                            args.cols);
  const ScaleLayout colwise(args.columnwise_scale_inv, /*colwise=*/true, config.swizzled, args.rows,
                            args.cols);
  uint32_t amax_bits = 0;
  Tile tile;
  for (tile.row0 = 0; tile.row0 < args.rows; tile.row0 += kBlockSize) {
    tile.rows = static_cast<int>(std::min<int64_t>(kBlockSize, args.rows - tile.row0));
    for (tile.col0 = 0; tile.col0 < args.cols; tile.col0 += kBlockSize) {
      tile.cols = static_cast<int>(std::min<int64_t>(kBlockSize, args.cols - tile.col0));
      Load<Input>(args, tile);
      if (config.rowwise) QuantizeRows<Fp8>(tile, args, rowwise);
      if (config.colwise) QuantizeColumns<Fp8>(tile, args, colwise);
      if (config.with_amax) {
        for (int r = 0; r < tile.rows; ++r) {
          amax_bits = std::max(amax_bits, RowAmaxBits(tile.values[r]));
        }
      }
    }
  }
  if (config.with_amax) RaiseAmax(args.amax, amax_bits);
}

}  // namespace

void Quantize(const QuantizeConfig& config, const KernelArgs& args) {
  if (args.noop != nullptr && *args.noop == 1.0f) return;
  if (config.swizzled) {
    if (config.rowwise) ZeroSwizzledPadding(args.rowwise_scale_inv);
    if (config.colwise) ZeroSwizzledPadding(args.columnwise_scale_inv);
  }
  WithTypes(config.dtype, config.fp8_dtype, [&](auto input, auto fp8) {
    QuantizeTiles<decltype(input), decltype(fp8)>(config, args);
  });
}

void ReduceDbias(const float* workspace, int64_t rows, int64_t cols, void* dbias, DType dtype) {
  WithType(dtype, [&](auto type) {
    using Output = decltype(type);
    auto* output = static_cast<typename Output::Storage*>(dbias);
    for (int64_t col = 0; col < cols; ++col) {
      float sum = 0.0f;
      for (int64_t row = 0; row < rows; ++row) sum += workspace[row * cols + col];
      output[col] = Output::Encode(sum);
    }
  });
}

void Dequantize(const DequantizeArgs& args) {
  const ScaleLayout layout(args.scale_inv, args.colwise, args.swizzled, args.rows, args.cols);
  WithTypes(args.dtype, args.fp8_dtype, [&](auto type, auto fp8) {
    using Output = decltype(type);
    float decoded[256];
    for (int code = 0; code < 256; ++code) decoded[code] = fp8.Decode(static_cast<uint8_t>(code));
    auto* output = static_cast<typename Output::Storage*>(args.output);
    for (int64_t row = 0; row < args.rows; ++row) {
      for (int64_t col = 0; col < args.cols; ++col) {
        const int64_t i = row * args.cols + col;
        const float scale = numerics::DecodeE8M0(args.scale_inv.data[layout.Index(row, col)]);
        output[i] = Output::Encode(decoded[args.data[i]] * scale);
      }
    }
  });
}

}  // namespace reference
}  // namespace cutedsl_quant
