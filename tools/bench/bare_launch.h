// The least that a kernel launch costs, to compare calls with.
#ifndef CUTEDSL_QUANT_TOOLS_BENCH_BARE_LAUNCH_H_
#define CUTEDSL_QUANT_TOOLS_BENCH_BARE_LAUNCH_H_

#include <cuda_runtime_api.h>

namespace cutedsl_quant {
namespace bench {

// Launches an empty kernel with <<<>>>.
void BareLaunch(cudaStream_t stream);

}  // namespace bench
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TOOLS_BENCH_BARE_LAUNCH_H_
