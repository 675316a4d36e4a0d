// Fused casts by both GPU backends against the CPU reference: activations, derivatives and column
// sums, in every configuration.
//
// The relu family and column sums by themselves are compared bit for bit. Functions with
// exponentials may differ by a few units in the last place of fp32, so that a few elements are one
// FP8 code apart; how many is counted and bounded (closeness.h). What an infinity, a NaN or a zero
// becomes is the same everywhere: such elements are compared with the others, and a NaN differs
// from every number.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/cuda/cast.h"
#include "common/provider_registry.h"
#include "tests/gpu/call_buffers.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/harness.h"
#include "tests/gpu/values.h"
#include "tools/bench/fusions.h"

namespace cutedsl_quant {
namespace testing {
namespace {

struct Values {
  ValueClass input;  // of a derivative: the gradient
  ValueClass act_input;
};

const std::vector<Values> kAllValues = {
    {ValueClass::kNormal, ValueClass::kNormal},
    {ValueClass::kWideRange, ValueClass::kNormal},
    {ValueClass::kNormal, ValueClass::kWideRange},
    {ValueClass::kZeros, ValueClass::kSubnormals},
    {ValueClass::kSubnormals, ValueClass::kZeros},
    {ValueClass::kInfinities, ValueClass::kNans},
    {ValueClass::kNans, ValueClass::kInfinities},
    {ValueClass::kNanBlocks, ValueClass::kNormal},
    {ValueClass::kRoundingEdges, ValueClass::kNormal},
    {ValueClass::kIntegers, ValueClass::kIntegers},
};
const std::vector<Values> kFewValues = {
    {ValueClass::kNormal, ValueClass::kNormal},
    {ValueClass::kInfinities, ValueClass::kNans},
    {ValueClass::kIntegers, ValueClass::kIntegers},
};
const std::vector<Values> kOrdinaryValues = {{ValueClass::kNormal, ValueClass::kNormal}};
const std::vector<Values> kSpecialValues = {{ValueClass::kInfinities, ValueClass::kNans}};
// Every 16-bit pattern as what a function is applied to.
const std::vector<Values> kPatternValues = {
    {ValueClass::kPatterns, ValueClass::kNormal},
    {ValueClass::kPatternMaxima, ValueClass::kNormal},
    {ValueClass::kNormal, ValueClass::kPatterns},
};

struct FusionCase {
  Shape shape;
  const std::vector<Values>* values;
  bool all_calls;  // or a few that have every direction and layout
};

const FusionCase kCases[] = {
    // Fit for the CuTeDSL kernels.
    {{{1, 16}}, &kFewValues, true},
    {{{33, 16}}, &kFewValues, true},
    {{{31, 48}}, &kFewValues, true},
    {{{130, 160}}, &kAllValues, true},
    {{{257, 992}}, &kAllValues, false},
    {{{1024, 2048}}, &kPatternValues, false},
    {{{5000, 2880}}, &kOrdinaryValues, false},
    {{{4099, 1040}}, &kOrdinaryValues, true},  // more than 2^22 elements: other kernels
    {{{1040, 4112}}, &kSpecialValues, false},
    {{{4096, 1056}, 4, 16, 4}, &kOrdinaryValues, false},  // aligned to 16 bytes alone: fp32
    {{{4096, 1056}, 8, 16, 8}, &kOrdinaryValues, false},  // and 16-bit types
    {{{4096}}, &kFewValues, false},                       // one dimension
    {{{2, 3, 5, 64}}, &kFewValues, false},                // many
    {{{262176, 16}}, &kOrdinaryValues, false},
    {{{0, 64}}, &kOrdinaryValues, true},
    // For the CUDA fallback alone.
    {{{}}, &kFewValues, false},
    {{{31}}, &kFewValues, false},
    {{{65, 1}}, &kFewValues, false},
    {{{3, 5, 7}}, &kFewValues, false},
    {{{97, 131}}, &kAllValues, true},
    {{{2880, 5000}}, &kOrdinaryValues, false},
    {{{262145, 3}}, &kOrdinaryValues, false},
    {{{64, 0}}, &kOrdinaryValues, true},
    // Fit, but for the addresses.
    {{{96, 160}, 1, 0}, &kFewValues, true},
    {{{96, 160}, 0, 1}, &kFewValues, true},
    {{{96, 160}, 0, 0, 1}, &kFewValues, true},
};

// Inputs of one type, and what a fusion makes of them in both FP8 types.
struct Inputs {
  std::vector<uint8_t> input;
  std::vector<uint8_t> act_input;

  Inputs(const Values& values, DType dtype, const Shape& shape)
      : input(MakeValues(values.input, dtype, shape.m(), shape.n(), 0)),
        act_input(MakeValues(values.act_input, dtype, shape.m(), shape.n(), 1)) {
    CountValueClass(values.input);
    CountValueClass(values.act_input);
  }
};

class FusionTest : public GpuTest, public ::testing::WithParamInterface<QuantizeConfig> {
 protected:
  // False after too many failures.
  bool CompareAll(const FusionCase& test_case, DType dtype, Closeness* closeness) {
    const Shape& shape = test_case.shape;
    CallBuffers buffers(shape, dtype);
    for (const Values& values : *test_case.values) {
      SCOPED_TRACE(std::string(ValueClassName(values.input)) + ", " +
                   ValueClassName(values.act_input));
      const Inputs inputs(values, dtype, shape);
      buffers.SetInput(inputs.input);
      buffers.SetActInput(inputs.act_input);
      for (DType fp8_dtype : kFp8DTypes) {
        const std::vector<Call> calls = test_case.all_calls
                                            ? AllCalls(GetParam(), dtype, fp8_dtype)
                                            : FewCalls(GetParam(), dtype, fp8_dtype);
        const ExpectedBytes expected(calls.front().config, inputs.input.data(),
                                     inputs.act_input.data(), shape.m(), shape.n());
        for (const Call& call : calls) {
          for (const Route& route : RoutesOf(shape, call)) {
            failures_ += !RunAndCompare(buffers, shape, call, route, expected, closeness);
            if (failures_ >= 10) return false;
          }
        }
      }
      EXPECT_EQ(buffers.CheckInputs(), "");
    }
    return true;
  }

  // Both directions of the fusion, with all that it may have.
  Call FullCall() const {
    QuantizeConfig config = GetParam();
    config.rowwise = config.colwise = config.swizzled = config.with_amax = true;
    return {config, ScaleLayout::kSwizzled, std::nullopt};
  }

 private:
  int failures_ = 0;
};

// Finds a wrong function, gradient and input of the activation in each other's place, a value that
// is not rounded to the input's type (or is before it is added up), an amax or a scale of the value
// before the fusion; sums without a row or a chunk of them, or that depend on the order in which
// blocks run; and everything that the test of casts finds.
TEST_P(FusionTest, MatchesReference) {
  for (DType dtype : kDTypes) {
    Closeness closeness;
    for (const FusionCase& test_case : kCases) {
      if (!CompareAll(test_case, dtype, &closeness)) FAIL() << "enough failures";
    }
    EXPECT_EQ(closeness.Excess(), "") << DTypeName(dtype);
    if (IsSmooth(GetParam())) CountCloseness(dtype, closeness);
  }
}

// Finds a fused kernel that reads noop, which only plain casts do: handed to the backends directly,
// since the functions of the API that fuse have no such argument.
TEST_P(FusionTest, NoopIsIgnored) {
  const Shape shape = {{130, 160}};
  Call call = FullCall();
  const QuantizeConfig& config = call.config;
  call.noop = 1.0f;
  const Inputs inputs(kOrdinaryValues.front(), config.dtype, shape);
  CallBuffers buffers(shape, config.dtype);
  buffers.SetInput(inputs.input);
  buffers.SetActInput(inputs.act_input);
  const ExpectedBytes expected(config, inputs.input.data(), inputs.act_input.data(), shape.m(),
                               shape.n());
  for (const Route& route : RoutesOf(shape, call)) {
    SetBackendMode(route.mode);
    buffers.Prepare(call, 0.0f, nullptr);
    const KernelArgs args = buffers.Args(call);
    if (route.backend == Backend::kCuda) {
      cuda::Quantize(config, args);
    } else {
      const Kernel* const kernel = GetKernelProvider()->Find(config.Id(), kDevice).kernel;
      ASSERT_NE(kernel, nullptr);
      ASSERT_TRUE(kernel->Launch(config, args));
    }
    if (config.with_dbias) {
      cuda::ReduceDbias(args.dbias_workspace, args.dbias_workspace_rows, args.cols,
                        buffers.dbias().data(), config.dtype, nullptr);
    }
    Synchronize(kDevice, nullptr);
    Closeness closeness;
    EXPECT_EQ(buffers.Check(call, expected, 0.0f, &closeness), "") << BackendName(route.backend);
    EXPECT_EQ(closeness.Excess(), "");
  }
}

std::vector<QuantizeConfig> FusionsWithoutNone() {
  std::vector<QuantizeConfig> fusions = bench::AllFusions();
  fusions.erase(fusions.begin());
  return fusions;
}

INSTANTIATE_TEST_SUITE_P(Fusions, FusionTest, ::testing::ValuesIn(FusionsWithoutNone()),
                         [](const auto& info) { return bench::FusionName(info.param); });

}  // namespace
}  // namespace testing
}  // namespace cutedsl_quant
