/* The counters from C: a header that only C++ can read, or a name that changes, breaks bindings. */
#include <stdio.h>
#include <string.h>

#include "cutedsl_quant/stats.h"

static const char* const kNames[] = {
    "calls.cutedsl",
    "calls.cuda",
    "calls.reference",
    "misses.disabled",
    "misses.no_provider",
    "misses.host_tensor",
    "misses.unsupported_config",
    "misses.shape",
    "misses.alignment",
    "misses.no_package",
    "misses.package_rejected",
    "misses.architecture",
    "misses.not_packaged",
    "misses.no_factory",
    "misses.compile_failed",
    "misses.launch_failed",
};
enum { kCount = sizeof(kNames) / sizeof(kNames[0]) };

static int failures = 0;

static void Expect(int condition, const char* what) {
  if (!condition) {
    fprintf(stderr, "FAILED: %s\n", what);
    ++failures;
  }
}

int main(void) {
  CutedslQuantCounter counters[kCount + 1];
  memset(counters, 0xFF, sizeof(counters));
  cutedsl_quant_reset_stats();
  Expect(cutedsl_quant_stats(NULL, 0) == kCount, "the number of counters");
  Expect(cutedsl_quant_stats(counters, kCount + 1) == kCount, "the number of counters, again");
  for (int i = 0; i < kCount; ++i) {
    Expect(strcmp(counters[i].name, kNames[i]) == 0, kNames[i]);
    Expect(counters[i].count == 0, kNames[i]);
  }
  memset(counters, 0xFF, sizeof(counters));
  cutedsl_quant_stats(counters, 1);
  Expect(counters[0].count == 0 && counters[1].count == UINT64_MAX,
         "no more than the capacity is written");
  return failures != 0;
}
