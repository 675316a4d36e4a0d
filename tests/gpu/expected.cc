#include "tests/gpu/expected.h"

#include <algorithm>

#include "cutedsl_quant/quantize.h"
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

Expected MakeExpected(const void* values, DType dtype, DType fp8_dtype, int64_t m, int64_t n) {
  const auto resized = [&](bool colwise) {
    const numerics::ScaleShape scales = ScaleShapeOf(ScaleLayout::kExact, colwise, m, n);
    return Quantized{std::vector<uint8_t>(static_cast<size_t>(m * n)),
                     std::vector<uint8_t>(static_cast<size_t>(scales.rows * scales.cols))};
  };
  Expected expected{resized(false), resized(true)};
  if (m * n == 0) return expected;

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
    QuantizedTensor output;
    output.rowwise_data = tensor(&expected.rowwise.data[row * n], fp8_dtype, shape);
    output.columnwise_data = tensor(&expected.columnwise.data[row * n], fp8_dtype, shape);
    output.rowwise_scale_inv =
        tensor(&expected.rowwise.scales[row * rowwise.cols], DType::kFloat8E8M0, rowwise);
    output.columnwise_scale_inv =
        tensor(&expected.columnwise.scales[begin * n], DType::kFloat8E8M0, columnwise);
    output.amax = Tensor(&amax[begin], DType::kFloat32, Device{}, {1});
    Quantize(
        tensor(static_cast<const uint8_t*>(values) + row * n * ElementSize(dtype), dtype, shape),
        output, QuantizeOptions(), nullptr);
  });
  expected.amax = *std::max_element(amax.begin(), amax.end());
  return expected;
}

std::vector<uint8_t> ScaleBuffer(const std::vector<uint8_t>& exact, ScaleLayout layout,
                                 bool colwise, int64_t m, int64_t n, uint8_t poison) {
  const numerics::ScaleShape from = ScaleShapeOf(ScaleLayout::kExact, colwise, m, n);
  const numerics::ScaleShape padded = ScaleShapeOf(ScaleLayout::kPadded, colwise, m, n);
  const bool swizzled = layout == ScaleLayout::kSwizzled && m * n != 0;
  std::vector<uint8_t> buffer(static_cast<size_t>(padded.rows * padded.cols),
                              swizzled ? 0 : poison);
  const int64_t row_stride = ScaleShapeOf(layout, colwise, m, n).cols;
  const int64_t inner_tiles = numerics::CeilDiv(colwise ? m : n, 128);
  for (int64_t i = 0; i < from.rows && m * n != 0; ++i) {
    for (int64_t j = 0; j < from.cols; ++j) {
      const int64_t index = !swizzled ? i * row_stride + j
                            : colwise ? numerics::SwizzledIndex(j, i, inner_tiles)
                                      : numerics::SwizzledIndex(i, j, inner_tiles);
      buffer[index] = exact[i * from.cols + j];
    }
  }
  return buffer;
}

}  // namespace testing
}  // namespace cutedsl_quant
