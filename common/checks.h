// All checks of arguments: what passes is complete and consistent, and nothing after it needs to
// look again.
#ifndef CUTEDSL_QUANT_COMMON_CHECKS_H_
#define CUTEDSL_QUANT_COMMON_CHECKS_H_

#include "common/dequantize_args.h"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/kernel_provider.h"
#include "cutedsl_quant/quantize.h"

namespace cutedsl_quant {

struct QuantizeCall {
  QuantizeConfig config;
  KernelArgs args;  // rows or cols may be zero
};

// Both throw InvalidArgument; its message begins with `function`. They read no memory but the views
// themselves.
QuantizeCall CheckQuantize(const char* function, const Tensor& input, const QuantizedTensor& output,
                           const QuantizeOptions& options, Stream stream);
DequantizeArgs CheckDequantize(const char* function, const QuantizedTensor& input,
                               const Tensor& output, Stream stream);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CHECKS_H_
