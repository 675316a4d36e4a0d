// The parts of a run. Each prints a table and adds to the results.
#ifndef CUTEDSL_QUANT_TOOLS_BENCH_PARTS_H_
#define CUTEDSL_QUANT_TOOLS_BENCH_PARTS_H_

#include <cstdint>

#include "tools/bench/options.h"
#include "tools/bench/record.h"

namespace cutedsl_quant {
namespace bench {

void MeasureGpuTimes(const Options& options, int64_t l2_bytes, Results& results);
void MeasureHostTimes(const Options& options, Results& results);
void MeasureFirstCalls(const Options& options, Results& results);

// In a fresh process that MeasureFirstCalls starts: prints the time of the first call, in ms.
// Returns the process's status.
int PrintFirstCall(const Options& options);

}  // namespace bench
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TOOLS_BENCH_PARTS_H_
