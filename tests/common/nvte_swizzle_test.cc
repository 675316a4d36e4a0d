// TransformerEngine's names of the scale layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "cutedsl_quant/quantize.h"
#include "tests/common/cast_case.h"
#include "tests/common/messages.h"
#include "tests/common/nvte_case.h"
#include "transformer_engine/swizzle.h"

namespace {

using cutedsl_quant::ExpectPieces;
using cutedsl_quant::ExpectSame;
using cutedsl_quant::GuardedBytes;
using cutedsl_quant::HostOutput;
using cutedsl_quant::MessageOf;
using cutedsl_quant::QuantizeConfig;
using cutedsl_quant::Shape;
using cutedsl_quant::Wrap;
using transformer_engine::DType;
using transformer_engine::TensorWrapper;

const Shape kShapes[] = {{128, 128}, {33, 47}, {2, 65, 64}, {300, 1}, {160, 96}};

QuantizeConfig Directions(bool rowwise, bool colwise, bool swizzled) {
  QuantizeConfig config;
  config.rowwise = rowwise;
  config.colwise = colwise;
  config.swizzled = swizzled;
  return config;
}

// Every byte another than its neighbours, padding included.
void Number(GuardedBytes& scales) {
  const size_t size = scales.contents().size();
  for (size_t i = 0; i < size; ++i) scales.data()[i] = static_cast<uint8_t>(i * 31 + i / 256);
}

struct Scales : HostOutput {
  Scales(const QuantizeConfig& config, const Shape& shape, bool exact)
      : HostOutput(config, shape, exact) {
    Number(rowwise_scales);
    Number(colwise_scales);
  }
};

// As scales come from a framework: the data's shape, but not its memory.
TensorWrapper WithoutData(HostOutput& output) {
  TensorWrapper wrapper = Wrap(output);
  for (const NVTETensorParam param : {kNVTERowwiseData, kNVTEColumnwiseData}) {
    const NVTEBasicTensor data = wrapper.get_parameter(param);
    wrapper.set_parameter(param, nullptr, static_cast<DType>(data.dtype), data.shape);
  }
  return wrapper;
}

// Calls `check` with every choice of directions.
void ForEachDirections(const std::function<void(bool rowwise, bool colwise)>& check) {
  check(true, false);
  check(false, true);
  check(true, true);
}

// Catches a direction or a shape that is lost in translation, and data that is needed or touched.
TEST(NvteSwizzleTest, SwizzlesLikeTheNativeApi) {
  for (const Shape& shape : kShapes) {
    for (const bool exact : {false, true}) {
      ForEachDirections([&](bool rowwise, bool colwise) {
        Scales input(Directions(rowwise, colwise, false), shape, exact);
        const QuantizeConfig config = Directions(rowwise, colwise, true);
        HostOutput expected(config, shape, false), actual(config, shape, false);
        SwizzleScales(input.tensor, expected.tensor, nullptr);
        nvte_swizzle_scaling_factors(WithoutData(input).data(), WithoutData(actual).data(),
                                     nullptr);
        ExpectSame(actual, expected);
      });
    }
  }
}

// Catches the same on the way back into buffers without padding.
TEST(NvteSwizzleTest, UnswizzlesLikeTheNativeApi) {
  for (const Shape& shape : kShapes) {
    ForEachDirections([&](bool rowwise, bool colwise) {
      Scales input(Directions(rowwise, colwise, true), shape, false);
      const QuantizeConfig config = Directions(rowwise, colwise, false);
      HostOutput expected(config, shape, true), actual(config, shape, true);
      UnswizzleScales(input.tensor, expected.tensor, nullptr);
      nvte_unswizzle_scaling_factors(WithoutData(input).data(), WithoutData(actual).data(),
                                     nullptr);
      ExpectSame(actual, expected);
    });
  }
}

// Catches padding that is left out: TransformerEngine rearranges whole buffers, so that swizzled
// and unswizzled scales are each other's inverse.
TEST(NvteSwizzleTest, UnswizzlesPaddingToo) {
  for (const Shape& shape : kShapes) {
    ForEachDirections([&](bool rowwise, bool colwise) {
      const QuantizeConfig compact = Directions(rowwise, colwise, false);
      const QuantizeConfig swizzled = Directions(rowwise, colwise, true);
      // All of it is valid for a tensor that is as large as its padding.
      Scales input(compact, shape, false);
      const Shape whole = {input.rowwise_buffer.rows, input.colwise_buffer.cols};
      Scales larger(compact, whole, false);
      HostOutput tiles(swizzled, whole, false);
      SwizzleScales(larger.tensor, tiles.tensor, nullptr);

      // With both directions there, whichever are asked for.
      HostOutput smaller(Directions(true, true, true), shape, false);
      std::copy_n(tiles.rowwise_scales.data(), tiles.rowwise_scales.contents().size(),
                  smaller.rowwise_scales.data());
      std::copy_n(tiles.colwise_scales.data(), tiles.colwise_scales.contents().size(),
                  smaller.colwise_scales.data());
      HostOutput output(compact, shape, false);
      nvte_unswizzle_scaling_factors(Wrap(smaller).data(), Wrap(output).data(), nullptr);
      if (rowwise) EXPECT_EQ(output.rowwise_scales.contents(), larger.rowwise_scales.contents());
      if (colwise) EXPECT_EQ(output.colwise_scales.contents(), larger.colwise_scales.contents());
      EXPECT_TRUE(output.guards_intact());
    });
  }
}

// Catches an error for tensors without elements, whose pointers are null more often than not.
TEST(NvteSwizzleTest, EmptyTensorsNeedNoMemory) {
  TensorWrapper compact(NVTE_MXFP8_1D_SCALING), swizzled(NVTE_MXFP8_1D_SCALING);
  compact.set_rowwise_data(nullptr, DType::kFloat8E4M3, std::vector<size_t>{0, 64});
  swizzled.set_with_gemm_swizzled_scales(true);
  EXPECT_NO_THROW(nvte_swizzle_scaling_factors(compact.data(), swizzled.data(), nullptr));
  EXPECT_NO_THROW(nvte_unswizzle_scaling_factors(swizzled.data(), compact.data(), nullptr));

  // Pools hand out addresses for nothing, too.
  char nothing;
  for (const std::vector<size_t>& shape :
       {std::vector<size_t>{0, 4}, std::vector<size_t>{128, 0}}) {
    compact.set_rowwise_scale_inv(&nothing, DType::kFloat8E8M0, shape);
    swizzled.set_rowwise_scale_inv(&nothing, DType::kFloat8E8M0, shape);
    EXPECT_NO_THROW(nvte_swizzle_scaling_factors(compact.data(), swizzled.data(), nullptr));
    EXPECT_NO_THROW(nvte_unswizzle_scaling_factors(swizzled.data(), compact.data(), nullptr));
  }
}

// Catches messages that name another function or tensor, and crashes on null.
TEST(NvteSwizzleTest, Errors) {
  Scales compact_scales(Directions(true, false, false), {32, 64}, false);
  Scales swizzled_scales(Directions(true, false, true), {32, 64}, false);
  const TensorWrapper compact = Wrap(compact_scales), swizzled = Wrap(swizzled_scales);
  const TensorWrapper unquantized;
  TensorWrapper no_scales(NVTE_MXFP8_1D_SCALING);
  no_scales.set_with_gemm_swizzled_scales(true);
  const struct {
    std::function<void()> call;
    std::vector<const char*> pieces;
  } cases[] = {
      {[&] { nvte_swizzle_scaling_factors(nullptr, swizzled.data(), nullptr); },
       {"nvte_swizzle_scaling_factors: input", "null"}},
      {[&] { nvte_unswizzle_scaling_factors(swizzled.data(), nullptr, nullptr); },
       {"nvte_unswizzle_scaling_factors: output", "null"}},
      {[&] { nvte_swizzle_scaling_factors(unquantized.data(), swizzled.data(), nullptr); },
       {"nvte_swizzle_scaling_factors: input", "scaling mode 0"}},
      {[&] { nvte_swizzle_scaling_factors(compact.data(), compact.data(), nullptr); },
       {"nvte_swizzle_scaling_factors: output", "compact"}},
      {[&] { nvte_unswizzle_scaling_factors(compact.data(), compact.data(), nullptr); },
       {"nvte_unswizzle_scaling_factors: input", "compact"}},
      {[&] { nvte_swizzle_scaling_factors(compact.data(), no_scales.data(), nullptr); },
       {"nvte_swizzle_scaling_factors: output"}},
  };
  for (const auto& c : cases) ExpectPieces(MessageOf(c.call), c.pieces);
  EXPECT_TRUE(swizzled_scales.guards_intact() && compact_scales.guards_intact());
}

}  // namespace
