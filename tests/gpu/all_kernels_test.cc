// Only in the variant of the tests that is linked with every kernel.
#include <gtest/gtest.h>

#include "common/provider_registry.h"
#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/config.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/harness.h"

namespace cutedsl_quant {
namespace testing {
namespace {

class AllKernelsTest : public GpuTest {};

// Finds a configuration that the package lacks, so that the other tests would not expect a CuTeDSL
// kernel for it.
TEST_F(AllKernelsTest, EveryConfigurationIsPackaged) {
  SetBackendMode(BackendMode::kPackaged);
  for (const QuantizeConfig& config : AllLegalConfigs()) {
    const KernelLookup lookup = GetKernelProvider()->Find(config.Id(), kDevice);
    EXPECT_NE(lookup.kernel, nullptr) << config.Name() << ": " << MissReasonName(lookup.reason);
  }
}

}  // namespace
}  // namespace testing
}  // namespace cutedsl_quant
