// The provider of CuTeDSL kernels: packaged ones, and others compiled on first use.
#ifndef CUTEDSL_QUANT_FFI_BRIDGE_CUTEDSL_PROVIDER_H_
#define CUTEDSL_QUANT_FFI_BRIDGE_CUTEDSL_PROVIDER_H_

#include <tvm/ffi/function.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cutedsl_quant/kernel_provider.h"
#include "ffi_bridge/ffi_kernel.h"
#include "ffi_bridge/kernel_cache.h"
#include "ffi_bridge/kernel_package.h"

namespace cutedsl_quant {

// The compute capability under which kernels for host tensors go, in tests.
inline constexpr int32_t kHostCapability = 0;

class CutedslProvider final : public KernelProvider {
 public:
  struct Options {
    // Where packages are looked for; if not given, PackageSearch::Default() when they first are.
    std::optional<PackageSearch> search;
    // For tests: kernels are looked up for host tensors too, with kHostCapability, instead of
    // refusing them.
    bool serve_host_tensors = false;
  };

  // Opens nothing yet: packages are opened by the first Find that needs them.
  explicit CutedslProvider(Options options);

  KernelLookup Find(uint32_t config_id, Device device) noexcept override;

  std::vector<uint32_t> PackagedConfigs(Device device) override;

  // Forgets every reason for having no kernel, failed compilations included. Kernels are kept.
  void Reset() noexcept override;

  // Opens all packages and says what became of them.
  std::vector<KernelPackageIndex::Report> Packages() { return packages_.Reports(); }

 private:
  struct CompiledKernel {
    explicit CompiledKernel(tvm::ffi::Function f);
    tvm::ffi::Function function;
    FfiKernel kernel;
  };

  using Key = std::pair<uint32_t, int32_t>;  // configuration, compute capability

  // Negative: there are no kernels for it.
  int32_t CapabilityOf(Device device) const noexcept;
  KernelLookup Resolve(uint32_t config_id, int32_t compute_capability) noexcept;
  KernelLookup Compile(uint32_t config_id, int32_t compute_capability);

  const bool serve_host_tensors_;
  KernelPackageIndex packages_;
  KernelCache cache_;

  // Guards the two below, which hold every kernel handed out, for good: their elements stay where
  // they are.
  std::mutex mutex_;
  std::map<Key, FfiKernel> packaged_;
  std::map<Key, CompiledKernel> compiled_;
};

// The provider that linking //ffi_bridge installs when the program starts.
CutedslProvider& ProcessProvider();

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_FFI_BRIDGE_CUTEDSL_PROVIDER_H_
