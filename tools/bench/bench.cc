// The benchmark: how near calls come to the speed of memory, what a call costs the host, and what
// the first one costs.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "common/cuda_check.h"
#include "tools/bench/options.h"
#include "tools/bench/parts.h"
#include "tools/bench/record.h"

#define CUTEDSL_QUANT_CUDA(call) ::cutedsl_quant::CheckCuda(call, #call)

namespace cutedsl_quant {
namespace bench {
namespace {

Record DescribeMachine(const cudaDeviceProp& properties) {
  int driver = 0;
  int runtime = 0;
  CUTEDSL_QUANT_CUDA(cudaDriverGetVersion(&driver));
  CUTEDSL_QUANT_CUDA(cudaRuntimeGetVersion(&runtime));
  const auto version = [](int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  };
  const std::string capability =
      std::to_string(properties.major) + "." + std::to_string(properties.minor);
  printf("%s, compute capability %s, %d SMs, L2 cache %.0f MB, driver for CUDA %s, runtime %s\n",
         properties.name, capability.c_str(), properties.multiProcessorCount,
         properties.l2CacheSize * 1e-6, version(driver).c_str(), version(runtime).c_str());
  return Record()
      .Add("gpu", std::string(properties.name))
      .Add("compute_capability", capability)
      .Add("sms", int64_t{properties.multiProcessorCount})
      .Add("l2_bytes", int64_t{properties.l2CacheSize})
      .Add("driver_cuda", version(driver))
      .Add("runtime_cuda", version(runtime));
}

int Run(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  if (options.help) {
    fputs(kUsage, stdout);
    return 0;
  }
  if (options.first_call_only) return PrintFirstCall(options);
  cudaDeviceProp properties;
  CUTEDSL_QUANT_CUDA(cudaGetDeviceProperties(&properties, 0));
  Results results;
  results.machine = DescribeMachine(properties);
  if (options.gpu_time) MeasureGpuTimes(options, properties.l2CacheSize, results);
  if (options.host_time) MeasureHostTimes(options, results);
  if (options.cold_start) MeasureFirstCalls(options, results);
  if (!options.json.empty()) WriteJson(options.json, results);
  return 0;
}

}  // namespace
}  // namespace bench
}  // namespace cutedsl_quant

int main(int argc, char** argv) {
  try {
    return cutedsl_quant::bench::Run(argc, argv);
  } catch (const std::invalid_argument& error) {
    fprintf(stderr, "bench: %s (--help lists the arguments)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fprintf(stderr, "bench: %s\n", error.what());
    return 1;
  }
}
