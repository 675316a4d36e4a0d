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

// One package and one path that does not exist, set before anything can ask for the environment.
const std::string& PackageFolder() {
  static const TemporaryFolder folder;
  static const int failed = [] {
    WritePackage(folder / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
    const std::string path = folder.path() + ":" + (folder / "typo");
    return setenv("CUTEDSL_QUANT_KERNEL_PATH", path.c_str(), 1);
  }();
  EXPECT_EQ(failed, 0);
  return folder.path();
}
[[maybe_unused]] const std::string& environment_is_set = PackageFolder();

// Linking is enough: without the static initialiser every call would silently be the fallback's.
TEST(NoPython, LinkingTheBridgeInstallsItsProvider) {
  KernelProvider* const installed = SetKernelProvider(nullptr);
  EXPECT_EQ(installed, &ProcessProvider());
  SetKernelProvider(installed);
}

// The linked package and the one in the environment are both found by default.
TEST(NoPython, FindsLinkedPackageAndEnvironmentPath) {
  const auto packages = ProcessProvider().Packages();
  ASSERT_EQ(packages.size(), 3u);
  EXPECT_EQ(packages[0].path, PackageFolder() + "/fake.so");
  EXPECT_TRUE(packages[0].verdict.ok()) << packages[0].verdict.message;
  EXPECT_EQ(packages[1].path, PackageFolder() + "/typo");
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
