// The CPU reference against an oracle made of cuda_fp8.h functions (cast_case.h): casts through the
// public API, fusions as a backend is called, with the element-wise functions that have a test of
// their own.
#include "common/reference/reference.h"

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <vector>

#include "common/activations.h"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/kernel_provider.h"
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

// Compares all that a call has written, and that nothing else was, with a cast of `values`.
void ExpectCastOf(const std::vector<float>& values, const QuantizeConfig& config,
                  HostOutput& output) {
  const int64_t m = output.view.rows();
  const int64_t n = output.view.cols();
  EXPECT_TRUE(output.guards_intact());
  if (config.rowwise) {
    const auto expected = Oracle(values, m, n, config.fp8_dtype, /*colwise=*/false, config.swizzled,
                                 output.rowwise_buffer, config.use_2d_quantization);
    ExpectSameBytes("rowwise data", output.rowwise_data.contents(), expected.data);
    ExpectSameBytes("rowwise scales", output.rowwise_scales.contents(), expected.scales);
  } else {
    EXPECT_TRUE(output.rowwise_data.untouched() && output.rowwise_scales.untouched());
  }
  if (config.colwise) {
    const auto expected = Oracle(values, m, n, config.fp8_dtype, /*colwise=*/true, config.swizzled,
                                 output.colwise_buffer, config.use_2d_quantization);
    ExpectSameBytes("colwise data", output.colwise_data.contents(), expected.data);
    ExpectSameBytes("colwise scales", output.colwise_scales.contents(), expected.scales);
  } else {
    EXPECT_TRUE(output.colwise_data.untouched() && output.colwise_scales.untouched());
  }
  EXPECT_EQ(output.amax, config.with_amax ? AmaxOf(values) : 0);
}

// Casts `bytes` and compares with the oracle.
void ExpectCastMatchesOracle(const QuantizeConfig& config, const Shape& shape,
                             std::vector<uint8_t> bytes, bool exact_scales) {
  HostOutput output(config, shape, exact_scales);
  const Tensor input = HostTensor(bytes.data(), config.dtype, shape);
  Quantize(input, output.tensor, {}, nullptr);

  ExpectCastOf(Decode(bytes, config.dtype), config, output);
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

int64_t ChunkRows(const QuantizeConfig& config) { return config.with_dact ? 64 : 128; }
int64_t WorkspaceRows(const QuantizeConfig& config, int64_t m) {
  return (m + ChunkRows(config) - 1) / ChunkRows(config);
}

// A call as a backend gets it.
void CallReference(const QuantizeConfig& config, const std::vector<uint8_t>& input,
                   const std::vector<uint8_t>& act_input, HostOutput& output, float* workspace,
                   const float* noop) {
  const auto scales = [](const Tensor& tensor) {
    return ScaleView{static_cast<uint8_t*>(tensor.data), tensor.rows(), tensor.cols()};
  };
  KernelArgs args;
  args.rows = output.view.rows();
  args.cols = output.view.cols();
  args.input = input.data();
  args.act_input = config.with_dact ? act_input.data() : nullptr;
  args.rowwise_data = static_cast<uint8_t*>(output.tensor.rowwise_data.data);
  args.rowwise_scale_inv = scales(output.tensor.rowwise_scale_inv);
  args.columnwise_data = static_cast<uint8_t*>(output.tensor.columnwise_data.data);
  args.columnwise_scale_inv = scales(output.tensor.columnwise_scale_inv);
  args.amax = config.with_amax ? &output.amax : nullptr;
  args.dbias_workspace = config.with_dbias ? workspace : nullptr;
  args.dbias_workspace_rows = config.with_dbias ? WorkspaceRows(config, args.rows) : 0;
  args.noop = noop;
  reference::Quantize(config, args);
}

// What a fusion makes of an input.
struct Fused {
  std::vector<float> values;     // what is cast
  std::vector<float> workspace;  // sums of columns, from the first row of a chunk to its last
};

Fused Fuse(const QuantizeConfig& config, const std::vector<uint8_t>& input,
           const std::vector<uint8_t>& act_input, int64_t m, int64_t n) {
  const numerics::ActivationFunction function(config.activation);
  const std::vector<float> act_values = Decode(act_input, config.dtype);
  Fused fused{Decode(input, config.dtype), std::vector<float>(WorkspaceRows(config, m) * n)};
  for (int64_t i = 0; i < m * n; ++i) {
    float& value = fused.values[i];
    if (config.with_act) value = function(value);
    if (config.with_dact) value *= function(act_values[i]);
    fused.workspace[i / n / ChunkRows(config) * n + i % n] += value;
    if (config.with_act || config.with_dact) {
      uint8_t bytes[4];
      StoreElement(value, config.dtype, bytes);
      value = LoadElement(bytes, config.dtype);
    }
  }
  return fused;
}

// Catches a fusion that is done twice, not at all or in the wrong order with the rounding, the
// maximum and the sums; one that noop stops; sums of the wrong rows, and sums where none are asked
// for.
TEST(ReferenceTest, EveryFusionOnEveryShape) {
  uint32_t seed = 0;
  int configs = 0;
  for (const QuantizeConfig& config : AllLegalConfigs()) {
    if (config.IsCast()) continue;
    ++configs;
    for (const Shape& shape :
         {Shape{1, 1}, Shape{33, 47}, Shape{130, 97}, Shape{1, 300}, Shape{300, 1}}) {
      SCOPED_TRACE(config.Name() + " on " + testing::PrintToString(shape));
      HostOutput output(config, shape, /*exact_scales=*/false);
      const int64_t m = output.view.rows();
      const int64_t n = output.view.cols();
      const std::vector<uint8_t> input = RandomElements(m * n, config.dtype, ++seed);
      const std::vector<uint8_t> act_input = RandomElements(m * n, config.dtype, ++seed);
      const Fused expected = Fuse(config, input, act_input, m, n);

      GuardedBytes workspace(expected.workspace.size() * sizeof(float));
      const float noop = 1;  // not for fusions
      CallReference(config, input, act_input, output, reinterpret_cast<float*>(workspace.data()),
                    &noop);
      ExpectCastOf(expected.values, config, output);
      EXPECT_TRUE(workspace.guards_intact());
      if (!config.with_dbias) {
        EXPECT_TRUE(workspace.untouched());
        continue;
      }
      const std::vector<float> sums = Decode(workspace.contents(), DType::kFloat32);
      for (size_t i = 0; i < sums.size(); ++i) {
        ASSERT_TRUE(sums[i] == expected.workspace[i] ||
                    (std::isnan(sums[i]) && std::isnan(expected.workspace[i])))
            << i << ": " << sums[i] << ", expected " << expected.workspace[i];
      }
    }
  }
  EXPECT_EQ(configs, 1152);
}

// Elements and what becomes of them, in a block that is scaled by 1.
struct GoldenFusion {
  Activation activation;
  std::vector<float> input;
  std::vector<float> act_input;  // of derivatives
  std::vector<uint8_t> data;
};

// Catches a reference and an oracle that are wrong in the same way: these bytes were written down
// by hand.
TEST(ReferenceTest, GoldenFusions) {
  const GoldenFusion cases[] = {
      {Activation::kRelu, {448, 1, -448, -0.0f, kNan}, {}, {0x7e, 0x38, 0x00, 0x00, 0x00}},
      {Activation::kSRelu, {20, -20, 1, -0.0f, kNan}, {}, {0x7c, 0x00, 0x38, 0x00, 0x00}},
      {Activation::kSilu, {448, -448, 0, -0.0f, kNan}, {}, {0x7e, 0x80, 0x00, 0x80, 0x7f}},
      {Activation::kDRelu,
       {448, 448, -1, -1, -1, kNan, kNan},
       {1, -1, 2, -0.0f, kNan, 1, -1},
       {0x7e, 0x00, 0xb8, 0x80, 0x80, 0x7f, 0x7f}},
      {Activation::kDSRelu, {112, 0.5f, 1, 1}, {2, 1, -1, kNan}, {0x7e, 0x38, 0x00, 0x00}},
      // The square is 2^-10 above the middle of two FP8 values, which bf16 drops.
      {Activation::kSRelu, {20, 1.03125f}, {}, {0x7c, 0x38}},
      {Activation::kDGelu, {448, 2}, {100, 0}, {0x7e, 0x38}},
  };
  for (const GoldenFusion& golden : cases) {
    QuantizeConfig config;
    config.rowwise = true;
    config.activation = golden.activation;
    config.with_dact = !golden.act_input.empty();
    config.with_act = !config.with_dact;
    std::vector<uint8_t> bytes[2];
    for (const std::vector<float>* values : {&golden.input, &golden.act_input}) {
      std::vector<uint8_t>& to = bytes[values == &golden.act_input];
      to.resize(32 * 2);
      for (size_t i = 0; i < values->size(); ++i) {
        StoreElement((*values)[i], config.dtype, &to[i * 2]);
      }
    }
    HostOutput output(config, {1, 32}, false);
    CallReference(config, bytes[0], bytes[1], output, nullptr, nullptr);
    SCOPED_TRACE(ActivationName(golden.activation));
    EXPECT_EQ(output.rowwise_scales.data()[0], 0x7f);
    for (size_t i = 0; i < golden.data.size(); ++i) {
      EXPECT_EQ(output.rowwise_data.data()[i], golden.data[i]) << i;
    }
  }
}

// dbias of a call whose activation input is `factor` everywhere.
std::vector<uint8_t> DbiasOf(const QuantizeConfig& config, const std::vector<float>& grad,
                             float factor, int64_t m, int64_t n) {
  const int64_t element = ElementBytes(config.dtype);
  std::vector<uint8_t> bytes[2] = {std::vector<uint8_t>(m * n * element),
                                   std::vector<uint8_t>(m * n * element)};
  for (int64_t i = 0; i < m * n; ++i) {
    StoreElement(grad[i], config.dtype, &bytes[0][i * element]);
    StoreElement(factor, config.dtype, &bytes[1][i * element]);
  }
  HostOutput output(config, {m, n}, false);
  const int64_t chunks = WorkspaceRows(config, m);
  std::vector<float> workspace(chunks * n, kNan);
  CallReference(config, bytes[0], bytes[1], output, workspace.data(), nullptr);
  GuardedBytes dbias(n * element);
  reference::ReduceDbias(workspace.data(), chunks, n, dbias.data(), config.dtype);
  EXPECT_TRUE(dbias.guards_intact());
  return dbias.contents();
}

// Catches a row or a chunk that is counted twice or not at all, a sum that is rounded on the way,
// and one of rounded products. All sums are exact in fp32, whatever their order.
TEST(ReferenceTest, DbiasOfExactSums) {
  std::mt19937 random(5);
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (bool with_dact : {false, true}) {
      for (int64_t m : {1, 63, 64, 65, 128, 129, 300}) {
        for (int64_t n : {1, 31, 33, 64}) {
          QuantizeConfig config;
          config.dtype = dtype;
          config.rowwise = config.with_dbias = true;
          config.with_dact = with_dact;
          config.activation = with_dact ? Activation::kDSRelu : Activation::kNone;
          // Products of two numbers of 6 bits have 12, more than fp16 and bf16.
          const float factor = 61.0f / 16;
          std::vector<float> grad(m * n);
          std::vector<double> sums(n);
          for (int64_t i = 0; i < m * n; ++i) {
            grad[i] = static_cast<float>(static_cast<int>(random() % 128) - 64) / 16;
            sums[i % n] += grad[i] * (with_dact ? 2 * factor : 1);
          }
          std::vector<uint8_t> expected(n * ElementBytes(dtype));
          for (int64_t i = 0; i < n; ++i) {
            StoreElement(static_cast<float>(sums[i]), dtype, &expected[i * ElementBytes(dtype)]);
          }
          EXPECT_EQ(DbiasOf(config, grad, factor, m, n), expected)
              << config.Name() << " on " << m << " x " << n;
        }
      }
    }
  }
}

// Catches what is left in dbias of an input without rows.
TEST(ReferenceTest, DbiasOfNoRowsIsZero) {
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    GuardedBytes dbias(70 * ElementBytes(dtype));
    reference::ReduceDbias(nullptr, 0, 70, dbias.data(), dtype);
    EXPECT_EQ(dbias.contents(), std::vector<uint8_t>(70 * ElementBytes(dtype)));
    EXPECT_TRUE(dbias.guards_intact());
  }
}

// Catches blocks of another extent than 32x32 or on another grid, scales that are missing in some
// row or column of a block, and elements that are cast with another scale than the one stored.
TEST(ReferenceTest, SquareBlocks) {
  uint32_t seed = 0;
  for (QuantizeConfig config : CastConfigs()) {
    config.use_2d_quantization = true;
    for (const Shape& shape :
         {Shape{1, 1}, Shape{33, 47}, Shape{130, 97}, Shape{1, 300}, Shape{300, 1}}) {
      SCOPED_TRACE(config.Name() + " on " + testing::PrintToString(shape));
      HostOutput output(config, shape, /*exact_scales=*/false);
      std::vector<uint8_t> input = RandomElements(output.view.size(), config.dtype, ++seed);
      QuantizeOptions options;
      options.use_2d_blocks = true;
      Quantize(HostTensor(input.data(), config.dtype, shape), output.tensor, options, nullptr);
      ExpectCastOf(Decode(input, config.dtype), config, output);
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

// A thread that rounds upward and, where that can be said, takes subnormals for zeros.
class UnusualFloatEnvironment {
 public:
  UnusualFloatEnvironment() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
#endif
  }
  ~UnusualFloatEnvironment() { std::fesetenv(&before_); }

  static bool Holds() {
#if defined(__x86_64__)
    if (!(_mm_getcsr() & _MM_FLUSH_ZERO_ON) || !(_mm_getcsr() & _MM_DENORMALS_ZERO_ON))
      return false;
#endif
    return std::fegetround() == FE_UPWARD;
  }

 private:
  std::fenv_t before_;
};

// What a cast, its way back and its column sums write for 64 x 64 elements.
std::vector<std::vector<uint8_t>> ResultsOf(const std::vector<uint8_t>& bytes, DType dtype) {
  QuantizeConfig config;
  config.dtype = dtype;
  config.rowwise = config.colwise = true;
  HostOutput output(config, {64, 64}, false);
  GuardedBytes dbias(64 * ElementBytes(dtype)), workspace(64 * sizeof(float)),
      back(64 * 64 * ElementBytes(dtype));
  std::vector<uint8_t> elements = bytes;
  Tensor partial_sums = HostTensor(workspace.data(), DType::kFloat32, {1, 64});
  QuantizeDbias(HostTensor(elements.data(), dtype, {64, 64}), output.tensor,
                HostTensor(dbias.data(), dtype, {64}), &partial_sums, nullptr);
  Dequantize(output.tensor, HostTensor(back.data(), dtype, {64, 64}), nullptr);
  return {output.rowwise_data.contents(),
          output.rowwise_scales.contents(),
          output.colwise_data.contents(),
          output.colwise_scales.contents(),
          dbias.contents(),
          workspace.contents(),
          back.contents()};
}

// Catches results that depend on what the calling thread, or a library in its process, has set.
TEST(ReferenceTest, CallersFloatEnvironmentChangesNothing) {
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    const std::vector<uint8_t> bytes = RandomElements(64 * 64, dtype, 17);
    const auto expected = ResultsOf(bytes, dtype);
    std::vector<std::vector<uint8_t>> actual;
    bool kept;
    {
      const UnusualFloatEnvironment environment;
      actual = ResultsOf(bytes, dtype);
      kept = UnusualFloatEnvironment::Holds();
    }
    EXPECT_EQ(actual, expected) << DTypeName(dtype);
    EXPECT_TRUE(kept) << "the caller's is restored";
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
