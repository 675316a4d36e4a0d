// What the tests say about TransformerEngine's own kernels; see Python.h.
#ifndef CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_CAST_MXFP8_QUANTIZE_MXFP8_CUTEDSL_CONFIG_H_
#define CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_CAST_MXFP8_QUANTIZE_MXFP8_CUTEDSL_CONFIG_H_

#include <string>

#include "transformer_engine/transformer_engine.h"

namespace transformer_engine {
namespace cutedsl_backend {

enum class Activation {
  kNone,
  kReLU,
  kGeLU,
  kSiLU,
  kQGeLU,
  kSReLU,
  kDReLU,
  kDGeLU,
  kDSiLU,
  kDQGeLU,
  kDSReLU,
};

struct MXFP8QuantConfig {
  DType dtype;
  DType fp8_dtype;
  bool rowwise;
  bool colwise;
  bool swizzled;
  bool with_amax;
  bool with_dbias;
  bool with_dact;
  bool with_act;
  bool use_2d_quantization;
  Activation activation;

  std::string to_key() const { return "a kernel of TransformerEngine"; }
};

}  // namespace cutedsl_backend

// Where the enumeration was in earlier versions.
namespace tvm_ffi_bridge {
using cutedsl_backend::Activation;
}  // namespace tvm_ffi_bridge

}  // namespace transformer_engine

#endif  // CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_CAST_MXFP8_QUANTIZE_MXFP8_CUTEDSL_CONFIG_H_
