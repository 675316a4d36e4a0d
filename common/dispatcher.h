// The functions of quantize.h for the layers above, whose own names their callers should read in
// messages.
#ifndef CUTEDSL_QUANT_COMMON_DISPATCHER_H_
#define CUTEDSL_QUANT_COMMON_DISPATCHER_H_

#include "cutedsl_quant/quantize.h"

namespace cutedsl_quant {

// Messages of InvalidArgument begin with `function`; otherwise these are the functions without As.
void QuantizeAs(const char* function, const Tensor& input, const QuantizedTensor& output,
                const QuantizeOptions& options, Stream stream);
void QuantizeActivationAs(const char* function, Activation activation, const Tensor& input,
                          const QuantizedTensor& output, Stream stream);
void QuantizeDActivationAs(const char* function, Activation derivative, const Tensor& grad,
                           const Tensor& act_input, const QuantizedTensor& output, Stream stream);
void QuantizeDbiasAs(const char* function, const Tensor& input, const QuantizedTensor& output,
                     const Tensor& dbias, Tensor* workspace, Stream stream);
void QuantizeDbiasDActivationAs(const char* function, Activation derivative, const Tensor& grad,
                                const Tensor& act_input, const QuantizedTensor& output,
                                const Tensor& dbias, Tensor* workspace, Stream stream);
void DequantizeAs(const char* function, const QuantizedTensor& input, const Tensor& output,
                  Stream stream);
void SwizzleScalesAs(const char* function, const QuantizedTensor& input,
                     const QuantizedTensor& output, Stream stream);
void UnswizzleScalesAs(const char* function, const QuantizedTensor& input,
                       const QuantizedTensor& output, Stream stream);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_DISPATCHER_H_
