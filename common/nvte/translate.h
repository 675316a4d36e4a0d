// From TransformerEngine's tensors to those of the native API.
#ifndef CUTEDSL_QUANT_COMMON_NVTE_TRANSLATE_H_
#define CUTEDSL_QUANT_COMMON_NVTE_TRANSLATE_H_

#include <cuda_runtime_api.h>

#include <optional>

#include "common/nvte/handles.h"
#include "cutedsl_quant/quantize.h"

namespace cutedsl_quant {
namespace nvte {

// Whether a call of the CUDA runtime failed because there is nothing to run on.
bool MeansNoGpu(cudaError_t status);

// Where memory lies, which TransformerEngine's tensors do not say. Without a CUDA device, and for
// null: the host.
Device DeviceOf(const void* pointer);

// Whether a tensor has no elements. Then it may have no pointers at all, and there is nothing to
// translate.
bool IsEmpty(const NVTEBasicTensor& view);

// `device` is where the call's tensors must be.
Tensor Translate(const NVTEBasicTensor& view, Device device);

// Leaves `tensor` as it is, not given, if `view` is not allocated. In place, like Operands: a
// Tensor is 160 bytes, and to make and copy a handful takes longer than the rest of a translation.
void TranslateIfAllocated(const NVTEBasicTensor& view, Device device, Tensor* tensor);

// Throws InvalidArgument, naming `function` and `name`, if the tensor is of another kind.
void CheckIsMxfp8(const char* function, const char* name, const TensorHandle& handle);

// The directions whose data is allocated. Throws what CheckIsMxfp8 throws.
QuantizedTensor TranslateQuantized(const char* function, const char* name,
                                   const TensorHandle& handle, Device device);

// What a function quantizes, and into what.
struct Operands {
  Operands(const char* function, const NVTEBasicTensor& input, const TensorHandle& output,
           Device device)
      : input(Translate(input, device)),
        output(TranslateQuantized(function, "output", output, device)) {}

  Tensor input;
  QuantizedTensor output;
};

// None if input and output are empty. Throws InvalidArgument for null handles and what CheckIsMxfp8
// throws; `input_name` is the input's name in messages.
std::optional<Operands> TranslateOperands(const char* function, const char* input_name,
                                          NVTETensor input, NVTETensor output);

}  // namespace nvte
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_NVTE_TRANSLATE_H_
