// How times are taken.
#ifndef CUTEDSL_QUANT_TOOLS_BENCH_MEASURE_H_
#define CUTEDSL_QUANT_TOOLS_BENCH_MEASURE_H_

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "tools/bench/floor_kernels.h"

namespace cutedsl_quant {
namespace bench {

// In the unit of what was summarized.
struct Times {
  double median = 0;
  double min = 0;
  double max = 0;
};

Times Summarize(std::vector<double> times);

struct Replays {
  int count = 9;
  // Before the first: a GPU that drew much power just now is slowed down for a while.
  int rest_ms = 0;
};

// GPU time of one launch in us, from replays of a graph of many. launch(i, stream) works on buffer
// set i of num_sets; sets follow each other, so that with enough of them none is in the L2 cache
// when its turn comes.
Times MeasureGpu(int num_sets, int launches, const Replays& replays,
                 const std::function<void(int set, cudaStream_t stream)>& launch);

// The kernels that one call launches. It is made twice, the second time in a stream capture.
std::vector<LaunchShape> KernelsOf(const std::function<void(cudaStream_t stream)>& call);

struct HostCall {
  std::function<void()> prepare;  // before each batch of calls, not timed
  std::function<void(cudaStream_t stream)> call;
};

// Host times of one call in us, the GPU keeping up. Batches of the different calls take turns, so
// that what disturbs one of them disturbs the others too.
std::vector<Times> MeasureHost(const std::vector<HostCall>& calls);

}  // namespace bench
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TOOLS_BENCH_MEASURE_H_
