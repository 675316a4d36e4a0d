#include "tests/gpu/expected.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "common/activations.h"
#include "common/reference/float_formats.h"
#include "cutedsl_quant/quantize.h"
#include "tests/gpu/call.h"
#include "tests/gpu/values.h"

namespace cutedsl_quant {
namespace testing {

const char* ScaleLayoutName(ScaleLayout layout) {
  constexpr const char* kNames[] = {"padded", "exact", "swizzled"};
  return kNames[static_cast<int>(layout)];
}

numerics::ScaleShape ScaleShapeOf(ScaleLayout layout, bool colwise, int64_t m, int64_t n) {
  if (layout == ScaleLayout::kExact) {
    return colwise ? numerics::ExactColumnwiseScaleShape(m, n)
                   : numerics::ExactRowwiseScaleShape(m, n);
  }
  return colwise ? numerics::PaddedColumnwiseScaleShape(m, n)
                 : numerics::PaddedRowwiseScaleShape(m, n);
}

Expected MakeExpected(const QuantizeConfig& config, const void* input, const void* act_input,
                      int64_t m, int64_t n) {
  const auto resized = [&](bool colwise) {
    const numerics::ScaleShape scales = ScaleShapeOf(ScaleLayout::kExact, colwise, m, n);
    return Quantized{std::vector<uint8_t>(static_cast<size_t>(m * n)),
                     std::vector<uint8_t>(static_cast<size_t>(scales.rows * scales.cols))};
  };
  Expected expected{resized(false), resized(true)};
  if (m * n == 0) return expected;

  QuantizeConfig without_dbias = config;
  without_dbias.with_dbias = false;
  // Bands of 32 rows have nothing in common but the global amax.
  const int64_t bands = numerics::CeilDiv(m, 32);
  std::vector<float> amax(static_cast<size_t>(bands), 0.0f);
  ParallelFor(bands, [&](int64_t begin, int64_t end) {
    const int64_t row = begin * 32;
    const int64_t rows = std::min(m, end * 32) - row;
    const auto tensor = [](const void* data, DType type, numerics::ScaleShape shape) {
      return Tensor(const_cast<void*>(data), type, Device{}, {shape.rows, shape.cols});
    };
    const numerics::ScaleShape shape{rows, n};
    const numerics::ScaleShape rowwise = numerics::ExactRowwiseScaleShape(rows, n);
    const numerics::ScaleShape columnwise = numerics::ExactColumnwiseScaleShape(rows, n);
    const auto band_of = [&](const void* values) {
      if (values == nullptr) return Tensor();
      return tensor(static_cast<const uint8_t*>(values) + row * n * ElementSize(config.dtype),
                    config.dtype, shape);
    };
    CallTensors tensors;
    tensors.input = band_of(input);
    tensors.act_input = band_of(act_input);
    QuantizedTensor& output = tensors.output;
    output.rowwise_data = tensor(&expected.rowwise.data[row * n], config.fp8_dtype, shape);
    output.columnwise_data = tensor(&expected.columnwise.data[row * n], config.fp8_dtype, shape);
    output.rowwise_scale_inv =
        tensor(&expected.rowwise.scales[row * rowwise.cols], DType::kFloat8E8M0, rowwise);
    output.columnwise_scale_inv =
        tensor(&expected.columnwise.scales[begin * n], DType::kFloat8E8M0, columnwise);
    output.amax = Tensor(&amax[begin], DType::kFloat32, Device{}, {1});
    tensors.options.use_2d_blocks = config.use_2d_quantization;
    RunCall(without_dbias, tensors, nullptr);
  });
  expected.amax = *std::max_element(amax.begin(), amax.end());
  return expected;
}

float Decode(DType dtype, const void* values, int64_t index) {
  switch (dtype) {
    case DType::kFloat32:
      return static_cast<const float*>(values)[index];
    case DType::kFloat16:
      return reference::DecodeFloat16(static_cast<const uint16_t*>(values)[index]);
    default:
      return reference::DecodeBFloat16(static_cast<const uint16_t*>(values)[index]);
  }
}

namespace {

float Rounded(DType dtype, double value) {
  const float single = static_cast<float>(value);
  switch (dtype) {
    case DType::kFloat32:
      return single;
    case DType::kFloat16:
      return reference::DecodeFloat16(reference::EncodeFloat16(single));
    default:
      return reference::DecodeBFloat16(reference::EncodeBFloat16(single));
  }
}

struct ColumnSum {
  double sum = 0;
  double magnitude = 0;   // sum of the absolute values that are finite
  double term_error = 0;  // of those
  bool whole = true;

  void Add(float value, double error) {
    sum += value;
    if (!std::isfinite(value)) return;
    magnitude += std::fabs(value);
    term_error += error;
    whole = whole && value == std::trunc(value);
  }
};

DbiasRange RangeOf(const ColumnSum& column, DType dtype, double relative_error) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (std::isnan(column.sum)) return {kNan, kNan};
  if (column.magnitude > FLT_MAX / 2) return {0, 0, true};
  if (std::isinf(column.sum)) return {Rounded(dtype, column.sum), Rounded(dtype, column.sum)};
  const bool exact = column.whole && column.term_error == 0 && column.magnitude < 1 << 24;
  const double error = exact ? 0 : column.magnitude * relative_error + column.term_error;
  return {Rounded(dtype, column.sum - error), Rounded(dtype, column.sum + error)};
}

}  // namespace

bool DbiasRange::Contains(float value) const {
  if (any) return true;
  return std::isnan(lowest) ? std::isnan(value) : lowest <= value && value <= highest;
}

std::vector<DbiasRange> MakeDbiasRanges(const QuantizeConfig& config, const void* input,
                                        const void* act_input, int64_t num_rows, int64_t m,
                                        int64_t n) {
  // No sum is a longer chain of additions than the rows of a chunk and all chunks; each addition
  // errs by half a unit in the last place.
  constexpr double kUnit = FLT_EPSILON / 2;
  const int64_t chunk = numerics::DbiasChunkRows(config.with_dact);
  const int64_t additions = std::min(m, chunk) + numerics::CeilDiv(m, chunk);
  const double relative_error = static_cast<double>(additions) * kUnit;
  // Derivatives through exponentials are of the order of 1 and err by a few units of that.
  const double derivative_error = IsSmooth(config) ? 16 * kUnit : 0;
  const numerics::ActivationFunction activation(config.activation);

  std::vector<DbiasRange> ranges(static_cast<size_t>(n));
  ParallelFor(n, [&](int64_t begin, int64_t end) {
    std::vector<ColumnSum> columns(static_cast<size_t>(end - begin));
    for (int64_t row = 0; row < m; ++row) {
      const int64_t row_begin = row % num_rows * n;
      for (int64_t col = begin; col < end; ++col) {
        const int64_t index = row_begin + col;
        const float grad = Decode(config.dtype, input, index);
        const float value =
            config.with_dact ? grad * activation(Decode(config.dtype, act_input, index)) : grad;
        columns[static_cast<size_t>(col - begin)].Add(value, std::fabs(grad) * derivative_error);
      }
    }
    for (int64_t col = begin; col < end; ++col) {
      ranges[static_cast<size_t>(col)] =
          RangeOf(columns[static_cast<size_t>(col - begin)], config.dtype, relative_error);
    }
  });
  return ranges;
}

namespace {

// Calls function(buffer index, exact index) for each scale.
template <typename Function>
void ForEachScale(ScaleLayout layout, bool colwise, int64_t m, int64_t n, Function function) {
  if (m * n == 0) return;
  const numerics::ScaleShape exact = ScaleShapeOf(ScaleLayout::kExact, colwise, m, n);
  const int64_t row_stride = ScaleShapeOf(layout, colwise, m, n).cols;
  const int64_t inner_tiles = numerics::CeilDiv(colwise ? m : n, 128);
  for (int64_t i = 0; i < exact.rows; ++i) {
    for (int64_t j = 0; j < exact.cols; ++j) {
      const int64_t index = layout != ScaleLayout::kSwizzled ? i * row_stride + j
                            : colwise ? numerics::SwizzledIndex(j, i, inner_tiles)
                                      : numerics::SwizzledIndex(i, j, inner_tiles);
      function(static_cast<size_t>(index), static_cast<size_t>(i * exact.cols + j));
    }
  }
}

}  // namespace

std::vector<uint8_t> ScaleBuffer(const std::vector<uint8_t>& exact, ScaleLayout layout,
                                 bool colwise, int64_t m, int64_t n, uint8_t poison) {
  const numerics::ScaleShape padded = ScaleShapeOf(ScaleLayout::kPadded, colwise, m, n);
  const bool zeroed = layout == ScaleLayout::kSwizzled && m * n != 0;
  std::vector<uint8_t> buffer(static_cast<size_t>(padded.rows * padded.cols), zeroed ? 0 : poison);
  ForEachScale(layout, colwise, m, n,
               [&](size_t in_buffer, size_t in_exact) { buffer[in_buffer] = exact[in_exact]; });
  return buffer;
}

std::vector<uint8_t> ExactScales(const std::vector<uint8_t>& buffer, ScaleLayout layout,
                                 bool colwise, int64_t m, int64_t n) {
  const numerics::ScaleShape shape = ScaleShapeOf(ScaleLayout::kExact, colwise, m, n);
  std::vector<uint8_t> exact(static_cast<size_t>(shape.rows * shape.cols));
  ForEachScale(layout, colwise, m, n,
               [&](size_t in_buffer, size_t in_exact) { exact[in_exact] = buffer[in_buffer]; });
  return exact;
}

}  // namespace testing
}  // namespace cutedsl_quant
