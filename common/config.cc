#include "cutedsl_quant/config.h"

#include <cstddef>

namespace cutedsl_quant {
namespace {

// What has a name in the encoding.
template <typename T>
struct Named {
  T value;
  std::string_view name;
};

constexpr std::string_view kPrefix = "cutedsl_mxfp8";

constexpr Named<DType> kInputTypes[] = {
    {DType::kFloat32, "fp32"},
    {DType::kFloat16, "fp16"},
    {DType::kBFloat16, "bf16"},
};

constexpr Named<DType> kFp8Types[] = {
    {DType::kFloat8E4M3, "fp8_e4m3fn"},
    {DType::kFloat8E5M2, "fp8_e5m2"},
};

constexpr Named<Activation> kActivations[] = {
    {Activation::kNone, "none"},     {Activation::kRelu, "relu"},     {Activation::kGelu, "gelu"},
    {Activation::kSilu, "silu"},     {Activation::kQGelu, "qgelu"},   {Activation::kSRelu, "srelu"},
    {Activation::kDRelu, "drelu"},   {Activation::kDGelu, "dgelu"},   {Activation::kDSilu, "dsilu"},
    {Activation::kDQGelu, "dqgelu"}, {Activation::kDSRelu, "dsrelu"},
};

// The yes/no fields, in the order of the name; the bits of the id follow one another from
// kFirstFlagBit.
constexpr bool QuantizeConfig::* kFlags[] = {
    &QuantizeConfig::rowwise,    &QuantizeConfig::colwise,
    &QuantizeConfig::swizzled,   &QuantizeConfig::with_amax,
    &QuantizeConfig::with_dbias, &QuantizeConfig::with_dact,
    &QuantizeConfig::with_act,   &QuantizeConfig::use_2d_quantization,
};
constexpr int kFirstFlagBit = 16;

// Empty if the table does not have `value`.
template <typename T, size_t n>
std::string_view NameOf(const Named<T> (&table)[n], T value) {
  for (const Named<T>& entry : table) {
    if (entry.value == value) return entry.name;
  }
  return {};
}

bool Consume(std::string_view& text, std::string_view token) {
  if (text.substr(0, token.size()) != token) return false;
  text.remove_prefix(token.size());
  return true;
}

// Reads "_<name>" of one entry of the table; no name begins with another.
template <typename T, size_t n>
bool Parse(std::string_view& text, const Named<T> (&table)[n], T& value) {
  if (!Consume(text, "_")) return false;
  for (const Named<T>& entry : table) {
    if (Consume(text, entry.name)) {
      value = entry.value;
      return true;
    }
  }
  return false;
}

bool Parse(std::string_view& text, bool& value) {
  value = text.substr(0, 2) == "_1";
  return Consume(text, value ? "_1" : "_0");
}

bool HasLegalFusion(const QuantizeConfig& c) {
  if (c.with_act) return IsForward(c.activation) && !c.with_dact && !c.with_dbias;
  if (c.with_dact) return IsDerivative(c.activation);
  return c.activation == Activation::kNone;
}

}  // namespace

const char* ActivationName(Activation activation) {
  const std::string_view name = NameOf(kActivations, activation);
  return name.empty() ? "unknown" : name.data();
}

std::optional<Activation> ActivationFromName(std::string_view name) {
  for (const Named<Activation>& entry : kActivations) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

uint32_t QuantizeConfig::Id() const {
  uint32_t id = static_cast<uint32_t>(dtype) | static_cast<uint32_t>(fp8_dtype) << 8 |
                static_cast<uint32_t>(activation) << 24;
  int bit = kFirstFlagBit;
  for (bool QuantizeConfig::* flag : kFlags) id |= static_cast<uint32_t>(this->*flag) << bit++;
  return id;
}

std::string QuantizeConfig::Name() const {
  const std::string_view input_name = NameOf(kInputTypes, dtype);
  const std::string_view fp8_name = NameOf(kFp8Types, fp8_dtype);
  const std::string_view activation_name = NameOf(kActivations, activation);
  if (input_name.empty() || fp8_name.empty() || activation_name.empty()) return {};
  std::string name(kPrefix);
  name.append("_").append(input_name).append("_").append(fp8_name);
  for (bool QuantizeConfig::* flag : kFlags) name += this->*flag ? "_1" : "_0";
  return name.append("_").append(activation_name);
}

bool QuantizeConfig::IsLegal() const {
  const bool is_input_type =
      dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  const bool is_fp8_type = fp8_dtype == DType::kFloat8E4M3 || fp8_dtype == DType::kFloat8E5M2;
  return is_input_type && is_fp8_type && (rowwise || colwise) && !use_2d_quantization &&
         HasLegalFusion(*this);
}

std::optional<QuantizeConfig> QuantizeConfig::FromId(uint32_t id) {
  QuantizeConfig config;
  config.dtype = static_cast<DType>(id & 0xFF);
  config.fp8_dtype = static_cast<DType>(id >> 8 & 0xFF);
  config.activation = static_cast<Activation>(id >> 24);
  int bit = kFirstFlagBit;
  for (bool QuantizeConfig::* flag : kFlags) config.*flag = (id >> bit++ & 1) != 0;
  if (!config.IsLegal()) return std::nullopt;
  return config;
}

std::optional<QuantizeConfig> QuantizeConfig::FromName(std::string_view name) {
  QuantizeConfig config;
  if (!Consume(name, kPrefix) || !Parse(name, kInputTypes, config.dtype) ||
      !Parse(name, kFp8Types, config.fp8_dtype)) {
    return std::nullopt;
  }
  for (bool QuantizeConfig::* flag : kFlags) {
    if (!Parse(name, config.*flag)) return std::nullopt;
  }
  if (!Parse(name, kActivations, config.activation) || !name.empty() || !config.IsLegal()) {
    return std::nullopt;
  }
  return config;
}

std::vector<QuantizeConfig> AllLegalConfigs() {
  std::vector<QuantizeConfig> configs;
  constexpr uint32_t kNumFlagValues = 1u << (sizeof(kFlags) / sizeof(kFlags[0]));
  for (const auto& activation : kActivations) {
    for (uint32_t flags = 0; flags < kNumFlagValues; ++flags) {
      for (const auto& fp8_type : kFp8Types) {
        for (const auto& input_type : kInputTypes) {
          const uint32_t id = static_cast<uint32_t>(activation.value) << 24 |
                              flags << kFirstFlagBit | static_cast<uint32_t>(fp8_type.value) << 8 |
                              static_cast<uint32_t>(input_type.value);
          if (const auto config = QuantizeConfig::FromId(id)) configs.push_back(*config);
        }
      }
    }
  }
  return configs;  // the loops run from the highest bits to the lowest
}

}  // namespace cutedsl_quant
