// SwizzleScales and UnswizzleScales on a GPU against the CPU reference, byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
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

// One direction of a tensor of which there is nothing but scales.
struct Scales {
  ScaleLayout layout;
  bool colwise;
  std::vector<int64_t> dims;

  numerics::ScaleShape extent() const {
    const Shape shape = {dims};
    return ScaleShapeOf(layout, colwise, shape.m(), shape.n());
  }
  size_t size() const { return static_cast<size_t>(extent().rows * extent().cols); }
  QuantizedTensor At(void* scales, Device device) const {
    QuantizedTensor tensor;
    tensor.swizzled_scales = layout == ScaleLayout::kSwizzled;
    (colwise ? tensor.columnwise_data : tensor.rowwise_data) =
        MakeTensor(nullptr, DType::kFloat8E4M3, device, dims);
    (colwise ? tensor.columnwise_scale_inv : tensor.rowwise_scale_inv) =
        MakeTensor(scales, DType::kFloat8E8M0, device, {extent().rows, extent().cols});
    return tensor;
  }
};

void Rearrange(const Scales& from, void* from_data, const Scales& to, void* to_data,
               Device device) {
  (to.layout == ScaleLayout::kSwizzled ? SwizzleScales : UnswizzleScales)(
      from.At(from_data, device), to.At(to_data, device), nullptr);
}

void ExpectMatchesReference(const Scales& from, size_t from_offset, const Scales& to,
                            size_t to_offset) {
  std::vector<uint8_t> source(from.size());
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(Hash(i));
  std::vector<uint8_t> expected(to.size(), kPoison);
  Rearrange(from, source.data(), to, expected.data(), Device{});

  GpuBuffer gpu_from(from.size(), from_offset);
  GpuBuffer gpu_to(to.size(), to_offset);
  gpu_from.Fill(kInputGuard, nullptr);
  gpu_to.Fill(kPoison, nullptr);
  gpu_from.Upload(source.data(), source.size());
  Rearrange(from, gpu_from.data(), to, gpu_to.data(), kDevice);
  Synchronize(kDevice, nullptr);
  const GpuBuffer::Difference difference = gpu_to.Compare(expected, kPoison);
  EXPECT_FALSE(difference.found) << ScaleLayoutName(from.layout) << " at +" << from_offset << " to "
                                 << ScaleLayoutName(to.layout) << " at +" << to_offset
                                 << (from.colwise ? " columnwise" : " rowwise") << ": byte "
                                 << difference.offset << " is " << int{difference.actual}
                                 << ", expected " << int{difference.expected};
  EXPECT_FALSE(gpu_from.Compare(source, kInputGuard).found);
}

class SwizzleTest : public GpuTest, public ::testing::WithParamInterface<Shape> {};

// Finds a scale in the wrong place, padding that is not zero or not left alone, a write outside the
// buffer, and an access that its address is not fit for.
TEST_P(SwizzleTest, MatchesReference) {
  for (bool colwise : {false, true}) {
    const Scales swizzled = {ScaleLayout::kSwizzled, colwise, GetParam().dims};
    for (ScaleLayout layout : {ScaleLayout::kPadded, ScaleLayout::kExact}) {
      const Scales compact = {layout, colwise, GetParam().dims};
      for (size_t compact_offset : {0, 1, 4}) {
        for (size_t swizzled_offset : {0, 4}) {
          ExpectMatchesReference(compact, compact_offset, swizzled, swizzled_offset);
          ExpectMatchesReference(swizzled, swizzled_offset, compact, compact_offset);
        }
      }
    }
  }
}

const Shape kSwizzleShapes[] = {
    {{}},         {{1, 1}},     {{31, 33}},  {{128, 128}}, {{130, 97}},    {{129, 257}},
    {{2, 64, 5}}, {{512, 384}}, {{1, 4097}}, {{4097, 1}},  {{1000, 9000}}, {{0, 64}},
};
INSTANTIATE_TEST_SUITE_P(Shapes, SwizzleTest, ::testing::ValuesIn(kSwizzleShapes),
                         [](const auto& info) { return info.param.Name(); });

// Bytes that repeat; no power of two, so that no wrapped offset meets the same ones.
constexpr size_t kPeriod = 1000003;
uint8_t PatternAt(size_t offset) { return static_cast<uint8_t>(Hash(offset % kPeriod)); }

void UploadPattern(GpuBuffer& buffer) {
  std::vector<uint8_t> period(kPeriod);
  for (size_t i = 0; i < kPeriod; ++i) period[i] = PatternAt(i);
  buffer.Upload(period.data(), kPeriod);
  auto* const data = static_cast<uint8_t*>(buffer.data());
  for (size_t filled = kPeriod; filled < buffer.size(); filled *= 2) {
    CUTEDSL_QUANT_CUDA(cudaMemcpy(data + filled, data, std::min(filled, buffer.size() - filled),
                                  cudaMemcpyDeviceToDevice));
  }
}

class LargeSwizzleTest : public GpuTest {};

// Finds offsets of scales that are computed in 32 bits.
TEST_F(LargeSwizzleTest, MoreThanTwoToThe31Scales) {
  constexpr int64_t kRows = 1200000;
  constexpr int64_t kCols = 57472;
  for (bool colwise : {false, true}) {
    SCOPED_TRACE(colwise ? "columnwise" : "rowwise");
    const Scales compact = {ScaleLayout::kExact, colwise, {kRows, kCols}};
    const Scales swizzled = {ScaleLayout::kSwizzled, colwise, {kRows, kCols}};
    ASSERT_GT(compact.size(), size_t{1} << 31);
    GpuBuffer gpu_compact(compact.size(), 0);
    GpuBuffer gpu_swizzled(swizzled.size(), 0);
    UploadPattern(gpu_compact);
    Rearrange(compact, gpu_compact.data(), swizzled, gpu_swizzled.data(), kDevice);
    gpu_compact.Fill(kPoison, nullptr);
    Rearrange(swizzled, gpu_swizzled.data(), compact, gpu_compact.data(), kDevice);
    Synchronize(kDevice, nullptr);

    // 128 rows or columns of the tensor by themselves: they fill whole tiles, which are contiguous.
    const numerics::ScaleShape extent = compact.extent();
    const int64_t slices = (colwise ? kCols : kRows) / 128;
    for (int64_t slice : {int64_t{0}, slices / 3, slices - 2, slices - 1}) {
      SCOPED_TRACE(slice);
      const std::vector<int64_t> dims = {colwise ? kRows : 128, colwise ? 128 : kCols};
      const Scales slice_compact = {ScaleLayout::kExact, colwise, dims};
      const Scales slice_swizzled = {ScaleLayout::kSwizzled, colwise, dims};
      const int64_t row0 = colwise ? 0 : slice * 128;
      const int64_t col0 = colwise ? slice * 128 : 0;
      const numerics::ScaleShape slice_extent = slice_compact.extent();
      std::vector<uint8_t> expected(slice_compact.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        const int64_t row = row0 + static_cast<int64_t>(i) / slice_extent.cols;
        const int64_t col = col0 + static_cast<int64_t>(i) % slice_extent.cols;
        expected[i] = PatternAt(static_cast<size_t>(row * extent.cols + col));
      }
      std::vector<uint8_t> actual(slice_compact.size());
      CUTEDSL_QUANT_CUDA(
          cudaMemcpy2D(actual.data(), static_cast<size_t>(slice_extent.cols),
                       static_cast<uint8_t*>(gpu_compact.data()) + row0 * extent.cols + col0,
                       static_cast<size_t>(extent.cols), static_cast<size_t>(slice_extent.cols),
                       static_cast<size_t>(slice_extent.rows), cudaMemcpyDeviceToHost));
      EXPECT_TRUE(actual == expected) << "compact scales";

      std::vector<uint8_t> expected_swizzled(slice_swizzled.size());
      Rearrange(slice_compact, expected.data(), slice_swizzled, expected_swizzled.data(), Device{});
      actual.resize(slice_swizzled.size());
      CUTEDSL_QUANT_CUDA(cudaMemcpy(
          actual.data(),
          static_cast<uint8_t*>(gpu_swizzled.data()) + slice * static_cast<int64_t>(actual.size()),
          actual.size(), cudaMemcpyDeviceToHost));
      EXPECT_TRUE(actual == expected_swizzled) << "swizzled scales";
    }
  }
}

}  // namespace
}  // namespace testing
}  // namespace cutedsl_quant
