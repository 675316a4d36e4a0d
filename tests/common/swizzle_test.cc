// Scales of host tensors between the two layouts, against where the tests' own formula finds each
// of them (cast_case.h).
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cutedsl_quant/quantize.h"
#include "tests/common/cast_case.h"

namespace cutedsl_quant {
namespace {

using ::testing::PrintToString;

// One direction of a tensor of which there is nothing but scales.
struct Scales {
  Scales(const Shape& shape, bool colwise, bool swizzled, bool exact = false)
      : view(HostTensor(nullptr, DType::kFloat8E4M3, shape)),
        buffer(exact ? ExactScales(colwise, view.rows(), view.cols())
                     : PaddedScales(colwise, view.rows(), view.cols())),
        bytes(buffer.rows * buffer.cols) {
    (colwise ? tensor.columnwise_data : tensor.rowwise_data) = view;
    (colwise ? tensor.columnwise_scale_inv : tensor.rowwise_scale_inv) =
        HostTensor(bytes.data(), DType::kFloat8E8M0, {buffer.rows, buffer.cols});
    tensor.swizzled_scales = swizzled;
  }

  std::vector<uint8_t> FillRandom() {
    std::mt19937 random(1);
    for (int64_t i = 0; i < buffer.rows * buffer.cols; ++i) {
      bytes.data()[i] = static_cast<uint8_t>(random());
    }
    return bytes.contents();
  }

  Tensor view;
  ScaleBuffer buffer;
  GuardedBytes bytes;
  QuantizedTensor tensor;
};

// Calls function(position in the swizzled buffer, position in the compact one) for every scale.
void ForEachScale(const Tensor& view, bool colwise, ScaleBuffer compact,
                  const std::function<void(int64_t, int64_t)>& function) {
  const ScaleBuffer swizzled = PaddedScales(colwise, view.rows(), view.cols());
  const int64_t lines = colwise ? view.cols() : view.rows();
  const int64_t length = colwise ? view.rows() : view.cols();
  for (int64_t position = 0; position < swizzled.rows * swizzled.cols; ++position) {
    const ScalePlace place = SwizzledPlace(position, length);
    if (place.line >= lines || place.block * 32 >= length) continue;
    function(position, CompactPosition(place, colwise, compact));
  }
}

// Buffers hold random bytes, padding included, or poison.
void ExpectRearranged(const Shape& shape, bool colwise, bool exact) {
  Scales compact(shape, colwise, /*swizzled=*/false, exact);
  Scales swizzled(shape, colwise, /*swizzled=*/true);
  const std::vector<uint8_t> from_compact = compact.FillRandom();
  SwizzleScales(compact.tensor, swizzled.tensor, nullptr);
  std::vector<uint8_t> expected(swizzled.buffer.rows * swizzled.buffer.cols, 0);
  ForEachScale(compact.view, colwise, compact.buffer,
               [&](int64_t to, int64_t from) { expected[to] = from_compact[from]; });
  EXPECT_EQ(swizzled.bytes.contents(), expected);
  EXPECT_EQ(compact.bytes.contents(), from_compact);
  EXPECT_TRUE(swizzled.bytes.guards_intact());

  Scales back(shape, colwise, /*swizzled=*/false, exact);
  const std::vector<uint8_t> from_swizzled = swizzled.FillRandom();
  UnswizzleScales(swizzled.tensor, back.tensor, nullptr);
  expected.assign(back.buffer.rows * back.buffer.cols, kPoison);
  ForEachScale(back.view, colwise, back.buffer,
               [&](int64_t from, int64_t to) { expected[to] = from_swizzled[from]; });
  EXPECT_EQ(back.bytes.contents(), expected);
  EXPECT_EQ(swizzled.bytes.contents(), from_swizzled);
  EXPECT_TRUE(back.bytes.guards_intact());
}

// Catches a scale in the wrong place, padding that gets through or is forgotten, and a compact
// buffer that is indexed by anything but its own row stride.
TEST(SwizzleTest, EveryShapeAndBuffer) {
  for (const Shape& shape :
       {Shape{}, Shape{97}, Shape{1, 1}, Shape{31, 33}, Shape{128, 128}, Shape{130, 97},
        Shape{129, 257}, Shape{2, 64, 513}, Shape{512, 384}, Shape{1, 4097}, Shape{4097, 1},
        Shape{0}, Shape{0, 64}, Shape{64, 0}, Shape{3, 0, 5}}) {
    for (bool colwise : {false, true}) {
      for (bool exact : {false, true}) {
        SCOPED_TRACE(PrintToString(shape) + (colwise ? " columnwise" : " rowwise") +
                     (exact ? ", exact" : ", padded"));
        ExpectRearranged(shape, colwise, exact);
      }
    }
  }
}

// Catches a layout that is not the one of the casts, and a direction that is left out or taken for
// the other.
TEST(SwizzleTest, AgreesWithCasts) {
  QuantizeConfig config;
  config.rowwise = config.colwise = true;
  const Shape shape = {200, 170};
  std::vector<uint8_t> input = RandomElements(200 * 170, config.dtype, 1);
  HostOutput compact(config, shape, false);
  HostOutput swizzled(config, shape, false);
  HostOutput back(config, shape, false);
  Quantize(HostTensor(input.data(), config.dtype, shape), compact.tensor, {}, nullptr);
  swizzled.tensor.swizzled_scales = true;
  SwizzleScales(compact.tensor, swizzled.tensor, nullptr);
  UnswizzleScales(swizzled.tensor, back.tensor, nullptr);
  EXPECT_TRUE(swizzled.rowwise_data.untouched() && swizzled.colwise_data.untouched());
  EXPECT_EQ(back.rowwise_scales.contents(), compact.rowwise_scales.contents());
  EXPECT_EQ(back.colwise_scales.contents(), compact.colwise_scales.contents());

  config.swizzled = true;
  HostOutput expected(config, shape, false);
  Quantize(HostTensor(input.data(), config.dtype, shape), expected.tensor, {}, nullptr);
  EXPECT_EQ(swizzled.rowwise_scales.contents(), expected.rowwise_scales.contents());
  EXPECT_EQ(swizzled.colwise_scales.contents(), expected.colwise_scales.contents());
}

// Catches a shape that is looked for in one tensor only, and a direction of the input that is
// rearranged though the output does not ask for it.
TEST(SwizzleTest, ShapeFromAnyDataAndDirectionsFromTheOutput) {
  QuantizeConfig config;
  config.rowwise = config.colwise = true;
  Tensor QuantizedTensor::* const data[] = {&QuantizedTensor::rowwise_data,
                                            &QuantizedTensor::columnwise_data};
  for (bool in_input : {false, true}) {
    for (Tensor QuantizedTensor::* member : data) {
      HostOutput input(config, {33, 47}, false);
      HostOutput output(config, {33, 47}, false);
      output.tensor.swizzled_scales = true;
      output.tensor.columnwise_scale_inv = Tensor();
      for (Tensor QuantizedTensor::* cleared : data) {
        if (!in_input || cleared != member) input.tensor.*cleared = Tensor();
        if (in_input || cleared != member) output.tensor.*cleared = Tensor();
      }
      SwizzleScales(input.tensor, output.tensor, nullptr);
      EXPECT_FALSE(output.rowwise_scales.untouched());
      EXPECT_TRUE(output.colwise_scales.untouched());
      EXPECT_TRUE(output.guards_intact());
    }
  }
}

// Catches a bad argument that is let through, and a message that does not say what was wrong.
TEST(SwizzleTest, BadArguments) {
  struct Case {
    std::function<void(QuantizedTensor& input, QuantizedTensor& output)> spoil;
    const char* message;
  };
  const Case cases[] = {
      {[](auto& input, auto&) { input.swizzled_scales = true; },
       "SwizzleScales: input has swizzled scales; compact ones are accepted"},
      {[](auto&, auto& output) { output.swizzled_scales = false; },
       "SwizzleScales: output has compact scales; swizzled ones are accepted"},
      {[](auto& input, auto& output) { input.rowwise_data = output.rowwise_data = Tensor(); },
       "SwizzleScales: neither input nor output has data; the shape of one is needed"},
      {[](auto&, auto& output) { output.rowwise_data.shape[1] = 48; },
       "SwizzleScales: output.rowwise_data has shape (33, 48); the shape of input.rowwise_data is "
       "(33, 47)"},
      {[](auto&, auto& output) { output.rowwise_data.shape[0] = -1; },
       "SwizzleScales: output.rowwise_data has shape (-1, 47); dimensions must not be negative"},
      {[](auto&, auto& output) { output.rowwise_scale_inv = Tensor(); },
       "SwizzleScales: output has neither rowwise_scale_inv nor columnwise_scale_inv; at least one "
       "is needed"},
      {[](auto& input, auto&) { input.rowwise_scale_inv = Tensor(); },
       "SwizzleScales: input.rowwise_scale_inv is not given, but output.rowwise_scale_inv is"},
      {[](auto& input, auto&) { input.rowwise_scale_inv.dtype = DType::kByte; },
       "SwizzleScales: input.rowwise_scale_inv has dtype uint8; float8_e8m0fnu is accepted"},
      {[](auto& input, auto&) { input.rowwise_scale_inv.data = nullptr; },
       "SwizzleScales: input.rowwise_scale_inv of shape (128, 4) has a null data pointer"},
      {[](auto& input, auto&) { input.rowwise_scale_inv.shape[0] = 127; },
       "SwizzleScales: input.rowwise_scale_inv has shape (127, 4); (128, 4) and (33, 2) are "
       "accepted"},
      {[](auto&, auto& output) {
         output.rowwise_scale_inv.shape[0] = 33;
         output.rowwise_scale_inv.shape[1] = 2;
       },
       "SwizzleScales: output.rowwise_scale_inv has shape (33, 2); (128, 4) is accepted for "
       "swizzled scales"},
      {[](auto& input, auto&) { input.rowwise_scale_inv.device = {DeviceType::kCuda, 1}; },
       "SwizzleScales: input.rowwise_scale_inv is on cuda:1; all tensors of a call must be on one "
       "device, the host"},
  };
  for (const Case& c : cases) {
    Scales input({33, 47}, /*colwise=*/false, /*swizzled=*/false);
    Scales output({33, 47}, /*colwise=*/false, /*swizzled=*/true);
    c.spoil(input.tensor, output.tensor);
    try {
      SwizzleScales(input.tensor, output.tensor, nullptr);
      ADD_FAILURE() << "accepted; expected: " << c.message;
    } catch (const InvalidArgument& error) {
      EXPECT_STREQ(error.what(), c.message);
    }
    EXPECT_TRUE(output.bytes.untouched());
  }
}

// Catches UnswizzleScales with the layouts or the name of SwizzleScales.
TEST(SwizzleTest, UnswizzleTakesTheLayoutsTheOtherWayRound) {
  Scales compact({33, 47}, /*colwise=*/true, /*swizzled=*/false);
  Scales swizzled({33, 47}, /*colwise=*/true, /*swizzled=*/true);
  try {
    UnswizzleScales(compact.tensor, swizzled.tensor, nullptr);
    ADD_FAILURE() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "UnswizzleScales: input has compact scales; swizzled ones are accepted");
  }
  EXPECT_TRUE(swizzled.bytes.untouched());
}

}  // namespace
}  // namespace cutedsl_quant
