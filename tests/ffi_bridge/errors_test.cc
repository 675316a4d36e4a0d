// With warnings switched on by the environment, which the process reads once: a program of its own.
#include "ffi_bridge/errors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace cutedsl_quant {
namespace {

const bool environment_is_set = setenv("NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN", "1", 1) == 0;

std::string OnStderr(const std::string& message) {
  testing::internal::CaptureStderr();
  RecordError(message);
  return testing::internal::GetCapturedStderr();
}

// Catches a warning that points to an error which is nowhere to be seen, and one a call.
TEST(Errors, AreOnStderrOnceWhereWarningsAre) {
  ASSERT_TRUE(environment_is_set);
  EXPECT_EQ(OnStderr("no luck"), "cutedsl_quant: no luck\n");
  EXPECT_EQ(OnStderr("no luck"), "");
  EXPECT_EQ(OnStderr("none again"), "cutedsl_quant: none again\n");
}

}  // namespace
}  // namespace cutedsl_quant
