#include "tests/gpu/harness.h"

#include <cinttypes>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "common/provider_registry.h"
#include "tests/gpu/gpu.h"

namespace cutedsl_quant {
namespace testing {
namespace {

struct Counts {
  std::set<uint32_t> configs[kNumBackends];
  std::set<std::string> shapes;
  std::set<ValueClass> value_classes;
  uint64_t calls[kNumBackends] = {};
  uint64_t noop_calls = 0;
  uint64_t dequantizations = 0;
  uint64_t bytes = 0;
  std::map<DType, Closeness> closeness;
};
Counts g_counts;

class PrintCounts : public ::testing::Environment {
 public:
  void TearDown() override {
    printf("Compared with the CPU reference: %zu shapes x %zu value classes\n",
           g_counts.shapes.size(), g_counts.value_classes.size());
    for (Backend backend : {Backend::kCutedsl, Backend::kCuda}) {
      const auto i = static_cast<size_t>(backend);
      printf("  %8" PRIu64 " calls by %s, %zu configurations\n", g_counts.calls[i],
             BackendName(backend), g_counts.configs[i].size());
    }
    printf("  %8" PRIu64 " calls with noop, %" PRIu64 " dequantizations; %.1f GB in all\n",
           g_counts.noop_calls, g_counts.dequantizations,
           static_cast<double>(g_counts.bytes) * 1e-9);
    printf("Bit for bit, but for functions with exponentials, where there differ\n");
    for (const auto& [dtype, closeness] : g_counts.closeness) {
      printf("  %-8s %s\n", DTypeName(dtype), closeness.Summary().c_str());
    }
  }
};
const auto* const g_print_counts = ::testing::AddGlobalTestEnvironment(new PrintCounts);

void Count(const Shape& shape, const Call& call, Backend backend) {
  g_counts.configs[static_cast<int>(backend)].insert(call.config.Id());
  g_counts.shapes.insert(shape.Name());
  ++g_counts.calls[static_cast<int>(backend)];
  g_counts.noop_calls += call.noop.has_value();
  g_counts.bytes +=
      static_cast<uint64_t>(shape.m() * shape.n()) * (call.config.rowwise + call.config.colwise);
}

// Whether another backend served the call, or this one for another reason.
std::string CheckRoute(const Route& route, const Stats& stats) {
  if (stats.calls[static_cast<int>(route.backend)] == 1 &&
      (route.reason == MissReason::kNone || stats.misses[static_cast<int>(route.reason)] == 1)) {
    return "";
  }
  std::string failure = std::string("  not served by ") + BackendName(route.backend) +
                        " for the reason " + MissReasonName(route.reason) + "; reasons counted:";
  for (size_t i = 0; i < kNumMissReasons; ++i) {
    if (stats.misses[i] != 0) {
      failure += std::string(" ") + MissReasonName(static_cast<MissReason>(i));
    }
  }
  return failure + "\n";
}

bool IsPackaged(const QuantizeConfig& config) {
  SetBackendMode(BackendMode::kPackaged);
  return GetKernelProvider()->Find(config.Id(), kDevice).reason != MissReason::kNotPackaged;
}

}  // namespace

void CountValueClass(ValueClass value_class) { g_counts.value_classes.insert(value_class); }

void CountDequantization(uint64_t bytes) {
  ++g_counts.dequantizations;
  g_counts.bytes += bytes;
}

void CountCloseness(DType dtype, const Closeness& closeness) {
  g_counts.closeness[dtype].Add(closeness);
}

void GpuTest::SetUp() {
  const std::string reason = WhyNoGpu();
  if (!reason.empty() && GpuIsRequired()) {
    FAIL() << reason << ", and CUTEDSL_QUANT_REQUIRE_GPU is 1";
  }
  if (!reason.empty()) GTEST_SKIP() << reason;
  mode_ = GetBackendMode();
}

void GpuTest::TearDown() {
  if (mode_) SetBackendMode(*mode_);
}

std::vector<Route> RoutesOf(const Shape& shape, const Call& call) {
  const QuantizeConfig& config = call.config;
  const auto choice = [&]() -> Route {
    const auto fallback = [](MissReason reason) {
      return Route{BackendMode::kPackaged, Backend::kCuda, reason};
    };
    if (!config.IsLegal()) return fallback(MissReason::kUnsupportedConfig);
    if (shape.n() % 16 != 0) return fallback(MissReason::kShape);
    const int64_t element = ElementSize(config.dtype);
    const int64_t offsets = shape.input_offset * element | shape.output_offset |
                            (config.with_dact ? shape.act_input_offset * element : 0);
    if (offsets % 16 != 0) return fallback(MissReason::kAlignment);
    if (!config.IsCast() && !IsPackaged(config)) return fallback(MissReason::kNotPackaged);
    return {BackendMode::kPackaged, Backend::kCutedsl, MissReason::kNone};
  };
  return {{BackendMode::kOff, Backend::kCuda, MissReason::kDisabled}, choice()};
}

bool RunAndCompare(CallBuffers& buffers, const Shape& shape, const Call& call, const Route& route,
                   const ExpectedBytes& expected, Closeness* closeness) {
  // A start value below every result, an ordinary one, one above every finite result.
  constexpr float kStarts[] = {-1.0f, 0.0f, 3.4e38f};
  static size_t turn = 0;
  const float amax_start = kStarts[turn++ % std::size(kStarts)];

  SetBackendMode(route.mode);
  buffers.Prepare(call, amax_start, nullptr);
  std::string failure;
  try {
    if (call.config.with_dbias) failure += buffers.CheckWorkspaceQuery(call);
    ResetStats();
    buffers.Launch(call, nullptr);
    CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(nullptr));
    if (!shape.empty()) failure += CheckRoute(route, GetStats());
    failure += buffers.Check(call, expected, amax_start, closeness);
    if (call.config.with_dbias) {
      const std::vector<uint8_t> dbias = buffers.dbias().Download();
      buffers.Launch(call, nullptr);
      CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(nullptr));
      if (buffers.dbias().Download() != dbias) failure += "  dbias differs from run to run\n";
    }
  } catch (const std::exception& error) {
    failure += std::string("  threw: ") + error.what() + "\n";
  }
  Count(shape, call, route.backend);
  if (failure.empty()) return true;
  ADD_FAILURE() << call.Name() << " of " << shape.Name() << " by " << BackendName(route.backend)
                << ":\n"
                << failure;
  return false;
}

}  // namespace testing
}  // namespace cutedsl_quant
