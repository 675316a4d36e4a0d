#include "ffi_bridge/compute_capability.h"

#include <cuda_runtime_api.h>

#include <atomic>

namespace cutedsl_quant {
namespace {

int32_t Query(int32_t device_index) {
  int major = 0, minor = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_index) !=
          cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device_index) !=
          cudaSuccess) {
    cudaGetLastError();  // not the error of whatever the caller does next
    return -1;
  }
  return 10 * major + minor;
}

}  // namespace

int32_t ComputeCapability(int32_t device_index) noexcept {
  constexpr int32_t kMaxCached = 64;               // devices beyond are asked every time
  static std::atomic<int32_t> cached[kMaxCached];  // 0: not asked yet
  if (device_index < 0 || device_index >= kMaxCached) return Query(device_index);
  int32_t capability = cached[device_index].load(std::memory_order_relaxed);
  if (capability == 0) {
    capability = Query(device_index);
    if (capability > 0) cached[device_index].store(capability, std::memory_order_relaxed);
  }
  return capability;
}

}  // namespace cutedsl_quant
