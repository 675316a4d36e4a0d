// With warnings switched on by the environment, which the process reads once: a program of its own.
#include "common/warning.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cutedsl_quant/config.h"
#include "cutedsl_quant/quantize.h"
#include "tests/common/cast_case.h"

namespace cutedsl_quant {
namespace {

const bool environment_is_set = setenv("NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN", "1", 1) == 0;

std::string Warn(const QuantizeConfig& config, MissReason reason,
                 Backend served_by = Backend::kCuda) {
  testing::internal::CaptureStderr();
  WarnNotChosen(config, served_by, reason);
  return testing::internal::GetCapturedStderr();
}

// Catches a warning on every call, and one that hides another reason or configuration.
TEST(WarningTest, OnceForEachReasonAndConfiguration) {
  ASSERT_TRUE(environment_is_set);
  QuantizeConfig one;
  one.rowwise = true;
  QuantizeConfig other = one;
  other.swizzled = true;
  EXPECT_NE(Warn(one, MissReason::kShape), "");
  EXPECT_EQ(Warn(one, MissReason::kShape), "");
  EXPECT_NE(Warn(other, MissReason::kShape), "");
  EXPECT_NE(Warn(one, MissReason::kAlignment), "");
  EXPECT_EQ(Warn(other, MissReason::kShape), "");
}

// Catches a reason without advice, or a warning that takes more or less than a line.
TEST(WarningTest, EachIsOneLineThatNamesConfigurationBackendAndReason) {
  QuantizeConfig config;
  config.colwise = true;
  for (size_t i = 1; i < kNumMissReasons; ++i) {
    const auto reason = static_cast<MissReason>(i);
    const std::string line = Warn(config, reason);
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
    const std::string start = "cutedsl_quant: " + config.Name() + " was served by cuda (" +
                              MissReasonName(reason) + "): ";
    EXPECT_EQ(line.rfind(start, 0), 0u) << line;
    EXPECT_GT(line.size(), start.size() + 20) << "advice: " << line;
  }
}

// Catches advice about shapes, alignment or linking for a tensor that no kernel could serve.
TEST(WarningTest, HostTensorsAreToBeCopied) {
  QuantizeConfig config;
  config.rowwise = config.colwise = true;
  for (MissReason reason : {MissReason::kShape, MissReason::kNoProvider, MissReason::kHostTensor}) {
    const std::string line = Warn(config, reason, Backend::kReference);
    EXPECT_NE(line.find(MissReasonName(reason)), std::string::npos) << line;
    EXPECT_NE(line.find("copy them to a CUDA device"), std::string::npos) << line;
  }
}

// Catches a dispatcher that keeps the reason to itself.
TEST(WarningTest, TheDispatcherWarns) {
  QuantizeConfig config;
  config.dtype = DType::kFloat32;
  config.rowwise = true;
  HostOutput output(config, {1, 16}, false);
  alignas(16) float input[16] = {};
  const Tensor view = HostTensor(input, DType::kFloat32, {1, 16});
  testing::internal::CaptureStderr();
  Quantize(view, output.tensor, {}, nullptr);
  Quantize(view, output.tensor, {}, nullptr);
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find(config.Name() + " was served by reference (no_provider)"), std::string::npos)
      << lines;
  EXPECT_EQ(lines.find('\n'), lines.size() - 1) << lines;
}

}  // namespace
}  // namespace cutedsl_quant
