#include "cutedsl_quant/backend.h"

#include <atomic>

#include "common/counters.h"
#include "common/environment.h"
#include "common/provider_registry.h"

namespace cutedsl_quant {
namespace {

constexpr uint8_t kModeNotSet = 0xFF;
std::atomic<uint8_t> mode_set{kModeNotSet};

// Threads are spread over several sets of counters, so that they do not pass one cache line around
// on every call.
struct alignas(64) Counters {
  std::atomic<uint64_t> calls[kNumBackends];
  std::atomic<uint64_t> misses[kNumMissReasons];
};
constexpr unsigned kNumCounterSets = 16;
Counters counter_sets[kNumCounterSets];

Counters& CountersOfThread() {
  static std::atomic<unsigned> next{0};
  thread_local const unsigned index =
      next.fetch_add(1, std::memory_order_relaxed) % kNumCounterSets;
  return counter_sets[index];
}

}  // namespace

const char* BackendName(Backend backend) {
  switch (backend) {
    case Backend::kCutedsl:
      return "cutedsl";
    case Backend::kCuda:
      return "cuda";
    case Backend::kReference:
      return "reference";
  }
  return "unknown";
}

const char* MissReasonName(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      return "none";
    case MissReason::kDisabled:
      return "disabled";
    case MissReason::kNoProvider:
      return "no_provider";
    case MissReason::kHostTensor:
      return "host_tensor";
    case MissReason::kUnsupportedConfig:
      return "unsupported_config";
    case MissReason::kShape:
      return "shape";
    case MissReason::kAlignment:
      return "alignment";
    case MissReason::kNoPackage:
      return "no_package";
    case MissReason::kPackageRejected:
      return "package_rejected";
    case MissReason::kArchitecture:
      return "architecture";
    case MissReason::kNotPackaged:
      return "not_packaged";
    case MissReason::kNoFactory:
      return "no_factory";
    case MissReason::kCompileFailed:
      return "compile_failed";
    case MissReason::kLaunchFailed:
      return "launch_failed";
  }
  return "unknown";
}

void SetBackendMode(BackendMode mode) {
  mode_set.store(static_cast<uint8_t>(mode), std::memory_order_relaxed);
  if (KernelProvider* provider = GetKernelProvider()) provider->Reset();
}

BackendMode GetBackendMode() {
  const uint8_t mode = mode_set.load(std::memory_order_relaxed);
  return mode == kModeNotSet ? GetEnvironment().backend_mode : static_cast<BackendMode>(mode);
}

void CountCall(Backend backend, MissReason reason) noexcept {
  Counters& counters = CountersOfThread();
  counters.calls[static_cast<size_t>(backend)].fetch_add(1, std::memory_order_relaxed);
  if (reason != MissReason::kNone) {
    counters.misses[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }
}

Stats GetStats() {
  Stats stats;
  for (const Counters& counters : counter_sets) {
    for (size_t i = 0; i < kNumBackends; ++i) {
      stats.calls[i] += counters.calls[i].load(std::memory_order_relaxed);
    }
    for (size_t i = 0; i < kNumMissReasons; ++i) {
      stats.misses[i] += counters.misses[i].load(std::memory_order_relaxed);
    }
  }
  return stats;
}

void ResetStats() {
  for (Counters& counters : counter_sets) {
    for (auto& count : counters.calls) count.store(0, std::memory_order_relaxed);
    for (auto& count : counters.misses) count.store(0, std::memory_order_relaxed);
  }
}

}  // namespace cutedsl_quant
