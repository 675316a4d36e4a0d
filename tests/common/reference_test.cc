// Casts of host tensors through the public API against an oracle made of cuda_fp8.h functions
// (cast_case.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cutedsl_quant/quantize.h"
#include "tests/common/cast_case.h"

namespace cutedsl_quant {
namespace {

std::vector<float> Decode(const std::vector<uint8_t>& bytes, DType dtype) {
  std::vector<float> values(bytes.size() / ElementBytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadElement(bytes.data() + i * ElementBytes(dtype), dtype);
  }
  return values;
}

float AmaxOf(const std::vector<float>& values) {
  float amax = 0;
  for (float value : values) amax = MaxIgnoringNan(amax, std::fabs(value));
  return amax;
}

// Equal, or the first difference (whole buffers are too long to be read).
void ExpectSameBytes(const char* what, const std::vector<uint8_t>& actual,
                     const std::vector<uint8_t>& expected) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const size_t i =
      std::mismatch(actual.begin(), actual.end(), expected.begin()).first - actual.begin();
  if (i == actual.size()) return;
  ADD_FAILURE() << what << " differs at byte " << i << ": " << int{actual[i]} << ", expected "
                << int{expected[i]};
}

// Casts `bytes` and compares all that was written, and that nothing else was.
void ExpectCastMatchesOracle(const QuantizeConfig& config, const Shape& shape,
                             std::vector<uint8_t> bytes, bool exact_scales) {
  HostOutput output(config, shape, exact_scales);
  const Tensor input = HostTensor(bytes.data(), config.dtype, shape);
  Quantize(input, output.tensor, {}, nullptr);

  const int64_t m = input.rows();
  const int64_t n = input.cols();
  const std::vector<float> values = Decode(bytes, config.dtype);
  EXPECT_TRUE(output.guards_intact());
  if (config.rowwise) {
    const auto expected = Oracle(values, m, n, config.fp8_dtype, /*colwise=*/false, config.swizzled,
                                 output.rowwise_buffer);
    ExpectSameBytes("rowwise data", output.rowwise_data.contents(), expected.data);
    ExpectSameBytes("rowwise scales", output.rowwise_scales.contents(), expected.scales);
  } else {
    EXPECT_TRUE(output.rowwise_data.untouched() && output.rowwise_scales.untouched());
  }
  if (config.colwise) {
    const auto expected = Oracle(values, m, n, config.fp8_dtype, /*colwise=*/true, config.swizzled,
                                 output.colwise_buffer);
    ExpectSameBytes("colwise data", output.colwise_data.contents(), expected.data);
    ExpectSameBytes("colwise scales", output.colwise_scales.contents(), expected.scales);
  } else {
    EXPECT_TRUE(output.colwise_data.untouched() && output.colwise_scales.untouched());
  }
  EXPECT_EQ(output.amax, config.with_amax ? AmaxOf(values) : 0);
}

// Catches a configuration that writes something else, too much or too little on any kind of edge:
// one element, ragged blocks, whole tiles, one and several dimensions, none, and no elements.
TEST(ReferenceTest, EveryCastOnEveryShape) {
  const Shape shapes[] = {{1, 1},     {33, 47},     {128, 128}, {130, 97}, {97},
                          {2, 3, 65}, {2, 16, 160}, {},         {1, 300},  {300, 1},
                          {0},        {0, 64},      {64, 0},    {3, 0, 5}};
  uint32_t seed = 0;
  for (const QuantizeConfig& config : CastConfigs()) {
    for (const Shape& shape : shapes) {
      const int64_t size = HostTensor(nullptr, config.dtype, shape).size();
      for (bool exact_scales : {false, true}) {
        if (exact_scales && config.swizzled) continue;
        SCOPED_TRACE(config.Name() + " on " + testing::PrintToString(shape) +
                     (exact_scales ? ", exact scales" : ", padded scales"));
        ExpectCastMatchesOracle(config, shape, RandomElements(size, config.dtype, ++seed),
                                exact_scales);
      }
    }
  }
  EXPECT_EQ(CastConfigs().size(), 72u);
}

// Catches a scale or an element that is wrong for any 16-bit value: each pattern is the maximum of
// one block, next to a few smaller ones, and every pattern is cast with it.
TEST(ReferenceTest, EveryPatternAsBlockMaximumAndAsElement) {
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (DType fp8_dtype : {DType::kFloat8E4M3, DType::kFloat8E5M2}) {
      QuantizeConfig config;
      config.dtype = dtype;
      config.fp8_dtype = fp8_dtype;
      config.rowwise = true;
      std::vector<uint8_t> maxima(0x10000 * 32 * 2);
      std::vector<uint8_t> elements(0x10000 * 2);
      for (int code = 0; code < 0x10000; ++code) {
        const auto pattern = static_cast<uint16_t>(code);
        std::memcpy(&elements[code * 2], &pattern, 2);
        for (int i = 0; i < 32; ++i) {
          // Smaller by 0 to 31 steps of the format.
          const auto smaller =
              static_cast<uint16_t>((pattern & 0x8000) | std::max((pattern & 0x7FFF) - i * 13, 0));
          std::memcpy(&maxima[(code * 32 + i) * 2], &smaller, 2);
        }
      }
      SCOPED_TRACE(config.Name());
      ExpectCastMatchesOracle(config, {0x10000, 32}, maxima, false);
      ExpectCastMatchesOracle(config, {0x10000 / 32, 32}, elements, false);
      ExpectCastMatchesOracle(config, {0x10000, 1}, elements, false);
    }
  }
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The first elements of a block and what they become; the rest of the block is `fill`.
struct Golden {
  std::vector<float> block;
  float fill;
  uint8_t scale;
  std::vector<uint8_t> data;
};

// Catches a reference and an oracle that are wrong in the same way: these bytes were written down
// by hand.
TEST(ReferenceTest, GoldenValues) {
  const Golden e4m3[] = {
      {{0}, 0, 0x00, {0x00}},
      {{-0.0f}, -0.0f, 0x00, {0x80, 0x80}},
      {{448, 1, -448}, 0, 0x7f, {0x7e, 0x38, 0xfe}},
      {{450, 448, 1}, 0, 0x80, {0x76, 0x76, 0x30}},
      {{448, 17, 19, -18}, 0, 0x7f, {0x7e, 0x58, 0x5a, 0xd9}},
      {{2.6331e-36f}, 0, 0x00, {0x7e}},
      {{2.6449e-36f, 1e-37f}, 0, 0x01, {0x76, 0x50}},
      {{9.18e-41f}, 0, 0x00, {0x08}},
      {{3.3895e38f, 1}, 0, 0xf7, {0x78, 0x00}},
      {{kInf, -kInf, 1, 3e38f}, 0, 0xfe, {0x7e, 0xfe, 0x00, 0x3e}},
      {{kNan, 448, -kNan, 1}, 0, 0x7f, {0x7f, 0x7e, 0x7f, 0x38}},
      {{kNan}, kNan, 0x00, {0x7f, 0x7f}},
  };
  const Golden e5m2[] = {
      {{448, 1, -448}, 0, 0x78, {0x7b, 0x58, 0xfb}},
      {{kInf, -kInf}, 0, 0xfe, {0x7b, 0xfb}},
      {{kNan, -0.0f}, 0, 0x00, {0x7f, 0x80}},
  };
  const auto check = [](const Golden& golden, DType fp8_dtype) {
    QuantizeConfig config;
    config.fp8_dtype = fp8_dtype;
    config.rowwise = config.colwise = true;
    std::vector<uint8_t> bytes(32 * 2);
    for (size_t i = 0; i < 32; ++i) {
      StoreElement(i < golden.block.size() ? golden.block[i] : golden.fill, config.dtype,
                   &bytes[i * 2]);
    }
    for (bool colwise : {false, true}) {
      HostOutput output(config, colwise ? Shape{32, 1} : Shape{1, 32}, false);
      Quantize(HostTensor(bytes.data(), config.dtype, colwise ? Shape{32, 1} : Shape{1, 32}),
               output.tensor, {}, nullptr);
      SCOPED_TRACE(testing::PrintToString(golden.block));
      GuardedBytes& data = colwise ? output.colwise_data : output.rowwise_data;
      EXPECT_EQ((colwise ? output.colwise_scales : output.rowwise_scales).data()[0], golden.scale);
      for (size_t i = 0; i < golden.data.size(); ++i)
        EXPECT_EQ(data.data()[i], golden.data[i]) << i;
    }
  };
  for (const Golden& golden : e4m3) check(golden, DType::kFloat8E4M3);
  for (const Golden& golden : e5m2) check(golden, DType::kFloat8E5M2);
}

// Catches an amax that is overwritten instead of raised, that counts NaN, or that misses a negative
// value.
TEST(ReferenceTest, AmaxIsRaisedNeverLowered) {
  const struct {
    float start;
    std::vector<float> values;
    float expected;
  } cases[] = {
      {0, {1, -3, 2}, 3},   {5, {1, -3, 2}, 5},    {0, {kNan, 2}, 2},
      {0, {kNan, kNan}, 0}, {1, {-kInf, 2}, kInf}, {0, {-0.0f}, 0},
  };
  for (const auto& c : cases) {
    QuantizeConfig config;
    config.dtype = DType::kFloat32;
    config.colwise = config.with_amax = true;
    std::vector<float> values = c.values;
    const Shape shape = {1, static_cast<int64_t>(values.size())};
    HostOutput output(config, shape, false);
    output.amax = c.start;
    Quantize(HostTensor(values.data(), DType::kFloat32, shape), output.tensor, {}, nullptr);
    EXPECT_EQ(output.amax, c.expected) << testing::PrintToString(c.values);
    EXPECT_FALSE(std::signbit(output.amax));
  }
}

// Catches a no-op that still zeroes scale padding or raises amax, and one that is taken for any
// non-zero value.
TEST(ReferenceTest, NoopIsExactlyOne) {
  const Shape shape = {33, 47};
  for (const QuantizeConfig& config : CastConfigs()) {
    std::vector<uint8_t> bytes = RandomElements(33 * 47, config.dtype, 7);
    for (float value :
         {1.0f, 0.0f, -1.0f, 2.0f, std::nextafter(1.0f, 2.0f), std::nextafter(1.0f, 0.0f), kNan}) {
      HostOutput output(config, shape, false);
      float noop = value;
      QuantizeOptions options;
      options.noop = HostTensor(&noop, DType::kFloat32, {1});
      Quantize(HostTensor(bytes.data(), config.dtype, shape), output.tensor, options, nullptr);
      EXPECT_EQ(output.untouched() && output.amax == 0, value == 1.0f)
          << config.Name() << " " << value;
    }
  }
}

// Catches code that needs more alignment than the elements have.
TEST(ReferenceTest, PointersOffByOneElement) {
  for (const QuantizeConfig& config : CastConfigs()) {
    const int64_t element = ElementBytes(config.dtype);
    std::vector<uint8_t> bytes = RandomElements(64 * 64 + 1, config.dtype, 11);
    const std::vector<uint8_t> values(bytes.begin() + element, bytes.end());
    HostOutput output(config, {64, 64}, false);
    GuardedBytes shifted(64 * 64, /*offset=*/1);
    (config.rowwise ? output.tensor.rowwise_data : output.tensor.columnwise_data).data =
        shifted.data();
    Quantize(HostTensor(bytes.data() + element, config.dtype, {64, 64}), output.tensor, {},
             nullptr);
    const auto expected = Oracle(Decode(values, config.dtype), 64, 64, config.fp8_dtype,
                                 !config.rowwise, config.swizzled, output.rowwise_buffer);
    EXPECT_EQ(shifted.contents(), expected.data) << config.Name();
    EXPECT_TRUE(shifted.guards_intact());
  }
}

// Fills an MXFP8 tensor with bytes of every kind and dequantizes it.
void ExpectDequantizeMatches(DType dtype, DType fp8_dtype, bool colwise, bool swizzled,
                             const Shape& shape) {
  QuantizeConfig config;
  config.fp8_dtype = fp8_dtype;
  config.rowwise = !colwise;
  config.colwise = colwise;
  config.swizzled = swizzled;
  HostOutput tensor(config, shape, false);
  const int64_t m = tensor.view.rows();
  const int64_t n = tensor.view.cols();
  const ScaleBuffer buffer = colwise ? tensor.colwise_buffer : tensor.rowwise_buffer;
  uint8_t* data = (colwise ? tensor.colwise_data : tensor.rowwise_data).data();
  uint8_t* scales = (colwise ? tensor.colwise_scales : tensor.rowwise_scales).data();
  std::mt19937 random(3);
  for (int64_t i = 0; i < m * n; ++i) data[i] = static_cast<uint8_t>(random());
  for (int64_t i = 0; i < buffer.rows * buffer.cols; ++i)
    scales[i] = static_cast<uint8_t>(random());

  GuardedBytes output(m * n * ElementBytes(dtype));
  Dequantize(tensor.tensor, HostTensor(output.data(), dtype, shape), nullptr);
  EXPECT_TRUE(output.guards_intact());
  for (int64_t i = 0; i < m * n; ++i) {
    const int64_t line = colwise ? i % n : i / n;
    const int64_t block = (colwise ? i / n : i % n) / 32;
    const int64_t tiles = ((colwise ? m : n) + 127) / 128;
    const int64_t index = swizzled  ? (line / 128 * tiles + block / 4) * 512 + line % 32 * 16 +
                                          line % 128 / 32 * 4 + block % 4
                          : colwise ? block * buffer.cols + line
                                    : line * buffer.cols + block;
    const __nv_fp8_interpretation_t format =
        fp8_dtype == DType::kFloat8E4M3 ? __NV_E4M3 : __NV_E5M2;
    const float element = __half2float(__half(__nv_cvt_fp8_to_halfraw(data[i], format)));
    const float scale = scales[index] == 0xFF ? kNan : std::ldexp(1.0f, scales[index] - 127);
    uint8_t expected[4];
    const float product = element * scale;
    StoreElement(std::isnan(product) ? kNan : product, dtype, expected);
    if (std::isnan(product)) {
      const uint32_t bits = 0x7FFFFFFF;  // the device's NaN; its upper bytes are the 16-bit types'
      const uint16_t bits16 = 0x7FFF;
      dtype == DType::kFloat32 ? std::memcpy(expected, &bits, 4)
                               : std::memcpy(expected, &bits16, 2);
    }
    ASSERT_EQ(std::memcmp(output.data() + i * ElementBytes(dtype), expected, ElementBytes(dtype)),
              0)
        << i << ": " << int{data[i]} << " * " << int{scales[index]};
  }
}

// Catches a wrong scale, a missing rounding and a NaN with a sign or payload, for any code and
// scale.
TEST(ReferenceTest, DequantizesEveryFormat) {
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (DType fp8_dtype : {DType::kFloat8E4M3, DType::kFloat8E5M2}) {
      for (bool colwise : {false, true}) {
        for (bool swizzled : {false, true}) {
          for (const Shape& shape : {Shape{}, Shape{7}, Shape{130, 97}, Shape{256, 512},
                                     Shape{3, 50, 33}, Shape{0, 5}}) {
            SCOPED_TRACE(std::string(DTypeName(dtype)) + " from " + DTypeName(fp8_dtype) +
                         (colwise ? " columnwise" : " rowwise") +
                         (swizzled ? " swizzled " : " compact ") + testing::PrintToString(shape));
            ExpectDequantizeMatches(dtype, fp8_dtype, colwise, swizzled, shape);
          }
        }
      }
    }
  }
}

// Catches a direction taken from the wrong tensor when both are there: rowwise is read.
TEST(ReferenceTest, DequantizeReadsRowwiseIfThereIsOne) {
  QuantizeConfig config;
  config.rowwise = config.colwise = true;
  HostOutput tensor(config, {1, 1}, true);
  tensor.rowwise_data.data()[0] = 0x38;    // 1.0
  tensor.rowwise_scales.data()[0] = 0x80;  // 2.0
  tensor.colwise_data.data()[0] = 0x40;    // 2.0
  tensor.colwise_scales.data()[0] = 0x81;  // 4.0
  float value = 0;
  const Tensor output = HostTensor(&value, DType::kFloat32, {1, 1});
  Dequantize(tensor.tensor, output, nullptr);
  EXPECT_EQ(value, 2.0f);
  tensor.tensor.rowwise_data = Tensor();
  Dequantize(tensor.tensor, output, nullptr);
  EXPECT_EQ(value, 8.0f);
}

}  // namespace
}  // namespace cutedsl_quant
