// Plain casts by both GPU backends against the CPU reference, bit for bit: with 1x32 and 32x1
// blocks, with 32x32 blocks, with noop.
#include <gtest/gtest.h>

#include <iterator>
#include <vector>

#include "tests/gpu/call_buffers.h"
#include "tests/gpu/harness.h"
#include "tests/gpu/values.h"

namespace cutedsl_quant {
namespace testing {
namespace {

const std::vector<ValueClass> kAllClasses(std::begin(kCastValueClasses),
                                          std::end(kCastValueClasses));
const std::vector<ValueClass> kFewClasses = {ValueClass::kNormal, ValueClass::kWideRange,
                                             ValueClass::kNans};
const std::vector<ValueClass> kPatternClasses = {ValueClass::kPatterns, ValueClass::kPatternMaxima};

struct CastCase {
  Shape shape;
  std::vector<ValueClass> value_classes;
};

class CastTest : public GpuTest, public ::testing::WithParamInterface<CastCase> {
 protected:
  // All casts of the case's shape and values, each with every value of `noops`.
  void CompareAll(const QuantizeConfig& fusion,
                  const std::vector<std::optional<float>>& noops = {std::nullopt}) {
    const auto& [shape, value_classes] = GetParam();
    Closeness exact;
    int failures = 0;
    for (DType dtype : kDTypes) {
      CallBuffers buffers(shape, dtype);
      for (ValueClass value_class : value_classes) {
        SCOPED_TRACE(ValueClassName(value_class));
        CountValueClass(value_class);
        const std::vector<uint8_t> values = MakeValues(value_class, dtype, shape.m(), shape.n());
        buffers.SetInput(values);
        for (DType fp8_dtype : kFp8DTypes) {
          std::vector<Call> calls = AllCalls(fusion, dtype, fp8_dtype);
          const ExpectedBytes expected(calls.front().config, values.data(), nullptr, shape.m(),
                                       shape.n());
          for (Call& call : calls) {
            for (const Route& route : RoutesOf(shape, call)) {
              for (const std::optional<float>& noop : noops) {
                call.noop = noop;
                failures += !RunAndCompare(buffers, shape, call, route, expected, &exact);
                if (failures >= 10) FAIL() << "enough failures";
              }
            }
          }
        }
        EXPECT_EQ(buffers.CheckInputs(), "");
      }
    }
  }
};

std::string CaseName(const ::testing::TestParamInfo<CastCase>& info) {
  return info.param.shape.Name();
}

// Finds any byte that differs from the reference, in data, scales, padding or amax; any write
// outside an output; a call that the wrong backend served.
TEST_P(CastTest, MatchesReference) { CompareAll(QuantizeConfig()); }

const CastCase kCases[] = {
    // Fit for the CuTeDSL kernels.
    {{{1, 16}}, kAllClasses},
    {{{32, 32}}, kAllClasses},
    {{{31, 48}}, kAllClasses},
    {{{33, 16}}, kAllClasses},
    {{{128, 128}}, kAllClasses},
    {{{130, 160}}, kAllClasses},
    {{{257, 992}}, kAllClasses},
    {{{1024, 2048}}, kPatternClasses},  // 65,536 blocks in each direction
    {{{1024, 4096}}, kFewClasses},
    {{{4096, 1056}}, kAllClasses},  // more than 2^22 elements: other kernels
    {{{2880, 5008}}, kFewClasses},
    {{{4096, 1056}, 4, 16}, kFewClasses},  // aligned to 16 bytes alone: fp32
    {{{4096, 1056}, 8, 16}, kFewClasses},  // and 16-bit types
    {{{4096}}, kFewClasses},               // one dimension
    {{{2, 3, 5, 64}}, kFewClasses},        // many
    {{{262176, 16}}, kFewClasses},         // more rows than 4 x 65,535
    {{{0, 64}}, {ValueClass::kNormal}},    // nothing
    // For the CUDA fallback alone.
    {{{}}, kFewClasses},  // no dimension
    {{{1}}, kFewClasses},
    {{{31}}, kFewClasses},
    {{{7, 33}}, kAllClasses},
    {{{3, 5, 7}}, kFewClasses},
    {{{65, 1}}, kFewClasses},
    {{{129, 130}}, kAllClasses},
    {{{100, 200}}, kFewClasses},
    {{{257, 991}}, kAllClasses},
    {{{262145, 3}}, kFewClasses},
    {{{1000, 5002}}, kFewClasses},
    {{{64, 0}}, {ValueClass::kNormal}},
    // Fit, but for the addresses.
    {{{96, 160}, 1, 0}, kAllClasses},
    {{{96, 160}, 0, 1}, kAllClasses},
    {{{96, 160}, 2, 2}, kFewClasses},
    {{{96, 160}, 4, 8}, kFewClasses},
    {{{257, 992}, 1, 3}, kFewClasses},
};
INSTANTIATE_TEST_SUITE_P(Shapes, CastTest, ::testing::ValuesIn(kCases), CaseName);

// ---- noop.

class NoopTest : public CastTest {};

// Finds a kernel that writes although noop is 1 (scale padding and amax included), or that takes
// another value for 1.
TEST_P(NoopTest, SkipsExactlyAtOne) {
  for (bool use_2d : {false, true}) {
    QuantizeConfig config;
    config.use_2d_quantization = use_2d;
    CompareAll(config, {1.0f, 0.0f, 0.5f, 1.0000001f});
  }
}

const CastCase kNoopCases[] = {{{{130, 160}}, {ValueClass::kNormal}},
                               {{{97, 131}}, {ValueClass::kNormal}}};
INSTANTIATE_TEST_SUITE_P(Shapes, NoopTest, ::testing::ValuesIn(kNoopCases), CaseName);

// ---- 32x32 blocks.

class SquareBlocksTest : public CastTest {};

// Finds an amax that is not that of the whole square (ragged ones at both edges), a scale that is
// missing at one of its places in either layout, and a call that does not go to the CUDA fallback.
TEST_P(SquareBlocksTest, MatchesReference) {
  QuantizeConfig config;
  config.use_2d_quantization = true;
  CompareAll(config);
}

const CastCase kSquareCases[] = {
    {{{32, 32}}, kAllClasses},
    {{{31, 33}}, kAllClasses},
    {{{1, 16}}, kFewClasses},
    {{{130, 160}}, kAllClasses},
    {{{257, 991}}, kAllClasses},
    {{{2880, 5000}}, kFewClasses},
    {{{4096}}, kFewClasses},
    {{{3, 5, 7}}, kFewClasses},
    {{{262176, 16}}, kFewClasses},
    {{{96, 160}, 1, 3}, kFewClasses},
    {{{0, 64}}, {ValueClass::kNormal}},
    {{{64, 0}}, {ValueClass::kNormal}},
};
INSTANTIATE_TEST_SUITE_P(Shapes, SquareBlocksTest, ::testing::ValuesIn(kSquareCases), CaseName);

}  // namespace
}  // namespace testing
}  // namespace cutedsl_quant
