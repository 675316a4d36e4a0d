// The installed kernel provider, for the dispatcher.
#ifndef CUTEDSL_QUANT_COMMON_PROVIDER_REGISTRY_H_
#define CUTEDSL_QUANT_COMMON_PROVIDER_REGISTRY_H_

#include "cutedsl_quant/kernel_provider.h"

namespace cutedsl_quant {

// What SetKernelProvider installed last; null if nothing.
KernelProvider* GetKernelProvider() noexcept;

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_PROVIDER_REGISTRY_H_
