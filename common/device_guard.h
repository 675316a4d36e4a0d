// Makes the device of a call's tensors the current one while it is launched.
#ifndef CUTEDSL_QUANT_COMMON_DEVICE_GUARD_H_
#define CUTEDSL_QUANT_COMMON_DEVICE_GUARD_H_

#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {

// For host tensors it does nothing and does not touch CUDA.
class DeviceGuard {
 public:
  // Throws CudaError if there is no such device.
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  static constexpr int kNothingToRestore = -1;
  int restore_ = kNothingToRestore;
};

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_DEVICE_GUARD_H_
