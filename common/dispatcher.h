// The functions of quantize.h for the layers above, whose own names their callers should read in
// messages.
#ifndef CUTEDSL_QUANT_COMMON_DISPATCHER_H_
#define CUTEDSL_QUANT_COMMON_DISPATCHER_H_

#include "cutedsl_quant/quantize.h"

namespace cutedsl_quant {

// Like Quantize and Dequantize; messages of InvalidArgument begin with `function`.
void QuantizeAs(const char* function, const Tensor& input, const QuantizedTensor& output,
                const QuantizeOptions& options, Stream stream);
void DequantizeAs(const char* function, const QuantizedTensor& input, const Tensor& output,
                  Stream stream);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_DISPATCHER_H_
