#include "cutedsl_quant/config.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace cutedsl_quant {
namespace {

using C = QuantizeConfig;

// A rowwise bf16 to e4m3 cast, changed.
template <typename Change>
QuantizeConfig With(Change change) {
  QuantizeConfig config;
  config.rowwise = true;
  change(config);
  return config;
}

// Catches a moved bit or a renamed token: packages and caches of other builds rely on both.
TEST(ConfigTest, EncodesAsDocumented) {
  const struct {
    QuantizeConfig config;
    uint32_t id;
    const char* name;
  } cases[] = {
      {With([](C&) {}), 0x00010706, "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none"},
      {With([](C& c) {
         c.dtype = DType::kFloat32, c.fp8_dtype = DType::kFloat8E5M2;
         c.rowwise = false, c.colwise = true;
       }),
       0x00020804, "cutedsl_mxfp8_fp32_fp8_e5m2_0_1_0_0_0_0_0_0_none"},
      {With([](C& c) { c.dtype = DType::kFloat16, c.colwise = c.swizzled = true; }), 0x00070705,
       "cutedsl_mxfp8_fp16_fp8_e4m3fn_1_1_1_0_0_0_0_0_none"},
      {With([](C& c) { c.with_amax = true; }), 0x00090706,
       "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_1_0_0_0_0_none"},
      {With([](C& c) { c.with_dbias = true; }), 0x00110706,
       "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_1_0_0_0_none"},
      {With([](C& c) { c.with_dact = true, c.activation = Activation::kDSRelu; }), 0x0A210706,
       "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_1_0_0_dsrelu"},
      {With([](C& c) { c.with_act = true, c.activation = Activation::kQGelu; }), 0x04410706,
       "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_1_0_qgelu"},
      {With([](C& c) { c.use_2d_quantization = true; }), 0x00810706,
       "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_1_none"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(c.config.Id(), c.id) << c.name;
    EXPECT_EQ(c.config.Name(), c.name);
  }
}

// Catches two configurations that share a kernel, a missing one, and a parser that loses a field.
TEST(ConfigTest, LegalConfigsAreDistinctAndRoundTrip) {
  const std::vector<QuantizeConfig> configs = AllLegalConfigs();
  EXPECT_EQ(configs.size(), 1224u);
  std::set<std::string> names;
  uint32_t previous = 0;
  for (const QuantizeConfig& config : configs) {
    EXPECT_TRUE(config.IsLegal());
    EXPECT_GT(config.Id(), previous) << "order of ids";
    previous = config.Id();
    EXPECT_TRUE(names.insert(config.Name()).second) << config.Name();
    const auto from_id = QuantizeConfig::FromId(config.Id());
    const auto from_name = QuantizeConfig::FromName(config.Name());
    ASSERT_TRUE(from_id && from_name) << config.Name();
    EXPECT_EQ(from_id->Name(), config.Name());
    EXPECT_EQ(from_name->Id(), config.Id());
  }
}

// Catches ids that a corrupt package could smuggle in as a configuration.
TEST(ConfigTest, OnlyTheIdsOfLegalConfigsDecode) {
  std::set<uint32_t> legal;
  for (const QuantizeConfig& config : AllLegalConfigs()) legal.insert(config.Id());
  size_t decoded = 0;
  for (uint32_t activation = 0; activation < 13; ++activation) {
    for (uint32_t flags = 0; flags < 256; ++flags) {
      for (uint32_t fp8 = 0; fp8 < 12; ++fp8) {
        for (uint32_t dtype = 0; dtype < 12; ++dtype) {
          const uint32_t id = activation << 24 | flags << 16 | fp8 << 8 | dtype;
          const bool is_legal = QuantizeConfig::FromId(id).has_value();
          EXPECT_EQ(is_legal, legal.count(id) == 1) << std::hex << id;
          decoded += is_legal;
        }
      }
    }
  }
  EXPECT_EQ(decoded, 1224u);
}

// Catches fusions that have no meaning, e.g. an activation together with column sums.
TEST(ConfigTest, IllegalCombinations) {
  const QuantizeConfig illegal[] = {
      With([](C& c) { c.rowwise = false; }),
      With([](C& c) { c.dtype = DType::kByte; }),
      With([](C& c) { c.dtype = DType::kFloat8E4M3; }),
      With([](C& c) { c.fp8_dtype = DType::kFloat8E8M0; }),
      With([](C& c) { c.use_2d_quantization = true; }),
      With([](C& c) { c.activation = Activation::kGelu; }),
      With([](C& c) { c.with_act = true; }),
      With([](C& c) { c.with_dact = true; }),
      With([](C& c) { c.with_act = true, c.activation = Activation::kDGelu; }),
      With([](C& c) { c.with_dact = true, c.activation = Activation::kGelu; }),
      With([](C& c) { c.with_act = c.with_dbias = true, c.activation = Activation::kGelu; }),
      With([](C& c) { c.with_act = c.with_dact = true, c.activation = Activation::kGelu; }),
      With([](C& c) { c.with_dbias = true, c.activation = Activation::kDGelu; }),
  };
  for (const QuantizeConfig& config : illegal) {
    EXPECT_FALSE(config.IsLegal()) << config.Name();
    EXPECT_FALSE(QuantizeConfig::FromId(config.Id())) << config.Name();
    EXPECT_FALSE(QuantizeConfig::FromName(config.Name())) << config.Name();
  }
}

// Catches a parser that stops early or starts late.
TEST(ConfigTest, MalformedNames) {
  for (const char* name : {
           "",
           "cutedsl_mxfp8",
           "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0",
           "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_",
           "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none ",
           "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none_",
           " cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none",
           "cutedsl_mxfp8_bf16_fp8_e4m3_1_0_0_0_0_0_0_0_none",
           "cutedsl_mxfp8_bf16_fp8_e4m3fn_2_0_0_0_0_0_0_0_none",
           "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_0_none",
           "cutedsl_mxfp8_BF16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none",
           "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_1_0_tanh",
       }) {
    EXPECT_FALSE(QuantizeConfig::FromName(name)) << name;
  }
}

// Catches names of types and functions that error messages and tables rely on.
TEST(ConfigTest, Names) {
  EXPECT_STREQ(DTypeName(DType::kBFloat16), "bfloat16");
  EXPECT_STREQ(DTypeName(DType::kFloat8E8M0), "float8_e8m0fnu");
  EXPECT_STREQ(DTypeName(static_cast<DType>(200)), "unknown");
  EXPECT_STREQ(ActivationName(Activation::kNone), "none");
  EXPECT_STREQ(ActivationName(Activation::kDSRelu), "dsrelu");
  EXPECT_STREQ(ActivationName(static_cast<Activation>(11)), "unknown");
  for (int value = 0; value <= 10; ++value) {
    const auto activation = static_cast<Activation>(value);
    EXPECT_EQ(ActivationFromName(ActivationName(activation)), activation);
  }
  EXPECT_EQ(ActivationFromName("tanh"), std::nullopt);
}

}  // namespace
}  // namespace cutedsl_quant
