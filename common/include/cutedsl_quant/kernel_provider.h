// The one seam between the dispatcher and whoever has kernels: a table that is asked by
// configuration and device.
#ifndef CUTEDSL_QUANT_KERNEL_PROVIDER_H_
#define CUTEDSL_QUANT_KERNEL_PROVIDER_H_

#include <cstdint>
#include <vector>

#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {

// A scale buffer as it lies in memory: rows x cols bytes, row-major (for swizzled scales, the
// padded extent).
struct ScaleView {
  uint8_t* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
};

// A checked call, every tensor flattened to two dimensions. Outputs not asked for are null.
struct KernelArgs {
  int64_t rows = 0;                 // M > 0
  int64_t cols = 0;                 // N > 0
  const void* input = nullptr;      // M x N of config.dtype
  const void* act_input = nullptr;  // M x N of config.dtype
  uint8_t* rowwise_data = nullptr;  // M x N of config.fp8_dtype
  ScaleView rowwise_scale_inv;
  uint8_t* columnwise_data = nullptr;  // M x N of config.fp8_dtype
  ScaleView columnwise_scale_inv;
  float* amax = nullptr;
  float* dbias_workspace = nullptr;  // dbias_workspace_rows x N partial sums
  int64_t dbias_workspace_rows = 0;
  const float* noop = nullptr;
  Device device;
  Stream stream = nullptr;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Launches on args.stream, args.device being current. False: nothing was launched.
  virtual bool Launch(const QuantizeConfig& config, const KernelArgs& args) const noexcept = 0;
};

struct KernelLookup {
  const Kernel* kernel = nullptr;         // lives as long as the provider
  MissReason reason = MissReason::kNone;  // why kernel is null
};

// Called on the hot path from many threads at once: once warm, Find must neither allocate nor lock.
class KernelProvider {
 public:
  virtual ~KernelProvider() = default;
  virtual KernelLookup Find(uint32_t config_id, Device device) noexcept = 0;
  // Ids of the configurations that Find answers with a packaged kernel on `device`.
  virtual std::vector<uint32_t> PackagedConfigs(Device device) = 0;
  // SetBackendMode was called: forget failures that may pass.
  virtual void Reset() noexcept = 0;
};

// Installs the provider of the process (null: none) and returns the one before. It must outlive all
// later calls.
KernelProvider* SetKernelProvider(KernelProvider* provider);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_KERNEL_PROVIDER_H_
