// Registers a fake package as generated code does for a linked one.
#include "ffi_bridge/kernel_package_registry.h"

extern "C" const CutedslQuantKernelPackage* linked_fake_package();

namespace {

[[maybe_unused]] const bool registered = [] {
  cutedsl_quant::RegisterKernelPackage(linked_fake_package());
  return true;
}();

}  // namespace
