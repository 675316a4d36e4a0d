// A cast on host tensors, small and aligned, to see who serves it.
#ifndef CUTEDSL_QUANT_TESTS_FFI_BRIDGE_HOST_CALL_H_
#define CUTEDSL_QUANT_TESTS_FFI_BRIDGE_HOST_CALL_H_

#include <cstdint>

#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/quantize.h"

namespace cutedsl_quant {

// One rowwise e4m3 cast of 32 x 64 zeros of `dtype`.
class HostCall {
 public:
  explicit HostCall(DType dtype) : dtype_(dtype) {}

  // Quantizes; the first byte of the data, which is a kernel's mark, or 0 from the reference.
  uint8_t Run() {
    Quantize(Tensor(input_, dtype_, {}, {kRows, kCols}), Output(), {}, nullptr);
    return data_[0];
  }

  QuantizedTensor Output() {
    QuantizedTensor output;
    output.rowwise_data = Tensor(data_, DType::kFloat8E4M3, {}, {kRows, kCols});
    output.rowwise_scale_inv = Tensor(scales_, DType::kFloat8E8M0, {}, {kRows, kCols / 32});
    return output;
  }

 private:
  static constexpr int64_t kRows = 32, kCols = 64;
  const DType dtype_;
  alignas(64) float input_[kRows * kCols] = {};
  alignas(64) uint8_t data_[kRows * kCols] = {};
  alignas(64) uint8_t scales_[kRows * kCols / 32] = {};
};

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_FFI_BRIDGE_HOST_CALL_H_
