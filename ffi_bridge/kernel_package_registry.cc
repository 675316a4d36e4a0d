#include "ffi_bridge/kernel_package_registry.h"

#include <algorithm>
#include <mutex>

namespace cutedsl_quant {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<const CutedslQuantKernelPackage*> packages;
};

// Never destroyed: static initialisers and late threads may use it.
Registry& GetRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

}  // namespace

void RegisterKernelPackage(const CutedslQuantKernelPackage* package) {
  if (package == nullptr) return;
  Registry& registry = GetRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto& packages = registry.packages;
  if (std::find(packages.begin(), packages.end(), package) == packages.end()) {
    packages.push_back(package);
  }
}

std::vector<const CutedslQuantKernelPackage*> RegisteredKernelPackages() {
  Registry& registry = GetRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  return registry.packages;
}

}  // namespace cutedsl_quant
