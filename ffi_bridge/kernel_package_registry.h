// Kernel packages linked into the program. Each is registered before main() by a generated object;
// the bridge takes them from here when it first needs a kernel. Apart from the loader, so that a
// package depends on this alone.
#ifndef CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_PACKAGE_REGISTRY_H_
#define CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_PACKAGE_REGISTRY_H_

#include <vector>

#include "ffi_bridge/kernel_package_abi.h"

namespace cutedsl_quant {

// Adds a linked package, which must live as long as the process. Callable from static initialisers
// in any order and from any thread. Nothing of the package is read here: the loader checks it
// later. Null and repeats are ignored.
void RegisterKernelPackage(const CutedslQuantKernelPackage* package);

// All packages registered so far, in the order of their registration.
std::vector<const CutedslQuantKernelPackage*> RegisteredKernelPackages();

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_PACKAGE_REGISTRY_H_
