// A kernel package as a dependency of a C++ program.
#include <gtest/gtest.h>

#include <string>

#include "ffi_bridge/kernel_package_registry.h"

namespace cutedsl_quant {
namespace {

// Would catch a registration that the linker drops, or a library that the program does not find
// when it starts.
TEST(LinkedPackage, IsRegisteredBeforeMain) {
  const auto packages = RegisteredKernelPackages();
  ASSERT_EQ(packages.size(), 2u);
  std::string manifests;
  for (const CutedslQuantKernelPackage* package : packages) {
    EXPECT_EQ(package->abi_version, static_cast<uint32_t>(CUTEDSL_QUANT_KERNEL_ABI_VERSION));
    EXPECT_GE(package->num_kernels, 1u);
    manifests += package->manifest;
  }
  EXPECT_NE(manifests.find("\"name\": \"tests_tools_package\""), std::string::npos);
  EXPECT_NE(manifests.find("\"name\": \"tests_tools_second_package\""), std::string::npos);
}

}  // namespace
}  // namespace cutedsl_quant
