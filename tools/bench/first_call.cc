#include <cuda_runtime_api.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/cuda_check.h"
#include "tools/bench/buffer_sets.h"
#include "tools/bench/measure.h"
#include "tools/bench/parts.h"

#define CUTEDSL_QUANT_CUDA(call) ::cutedsl_quant::CheckCuda(call, #call)

namespace cutedsl_quant {
namespace bench {

int PrintFirstCall(const Options& options) {
  QuantizeConfig config;
  config.rowwise = config.colwise = true;
  const BufferSets buffers(config.dtype, {128, 128}, false, 0);
  CUTEDSL_QUANT_CUDA(cudaDeviceSynchronize());  // the CUDA context exists before
  const auto begin = std::chrono::steady_clock::now();
  const std::string refused = Select(options.backends.front(), config, buffers);
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  if (!refused.empty()) {
    printf("%s\n", refused.c_str());
    return 1;
  }
  printf("%.6f\n", elapsed.count());
  return 0;
}

void MeasureFirstCalls(const Options& options, Results& results) {
  printf(
      "\nFirst call of a process that has a CUDA context: kernel packages are opened, the kernel "
      "is loaded, run\n"
      "and waited for.\n\n%-22s %10s %21s\n",
      "", "median ms", "min .. max ms");
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (length < 0) throw std::runtime_error("cannot read /proc/self/exe");
  self[length] = '\0';
  for (Backend backend : options.backends) {
    const std::string command =
        "'" + std::string(self) + "' --first-call-only --backend " + BackendName(backend);
    std::vector<double> ms;
    std::string failure;
    for (int i = 0; i < 5 && failure.empty(); ++i) {
      const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
      char line[256] = "";
      double value;
      if (pipe == nullptr || fgets(line, sizeof(line), pipe.get()) == nullptr ||
          sscanf(line, "%lf", &value) != 1) {
        line[strcspn(line, "\n")] = '\0';
        failure = line[0] != '\0' ? line : "the process that measures it failed";
      } else {
        ms.push_back(value);
      }
    }
    if (!failure.empty()) {
      printf("%s is not measured: %s\n", BackendName(backend), failure.c_str());
      continue;
    }
    const Times times = Summarize(ms);
    printf("%-22s %10.3f %10.3f..%9.3f\n", BackendName(backend), times.median, times.min,
           times.max);
    results.cold.push_back(
        Record().Add("backend", std::string(BackendName(backend))).Add(times, "ms"));
  }
}

}  // namespace bench
}  // namespace cutedsl_quant
