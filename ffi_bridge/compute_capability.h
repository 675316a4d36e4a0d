// The compute capability of CUDA devices, as a number like 90 or 103.
#ifndef CUTEDSL_QUANT_FFI_BRIDGE_COMPUTE_CAPABILITY_H_
#define CUTEDSL_QUANT_FFI_BRIDGE_COMPUTE_CAPABILITY_H_

#include <cstdint>

namespace cutedsl_quant {

// Asks the driver once per device; lock-free after that. -1 if there is no such device or CUDA
// fails.
int32_t ComputeCapability(int32_t device_index) noexcept;

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_FFI_BRIDGE_COMPUTE_CAPABILITY_H_
