// A kernel configuration: which of the quantization kernels a call needs. Its 32-bit id is the key
// of every kernel table; its name is the name of the packaged TVM-FFI function.
#ifndef CUTEDSL_QUANT_CONFIG_H_
#define CUTEDSL_QUANT_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {

// Element-wise functions and their derivatives. The values are part of the id.
enum class Activation : uint8_t {
  kNone = 0,
  kRelu = 1,
  kGelu = 2,
  kSilu = 3,
  kQGelu = 4,
  kSRelu = 5,
  kDRelu = 6,
  kDGelu = 7,
  kDSilu = 8,
  kDQGelu = 9,
  kDSRelu = 10,
};

// "none", "relu", ... "dsrelu".
const char* ActivationName(Activation activation);

// The inverse; nullopt for other names.
std::optional<Activation> ActivationFromName(std::string_view name);

// kRelu to kSRelu, and kDRelu to kDSRelu; kNone is neither.
constexpr bool IsForward(Activation a) { return a >= Activation::kRelu && a <= Activation::kSRelu; }
constexpr bool IsDerivative(Activation a) {
  return a >= Activation::kDRelu && a <= Activation::kDSRelu;
}

struct QuantizeConfig {
  DType dtype = DType::kBFloat16;        // of the input: kFloat32, kFloat16 or kBFloat16
  DType fp8_dtype = DType::kFloat8E4M3;  // of the output: kFloat8E4M3 or kFloat8E5M2
  bool rowwise = false;                  // 1x32 blocks along N
  bool colwise = false;                  // 32x1 blocks along M
  bool swizzled = false;                 // scales in the GEMM's 128x4 tiles instead of compact
  bool with_amax = false;                // global amax
  bool with_dbias = false;               // column sums
  bool with_dact = false;                // input is a gradient: times activation'(act_input)
  bool with_act = false;                 // output = quantize(activation(input))
  bool use_2d_quantization = false;      // 32x32 blocks
  Activation activation = Activation::kNone;

  // bits 0-7 dtype, 8-15 fp8_dtype, 16 rowwise, 17 colwise, 18 swizzled, 19 amax, 20 dbias,
  // 21 dact, 22 act, 23 2d, 24-31 activation.
  uint32_t Id() const;
  // cutedsl_mxfp8_<dtype>_<fp8> followed by the other fields, _0 or _1 each, and _<activation>,
  // e.g. "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none". Empty if a type has no name.
  std::string Name() const;
  // Whether a CuTeDSL kernel exists for it: 1224 configurations. (2-D blocks are the CUDA
  // fallback's alone.)
  bool IsLegal() const;
  // Whether nothing is fused with the cast (but for the global amax).
  bool IsCast() const { return !with_dbias && !with_dact && !with_act; }

  // Inverses of Id() and Name(); nullopt unless given the encoding of a legal configuration.
  static std::optional<QuantizeConfig> FromId(uint32_t id);
  static std::optional<QuantizeConfig> FromName(std::string_view name);
};

// All legal configurations, in ascending order of id.
std::vector<QuantizeConfig> AllLegalConfigs();

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_CONFIG_H_
