// Dequantize on a GPU against the CPU reference, bit for bit.
#include <gtest/gtest.h>

#include <iterator>
#include <vector>

#include "common/numerics.h"
#include "cutedsl_quant/quantize.h"
#include "tests/gpu/call.h"
#include "tests/gpu/expected.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/harness.h"
#include "tests/gpu/values.h"

namespace cutedsl_quant {
namespace testing {
namespace {

class DequantizeTest : public GpuTest, public ::testing::WithParamInterface<Shape> {};

// Finds a wrong code, a wrong scale byte (the special ones 0, 254 and 255 among them), a wrong
// scale address or a write outside the output, for all types, directions and layouts.
TEST_P(DequantizeTest, MatchesReference) {
  const Shape& shape = GetParam();
  const int64_t m = shape.m();
  const int64_t n = shape.n();
  std::vector<uint8_t> data(static_cast<size_t>(m * n));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(Hash(i));
  GpuBuffer gpu_data(data.size(), static_cast<size_t>(shape.output_offset));
  gpu_data.Upload(data.data(), data.size());

  for (bool colwise : {false, true}) {
    const numerics::ScaleShape exact_shape = ScaleShapeOf(ScaleLayout::kExact, colwise, m, n);
    std::vector<uint8_t> exact(static_cast<size_t>(exact_shape.rows * exact_shape.cols));
    for (size_t i = 0; i < exact.size(); ++i) {
      constexpr uint8_t kSpecial[] = {0, 1, 127, 253, 254, 255};
      const uint64_t random = Hash(i + (1ull << 50));
      exact[i] = random % 4 == 0 ? kSpecial[random / 4 % std::size(kSpecial)]
                                 : static_cast<uint8_t>(random >> 8);
    }
    for (ScaleLayout layout : kScaleLayouts) {
      const numerics::ScaleShape scale_shape = ScaleShapeOf(layout, colwise, m, n);
      // Scales of 0xFF beside the real ones: a misread shows as NaN.
      std::vector<uint8_t> scales = ScaleBuffer(exact, layout, colwise, m, n, 0xFF);
      GpuBuffer gpu_scales(scales.size(), static_cast<size_t>(shape.output_offset));
      gpu_scales.Upload(scales.data(), scales.size());
      for (DType fp8_dtype : kFp8DTypes) {
        for (DType dtype : kDTypes) {
          const auto dequantize = [&](void* from, void* scales_from, void* to, Device device) {
            const auto tensor = [&](void* pointer, DType type, const std::vector<int64_t>& dims) {
              return MakeTensor(pointer, type, device, dims);
            };
            QuantizedTensor input;
            input.swizzled_scales = layout == ScaleLayout::kSwizzled;
            (colwise ? input.columnwise_data : input.rowwise_data) =
                tensor(from, fp8_dtype, shape.dims);
            (colwise ? input.columnwise_scale_inv : input.rowwise_scale_inv) =
                tensor(scales_from, DType::kFloat8E8M0, {scale_shape.rows, scale_shape.cols});
            Dequantize(input, tensor(to, dtype, shape.dims), nullptr);
          };
          std::vector<uint8_t> expected(data.size() * static_cast<size_t>(ElementSize(dtype)));
          dequantize(data.data(), scales.data(), expected.data(), Device{});
          GpuBuffer output(expected.size(),
                           static_cast<size_t>(shape.input_offset * ElementSize(dtype)));
          output.Fill(kPoison, nullptr);
          dequantize(gpu_data.data(), gpu_scales.data(), output.data(), kDevice);
          CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(nullptr));
          const GpuBuffer::Difference difference = output.Compare(expected, kPoison);
          EXPECT_FALSE(difference.found)
              << DTypeName(fp8_dtype) << " to " << DTypeName(dtype)
              << (colwise ? " columnwise " : " rowwise ") << ScaleLayoutName(layout) << ": byte "
              << difference.offset << " is " << int{difference.actual} << ", expected "
              << int{difference.expected};
          CountDequantization(expected.size());
        }
      }
    }
  }
}

const Shape kDequantizeShapes[] = {
    {{1, 16}},      {{31, 48}},        {{257, 992}},      {{}},      {{3, 5, 7}}, {{129, 130}},
    {{4096, 1056}}, {{96, 160}, 1, 0}, {{96, 160}, 0, 1}, {{0, 64}},
};
INSTANTIATE_TEST_SUITE_P(Shapes, DequantizeTest, ::testing::ValuesIn(kDequantizeShapes),
                         [](const auto& info) { return info.param.Name(); });

}  // namespace
}  // namespace testing
}  // namespace cutedsl_quant
