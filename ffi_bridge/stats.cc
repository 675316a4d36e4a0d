#include "cutedsl_quant/stats.h"

#include <string>
#include <vector>

#include "cutedsl_quant/backend.h"

namespace cutedsl_quant {
namespace {

struct NamedCounter {
  std::string name;
  bool is_call;
  size_t index;
};

// Never destroyed: callers keep the names.
const std::vector<NamedCounter>& NamedCounters() {
  static const auto* const counters = [] {
    auto* all = new std::vector<NamedCounter>;
    for (size_t i = 0; i < kNumBackends; ++i) {
      all->push_back({std::string("calls.") + BackendName(static_cast<Backend>(i)), true, i});
    }
    for (size_t i = 0; i < kNumMissReasons; ++i) {
      const auto reason = static_cast<MissReason>(i);
      if (reason == MissReason::kNone) continue;
      all->push_back({std::string("misses.") + MissReasonName(reason), false, i});
    }
    return all;
  }();
  return *counters;
}

}  // namespace
}  // namespace cutedsl_quant

size_t cutedsl_quant_stats(CutedslQuantCounter* counters, size_t capacity) {
  const auto& named = cutedsl_quant::NamedCounters();
  const cutedsl_quant::Stats stats = cutedsl_quant::GetStats();
  for (size_t i = 0; i < named.size() && i < capacity; ++i) {
    const auto& counter = named[i];
    counters[i] = {counter.name.c_str(),
                   counter.is_call ? stats.calls[counter.index] : stats.misses[counter.index]};
  }
  return named.size();
}

void cutedsl_quant_reset_stats(void) { cutedsl_quant::ResetStats(); }
