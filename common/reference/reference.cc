#include "common/reference/reference.h"

#include <algorithm>
#include <cfenv>
#include <cstring>

#include "common/activations.h"
#include "common/numerics.h"
#include "common/reference/float_formats.h"

namespace cutedsl_quant {
namespace reference {
namespace {

using numerics::kBlockSize;

// Round to nearest, with subnormals, while it lives: a caller's thread may round otherwise or flush
// them to zero.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&callers_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t callers_;
};

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
void LoadRow(const void* matrix, int64_t offset, int cols, float (&values)[kBlockSize]) {
  const auto* from = static_cast<const typename Input::Storage*>(matrix) + offset;
  typename Input::Storage row[kBlockSize] = {};
  std::memcpy(row, from, cols * sizeof(row[0]));
  for (int c = 0; c < kBlockSize; ++c) values[c] = Input::Decode(row[c]);
}

// Replaces values by the function's. The exact family is vectorized: a loop of its own, over a copy
// of the function that nothing else can change.
void Apply(numerics::ActivationFunction function, bool derivative, float (&values)[kBlockSize]) {
  if (!function.rectifies()) {
    for (float& value : values) value = function(value);
  } else if (derivative) {
    for (float& value : values) value = function.RectifiedDerivative(value);
  } else {
    for (float& value : values) value = function.Rectified(value);
  }
}

// Adds a row to the partial sums of its chunk, whose first row starts them.
void AddToSums(const float (&values)[kBlockSize], int cols, bool first, float* sums) {
  for (int c = 0; c < cols; ++c) sums[c] = (first ? 0.0f : sums[c]) + values[c];
}

// Loads what is to be cast, fusions done. They keep the zeros beyond the matrix.
template <typename Input>
void Load(const QuantizeConfig& config, const KernelArgs& args, Tile& tile) {
  const numerics::ActivationFunction function(config.activation);
  const int64_t chunk_rows = numerics::DbiasChunkRows(config.with_dact);
  for (int r = 0; r < tile.rows; ++r) {
    float (&values)[kBlockSize] = tile.values[r];
    const int64_t row = tile.row0 + r;
    const int64_t offset = row * args.cols + tile.col0;
    LoadRow<Input>(args.input, offset, tile.cols, values);
    if (config.with_act) Apply(function, /*derivative=*/false, values);
    if (config.with_dact) {
      float factors[kBlockSize];
      LoadRow<Input>(args.act_input, offset, tile.cols, factors);
      Apply(function, /*derivative=*/true, factors);
      for (int c = 0; c < kBlockSize; ++c) values[c] *= factors[c];
    }
    if (config.with_dbias) {
      AddToSums(values, tile.cols, row % chunk_rows == 0,
                args.dbias_workspace + row / chunk_rows * args.cols + tile.col0);
    }
    if (config.with_act || config.with_dact) {
      for (float& value : values) value = Input::Decode(Input::Encode(value));
    }
  }
}

// |value| as bits, which order as the values do; NaN is nothing.
uint32_t AmaxBits(float value) {
  const uint32_t magnitude = numerics::FloatToBits(value) & kFloatMagnitude;
  return magnitude > kFloatInfinity ? 0 : magnitude;
}

// The largest |value| of each of a tile's rows or columns, as bits.
using Maxima = uint32_t[kBlockSize];

void RowMaxima(const Tile& tile, Maxima& maxima) {
  for (int r = 0; r < tile.rows; ++r) {
    for (float value : tile.values[r]) maxima[r] = std::max(maxima[r], AmaxBits(value));
  }
}

void ColumnMaxima(const Tile& tile, Maxima& maxima) {
  for (int r = 0; r < tile.rows; ++r) {
    for (int c = 0; c < kBlockSize; ++c) {
      maxima[c] = std::max(maxima[c], AmaxBits(tile.values[r][c]));
    }
  }
}

template <typename Fp8>
void QuantizeRows(const Tile& tile, const Maxima& maxima, const KernelArgs& args,
                  const ScaleLayout& layout) {
  for (int r = 0; r < tile.rows; ++r) {
    const uint8_t scale = numerics::BlockScale(numerics::BitsToFloat(maxima[r]), Fp8::kDType);
    const float inverse = numerics::InverseScale(scale);
    args.rowwise_scale_inv.data[layout.Index(tile.row0 + r, tile.col0)] = scale;
    uint8_t codes[kBlockSize];
    for (int c = 0; c < kBlockSize; ++c) codes[c] = Fp8::Encode(tile.values[r][c] * inverse);
    std::memcpy(args.rowwise_data + (tile.row0 + r) * args.cols + tile.col0, codes, tile.cols);
  }
}

template <typename Fp8>
void QuantizeColumns(const Tile& tile, const Maxima& maxima, const KernelArgs& args,
                     const ScaleLayout& layout) {
  float inverse[kBlockSize] = {};
  for (int c = 0; c < tile.cols; ++c) {
    const uint8_t scale = numerics::BlockScale(numerics::BitsToFloat(maxima[c]), Fp8::kDType);
    inverse[c] = numerics::InverseScale(scale);
    args.columnwise_scale_inv.data[layout.Index(tile.row0, tile.col0 + c)] = scale;
  }
  for (int r = 0; r < tile.rows; ++r) {
    uint8_t codes[kBlockSize];
    for (int c = 0; c < kBlockSize; ++c) codes[c] = Fp8::Encode(tile.values[r][c] * inverse[c]);
    std::memcpy(args.columnwise_data + (tile.row0 + r) * args.cols + tile.col0, codes, tile.cols);
  }
}

// The largest of them; with 2-D blocks it becomes everyone's.
uint32_t Reduce(Maxima& maxima, bool use_2d_blocks) {
  const uint32_t maximum = *std::max_element(maxima, maxima + kBlockSize);
  if (use_2d_blocks) std::fill_n(maxima, kBlockSize, maximum);
  return maximum;
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

// The sums of one tile's width of columns at a time.
template <typename Output>
void ReduceColumns(const float* workspace, int64_t rows, int64_t cols, void* dbias) {
  for (int64_t col0 = 0; col0 < cols; col0 += kBlockSize) {
    const int count = static_cast<int>(std::min<int64_t>(kBlockSize, cols - col0));
    float sums[kBlockSize] = {};
    for (int64_t row = 0; row < rows; ++row) {
      const float* const from = workspace + row * cols + col0;
      for (int c = 0; c < count; ++c) sums[c] += from[c];
    }
    auto* const to = static_cast<typename Output::Storage*>(dbias) + col0;
    for (int c = 0; c < count; ++c) to[c] = Output::Encode(sums[c]);
  }
}

// Calls function(compact, swizzled) with the two places of every scale.
template <typename Function>
void ForEachScale(const SwizzleArgs& args, Function function) {
  const ScaleLayout compact(args.compact, args.colwise, /*swizzled=*/false, args.rows, args.cols);
  const ScaleLayout swizzled(args.swizzled, args.colwise, /*swizzled=*/true, args.rows, args.cols);
  const int64_t row_step = args.colwise ? kBlockSize : 1;
  const int64_t col_step = args.colwise ? 1 : kBlockSize;
  for (int64_t row = 0; row < args.rows; row += row_step) {
    for (int64_t col = 0; col < args.cols; col += col_step) {
      function(args.compact.data[compact.Index(row, col)],
               args.swizzled.data[swizzled.Index(row, col)]);
    }
  }
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
      Load<Input>(config, args, tile);
      if (config.rowwise) {
        Maxima maxima = {};
        RowMaxima(tile, maxima);
        amax_bits = std::max(amax_bits, Reduce(maxima, config.use_2d_quantization));
        QuantizeRows<Fp8>(tile, maxima, args, rowwise);
      }
      if (config.colwise) {
        Maxima maxima = {};
        ColumnMaxima(tile, maxima);
        amax_bits = std::max(amax_bits, Reduce(maxima, config.use_2d_quantization));
        QuantizeColumns<Fp8>(tile, maxima, args, colwise);
      }
    }
  }
  if (config.with_amax) RaiseAmax(args.amax, amax_bits);
}

}  // namespace

void Quantize(const QuantizeConfig& config, const KernelArgs& args) {
  const DefaultFloatEnvironment environment;
  if (config.IsCast() && args.noop != nullptr && *args.noop == 1.0f) return;
  if (config.swizzled) {
    if (config.rowwise) ZeroSwizzledPadding(args.rowwise_scale_inv);
    if (config.colwise) ZeroSwizzledPadding(args.columnwise_scale_inv);
  }
  WithTypes(config.dtype, config.fp8_dtype, [&](auto input, auto fp8) {
    QuantizeTiles<decltype(input), decltype(fp8)>(config, args);
  });
}

void ReduceDbias(const float* workspace, int64_t rows, int64_t cols, void* dbias, DType dtype) {
  const DefaultFloatEnvironment environment;
  WithType(dtype,
           [&](auto output) { ReduceColumns<decltype(output)>(workspace, rows, cols, dbias); });
}

void Dequantize(const DequantizeArgs& args) {
  const DefaultFloatEnvironment environment;
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

void SwizzleScales(const SwizzleArgs& args) {
  ZeroSwizzledPadding(args.swizzled);
  ForEachScale(args, [](const uint8_t& compact, uint8_t& swizzled) { swizzled = compact; });
}

void UnswizzleScales(const SwizzleArgs& args) {
  ForEachScale(args, [](uint8_t& compact, const uint8_t& swizzled) { compact = swizzled; });
}

}  // namespace reference
}  // namespace cutedsl_quant
