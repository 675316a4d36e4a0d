#include "common/environment.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace cutedsl_quant {
namespace {

std::map<std::string, std::string> variables;

const char* Lookup(const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second.c_str();
}

// Catches a changed default, a value taken for another, and a bad value that does more than be
// reported.
TEST(EnvironmentTest, Switches) {
  const struct {
    std::map<std::string, std::string> set;
    BackendMode mode;
    bool warn;
    size_t num_complaints;
  } cases[] = {
      {{}, BackendMode::kPackaged, false, 0},
      {{{"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", ""}}, BackendMode::kPackaged, false, 0},
      {{{"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", "0"}}, BackendMode::kOff, false, 0},
      {{{"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", "1"}}, BackendMode::kJit, false, 0},
      {{{"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", "2"}}, BackendMode::kPackaged, false, 1},
      {{{"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", "-1"}}, BackendMode::kPackaged, false, 1},
      {{{"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", "01"}}, BackendMode::kPackaged, false, 1},
      {{{"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", " 1"}}, BackendMode::kPackaged, false, 1},
      {{{"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", "yes"}}, BackendMode::kPackaged, false, 1},
      {{{"NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN", "0"}}, BackendMode::kPackaged, false, 0},
      {{{"NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN", "1"}}, BackendMode::kPackaged, true, 0},
      {{{"NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN", "true"}}, BackendMode::kPackaged, false, 1},
      {{{"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", "on"},
        {"NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN", "on"}},
       BackendMode::kPackaged,
       false,
       2},
      {{{"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", "x"},
        {"NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN", "1"}},
       BackendMode::kPackaged,
       true,
       1},
  };
  for (const auto& c : cases) {
    variables = c.set;
    std::string shown;
    for (const auto& [name, value] : c.set) shown += name + "=" + value + " ";
    std::vector<std::string> complaints;
    const Environment environment = ParseEnvironment(Lookup, &complaints);
    EXPECT_EQ(environment.backend_mode, c.mode) << shown;
    EXPECT_EQ(environment.warn_if_not_chosen, c.warn) << shown;
    EXPECT_EQ(complaints.size(), c.num_complaints) << shown;
  }
}

// Catches a complaint that leaves the reader without the variable, the value or what to write
// instead.
TEST(EnvironmentTest, ComplaintsNameVariableValueAndAcceptedValues) {
  variables = {{"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", "maybe"}};
  std::vector<std::string> complaints;
  ParseEnvironment(Lookup, &complaints);
  ASSERT_EQ(complaints.size(), 1u);
  for (const char* piece : {"NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", "maybe", "0 and 1"}) {
    EXPECT_NE(complaints[0].find(piece), std::string::npos) << complaints[0];
  }
}

// Catches empty entries, which a loader would take for the current folder.
TEST(EnvironmentTest, KernelPath) {
  const struct {
    const char* value;
    std::vector<std::string> entries;
  } cases[] = {
      {"", {}}, {":", {}}, {"/a", {"/a"}}, {"/a:b c", {"/a", "b c"}}, {":/a::/b:", {"/a", "/b"}},
  };
  for (const auto& c : cases) {
    variables = {{"CUTEDSL_QUANT_KERNEL_PATH", c.value}};
    std::vector<std::string> complaints;
    EXPECT_EQ(ParseEnvironment(Lookup, &complaints).kernel_path, c.entries) << c.value;
    EXPECT_TRUE(complaints.empty());
  }
}

// Catches a variable read on every call, and a bad value reported on every call.
TEST(EnvironmentTest, TheProcessParsesAndReportsOnce) {
  setenv("NVTE_ENABLE_CUTEDSL_QUANT_BACKEND", "sure", 1);
  setenv("NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN", "1", 1);
  testing::internal::CaptureStderr();
  const Environment& environment = GetEnvironment();
  setenv("NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN", "0", 1);
  EXPECT_EQ(&GetEnvironment(), &environment);
  EXPECT_TRUE(environment.warn_if_not_chosen);
  EXPECT_EQ(environment.backend_mode, BackendMode::kPackaged);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "cutedsl_quant: NVTE_ENABLE_CUTEDSL_QUANT_BACKEND=\"sure\" is ignored: 0 and 1 are "
            "accepted\n");
}

}  // namespace
}  // namespace cutedsl_quant
