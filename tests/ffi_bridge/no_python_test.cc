// A C++ program that links //ffi_bridge and a kernel package, and has no interpreter: the kernel
// runs, and nothing of Python is in the process.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "ffi_bridge/cutedsl_provider.h"
#include "tests/ffi_bridge/fake_manifest.h"
#include "tests/ffi_bridge/host_call.h"
#include "tests/ffi_bridge/package_files.h"

namespace cutedsl_quant {
namespace {

// Linking is enough: without the static initialiser every call would silently be the fallback's.
TEST(NoPython, LinkingTheBridgeInstallsItsProvider) {
  KernelProvider* const installed = SetKernelProvider(nullptr);
  EXPECT_EQ(installed, &ProcessProvider());
  SetKernelProvider(installed);
}

// The linked package and the one in the environment are both found by default.
TEST(NoPython, FindsLinkedPackageAndEnvironmentPath) {
  TemporaryFolder folder;
  WritePackage(folder / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
  setenv("CUTEDSL_QUANT_KERNEL_PATH", (folder.path() + ":" + (folder / "typo")).c_str(), 1);
  const auto packages = ProcessProvider().Packages();
  ASSERT_EQ(packages.size(), 3u);
  EXPECT_EQ(packages[0].path, folder / "fake.so");
  EXPECT_TRUE(packages[0].verdict.ok()) << packages[0].verdict.message;
  EXPECT_EQ(packages[1].path, folder / "typo");
  EXPECT_EQ(packages[1].verdict.status, PackageStatus::kUnreadable);
  EXPECT_EQ(packages[2].path, "linked:fake");
  EXPECT_TRUE(packages[2].verdict.ok()) << packages[2].verdict.message;
}

// The call itself, through the linked package.
TEST(NoPython, QuantizesThroughALinkedPackage) {
  CutedslProvider::Options options;
  options.search = PackageSearch();
  options.serve_host_tensors = true;
  CutedslProvider provider(options);
  KernelProvider* const installed = SetKernelProvider(&provider);
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), FAKE_FIRST_MARK);
  SetKernelProvider(installed);

  const std::string maps = ReadFile("/proc/self/maps");
  EXPECT_NE(maps.find("libtvm_ffi"), std::string::npos);
  EXPECT_EQ(maps.find("libpython"), std::string::npos);
}

}  // namespace
}  // namespace cutedsl_quant
