#include "common/device_guard.h"

#include <cuda_runtime_api.h>

#include <string>

#include "common/cuda_check.h"

namespace cutedsl_quant {

DeviceGuard::DeviceGuard(Device device) {
  if (device.type != DeviceType::kCuda) return;
  int current = 0;
  CheckCuda(cudaGetDevice(&current), "cudaGetDevice");
  if (current == device.index) return;
  const cudaError_t status = cudaSetDevice(device.index);
  if (status != cudaSuccess) {
    CheckCuda(status, ("cudaSetDevice(" + std::to_string(device.index) + ")").c_str());
  }
  restore_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (restore_ != kNothingToRestore) cudaSetDevice(restore_);
}

}  // namespace cutedsl_quant
