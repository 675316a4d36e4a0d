// What the tests on a GPU compare with and how, tested on the host.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/numerics.h"
#include "tests/gpu/call.h"
#include "tests/gpu/closeness.h"
#include "tests/gpu/expected.h"
#include "tests/gpu/values.h"

namespace cutedsl_quant {
namespace testing {
namespace {

// What is said about one rowwise block that differs in its scale and its first element.
std::string Compare(DType fp8_dtype, uint8_t actual, uint8_t expected, int scale_difference,
                    Closeness* closeness) {
  const uint8_t scale = 120;
  const auto block = [](uint8_t code, int scale) {
    std::vector<uint8_t> data(32, 0x38);
    data[0] = code;
    return Quantized{data, {static_cast<uint8_t>(scale)}};
  };
  return CompareClosely(block(actual, scale + scale_difference), block(expected, scale), fp8_dtype,
                        false, 1, 32, closeness);
}

// Finds a comparison that lets through what is farther apart than one code, or counts nothing.
TEST(ClosenessTest, CodesAndScales) {
  struct {
    DType fp8_dtype;
    uint8_t actual;
    uint8_t expected;
    int scale_difference;
    bool close;
    uint64_t different_elements;
  } const kCases[] = {
      {DType::kFloat8E4M3, 0x30, 0x30, 0, true, 0},
      {DType::kFloat8E4M3, 0x31, 0x30, 0, true, 1},
      {DType::kFloat8E4M3, 0xB0, 0xB1, 0, true, 1},
      {DType::kFloat8E4M3, 0x32, 0x30, 0, false, 1},
      {DType::kFloat8E4M3, 0xB0, 0x30, 0, false, 1},  // the other sign
      {DType::kFloat8E4M3, 0x80, 0x00, 0, true, 1},   // zeros
      {DType::kFloat8E4M3, 0x81, 0x00, 0, true, 1},
      {DType::kFloat8E4M3, 0x81, 0x01, 0, false, 1},
      {DType::kFloat8E4M3, 0x7F, 0x7E, 0, false, 1},  // NaN and the largest number
      {DType::kFloat8E5M2, 0x7F, 0x7B, 0, false, 1},
      {DType::kFloat8E5M2, 0x09, 0x04, 0, true, 1},  // both nothing beside the largest number
      {DType::kFloat8E5M2, 0x39, 0x34, 0, false, 1},
      {DType::kFloat8E4M3, 0x28, 0x30, 1, true, 0},  // elements follow their scale
      {DType::kFloat8E4M3, 0x38, 0x30, -1, true, 0},
      {DType::kFloat8E4M3, 0x20, 0x30, 2, false, 0},
  };
  for (const auto& c : kCases) {
    Closeness closeness;
    const std::string said =
        Compare(c.fp8_dtype, c.actual, c.expected, c.scale_difference, &closeness);
    SCOPED_TRACE(::testing::Message() << std::hex << int{c.actual} << " " << int{c.expected} << " "
                                      << c.scale_difference << ": " << said);
    EXPECT_EQ(said.empty(), c.close);
    EXPECT_EQ(closeness.different_elements, c.different_elements);
    EXPECT_EQ(closeness.different_blocks, c.scale_difference != 0 ? 1u : 0u);
  }
}

// Finds a bound that does not bind.
TEST(ClosenessTest, Excess) {
  const uint64_t many = 1'000'000;
  EXPECT_EQ((Closeness{many, 50, many, 200}).Excess(), "");
  EXPECT_NE((Closeness{many, 60, many, 0}).Excess(), "");
  EXPECT_NE((Closeness{many, 0, many, 210}).Excess(), "");
}

// Finds a place of a scale that is not the one it is read from.
TEST(ExpectedTest, ScaleBuffersAreInverse) {
  for (ScaleLayout layout : kScaleLayouts) {
    for (bool colwise : {false, true}) {
      constexpr int64_t kM = 150;
      constexpr int64_t kN = 200;
      const numerics::ScaleShape shape = ScaleShapeOf(ScaleLayout::kExact, colwise, kM, kN);
      std::vector<uint8_t> exact(static_cast<size_t>(shape.rows * shape.cols));
      for (size_t i = 0; i < exact.size(); ++i) exact[i] = static_cast<uint8_t>(Hash(i));
      const std::vector<uint8_t> buffer = ScaleBuffer(exact, layout, colwise, kM, kN, 0xA5);
      EXPECT_EQ(ExactScales(buffer, layout, colwise, kM, kN), exact) << ScaleLayoutName(layout);
    }
  }
}

// The column sums of the CPU reference.
std::vector<uint8_t> ReferenceDbias(QuantizeConfig config, const std::vector<uint8_t>& input,
                                    const std::vector<uint8_t>& act_input, int64_t m, int64_t n) {
  const auto tensor = [&](const std::vector<uint8_t>& bytes, DType dtype, int64_t rows,
                          int64_t cols) {
    return Tensor(const_cast<uint8_t*>(bytes.data()), dtype, Device{}, {rows, cols});
  };
  std::vector<uint8_t> data(static_cast<size_t>(m * n));
  std::vector<uint8_t> scales(static_cast<size_t>(m * numerics::CeilDiv(n, 32)));
  std::vector<uint8_t> dbias(static_cast<size_t>(n * ElementSize(config.dtype)));
  CallTensors tensors;
  tensors.input = tensor(input, config.dtype, m, n);
  tensors.act_input = tensor(act_input, config.dtype, m, n);
  tensors.output.rowwise_data = tensor(data, config.fp8_dtype, m, n);
  tensors.output.rowwise_scale_inv =
      tensor(scales, DType::kFloat8E8M0, m, numerics::CeilDiv(n, 32));
  tensors.dbias = Tensor(dbias.data(), config.dtype, Device{}, {n});
  RunCall(config, tensors, nullptr);  // describes the workspace
  std::vector<float> workspace(static_cast<size_t>(tensors.workspace.size()));
  tensors.workspace.data = workspace.data();
  RunCall(config, tensors, nullptr);
  return dbias;
}

// Finds ranges that leave out a right sum, for special values too, or that let one through which
// lacks a row; and sums of whole numbers that are not demanded exactly.
TEST(ExpectedTest, DbiasRanges) {
  constexpr int64_t kM = 300;
  constexpr int64_t kN = 40;
  for (bool with_dact : {false, true}) {
    for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      for (ValueClass value_class :
           {ValueClass::kNormal, ValueClass::kWideRange, ValueClass::kInfinities, ValueClass::kNans,
            ValueClass::kIntegers}) {
        SCOPED_TRACE(std::string(DTypeName(dtype)) + " " + ValueClassName(value_class));
        QuantizeConfig config;
        config.dtype = dtype;
        config.rowwise = config.with_dbias = true;
        config.with_dact = with_dact;
        if (with_dact) config.activation = Activation::kDGelu;
        const std::vector<uint8_t> input = MakeValues(value_class, dtype, kM, kN, 0);
        const std::vector<uint8_t> act_input = MakeValues(ValueClass::kNormal, dtype, kM, kN, 1);
        const std::vector<uint8_t> dbias = ReferenceDbias(config, input, act_input, kM, kN);
        const std::vector<uint8_t> without_a_row =
            ReferenceDbias(config, input, act_input, kM - 1, kN);
        const std::vector<DbiasRange> ranges =
            MakeDbiasRanges(config, input.data(), act_input.data(), kM, kM, kN);
        int missed = 0;
        for (int64_t col = 0; col < kN; ++col) {
          const DbiasRange& range = ranges[static_cast<size_t>(col)];
          EXPECT_TRUE(range.Contains(Decode(dtype, dbias.data(), col)))
              << "column " << col << ": " << Decode(dtype, dbias.data(), col) << " is not in "
              << range.lowest << " .. " << range.highest;
          missed += !range.Contains(Decode(dtype, without_a_row.data(), col));
          if (value_class == ValueClass::kIntegers && !with_dact) {
            EXPECT_EQ(range.lowest, range.highest);
          }
        }
        if (value_class == ValueClass::kNormal) {
          EXPECT_GT(missed, kN / 2);
        }
      }
    }
  }
}

}  // namespace
}  // namespace testing
}  // namespace cutedsl_quant
