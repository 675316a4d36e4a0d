// All checks of arguments: what passes is complete and consistent, and nothing after it needs to
// look again.
#ifndef CUTEDSL_QUANT_COMMON_CHECKS_H_
#define CUTEDSL_QUANT_COMMON_CHECKS_H_

#include "common/dequantize_args.h"
#include "common/swizzle_args.h"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/kernel_provider.h"
#include "cutedsl_quant/quantize.h"

namespace cutedsl_quant {

// A call of one of the quantizing functions of quantize.h, with what it takes besides its output.
struct QuantizeRequest {
  const char* function;  // messages begin with it
  const Tensor& input;   // the gradient if there is a derivative
  const QuantizedTensor& output;
  Stream stream;
  const QuantizeOptions* options = nullptr;
  const Activation* activation = nullptr;  // or derivative
  const Tensor* act_input = nullptr;       // with a derivative
  const Tensor* dbias = nullptr;           // with column sums, and then the workspace too
  Tensor* workspace = nullptr;
};

struct QuantizeCall {
  QuantizeConfig config;
  KernelArgs args;  // rows or cols may be zero; dbias_workspace is null if it is asked for
  void* dbias = nullptr;
};

// One element for each direction of the output; rows or cols may be zero.
struct SwizzleCall {
  SwizzleArgs directions[2];
  int count = 0;
};

// All throw InvalidArgument; its message begins with `function`. They read no memory but the views
// themselves.
QuantizeCall CheckQuantize(const QuantizeRequest& request);
DequantizeArgs CheckDequantize(const char* function, const QuantizedTensor& input,
                               const Tensor& output, Stream stream);
// Of SwizzleScales, or UnswizzleScales if not `to_swizzled`.
SwizzleCall CheckSwizzle(const char* function, const QuantizedTensor& input,
                         const QuantizedTensor& output, bool to_swizzled, Stream stream);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_CHECKS_H_
