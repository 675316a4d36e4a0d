#include "common/device_guard.h"

#include <cuda_runtime_api.h>

#include "common/cuda_check.h"

namespace cutedsl_quant {

DeviceGuard::DeviceGuard(Device device) {
  if (device.type != DeviceType::kCuda) return;
  int current = 0;
  CheckCuda(cudaGetDevice(&current), "cudaGetDevice");
  if (current == device.index) return;
  CheckCuda(cudaSetDevice(device.index), "cudaSetDevice");
  restore_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (restore_ != kNothingToRestore) cudaSetDevice(restore_);
}

}  // namespace cutedsl_quant
