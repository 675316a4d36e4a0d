// Loading kernels ahead of the first call, with a kernel provider made for the purpose.
#include "common/preload.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/reference/reference.h"
#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/quantize.h"
#include "tests/common/guarded_bytes.h"

namespace cutedsl_quant {
namespace {

// Does what a kernel of the configuration does, with the same memory.
class ReferenceKernel : public Kernel {
 public:
  bool Launch(const QuantizeConfig& config, const KernelArgs& args) const noexcept override {
    launched.push_back(config.Id());
    reference::Quantize(config, args);
    return true;
  }
  mutable std::vector<uint32_t> launched;
};

class Provider : public KernelProvider {
 public:
  KernelLookup Find(uint32_t config_id, Device) noexcept override {
    asked.push_back(config_id);
    return answer;
  }
  std::vector<uint32_t> PackagedConfigs(Device) override { return packaged; }
  void Reset() noexcept override {}

  std::vector<uint32_t> packaged;
  std::vector<uint32_t> asked;
  KernelLookup answer;
};

// Catches a kernel that is left out, one that is not packaged and would be compiled, an argument
// that its configuration needs, and a write beyond the scratch memory.
TEST(PreloadTest, LaunchesEveryPackagedKernelOnce) {
  for (const int64_t rows : {1, 130}) {
    ReferenceKernel kernel;
    Provider provider;
    provider.answer = {&kernel, MissReason::kNone};
    for (const QuantizeConfig& config : AllLegalConfigs()) {
      provider.packaged.push_back(config.Id());
    }
    GuardedBytes scratch(PreloadScratchBytes(rows));
    LaunchPackagedKernels(&provider, Device(), rows, scratch.data(), nullptr);
    EXPECT_EQ(provider.asked, provider.packaged);
    EXPECT_EQ(kernel.launched, provider.packaged);
    EXPECT_TRUE(scratch.guards_intact());
  }
}

// Catches a crash on a kernel that is gone, or on an id of another version.
TEST(PreloadTest, PassesOverWhatIsNotThere) {
  Provider provider;
  provider.answer = {nullptr, MissReason::kPackageRejected};
  provider.packaged = {AllLegalConfigs().front().Id(), 0xFFFFFFFFu};
  LaunchPackagedKernels(&provider, Device(), 1, nullptr, nullptr);
  EXPECT_EQ(provider.asked, std::vector<uint32_t>{provider.packaged.front()});
}

// Catches a warm-up that touches CUDA for the host, and one that fails silently.
TEST(PreloadTest, NeedsTheDeviceThatItIsFor) {
  EXPECT_NO_THROW(PreloadKernels(Device()));
  int device = 0;
  if (cudaGetDevice(&device) == cudaSuccess) GTEST_SKIP() << "there is a GPU";
  EXPECT_THROW(PreloadKernels({DeviceType::kCuda, 0}), CudaError);
}

}  // namespace
}  // namespace cutedsl_quant
