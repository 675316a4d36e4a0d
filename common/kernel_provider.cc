#include "cutedsl_quant/kernel_provider.h"

#include <atomic>

#include "common/provider_registry.h"

namespace cutedsl_quant {
namespace {

std::atomic<KernelProvider*> installed{nullptr};

}  // namespace

KernelProvider* SetKernelProvider(KernelProvider* provider) {
  return installed.exchange(provider, std::memory_order_acq_rel);
}

KernelProvider* GetKernelProvider() noexcept { return installed.load(std::memory_order_acquire); }

}  // namespace cutedsl_quant
