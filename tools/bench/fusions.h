// The ways to fuse a cast with something else, and their names on command lines and in tables.
#ifndef CUTEDSL_QUANT_TOOLS_BENCH_FUSIONS_H_
#define CUTEDSL_QUANT_TOOLS_BENCH_FUSIONS_H_

#include <string>
#include <vector>

#include "cutedsl_quant/config.h"

namespace cutedsl_quant {
namespace bench {

// One configuration for each combination of dbias, activation and derivative that has kernels; the
// first has none of them. Their other fields mean nothing.
std::vector<QuantizeConfig> AllFusions();

// "none", "dbias", "gelu", "dbias_dgelu", ...
std::string FusionName(const QuantizeConfig& config);

}  // namespace bench
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TOOLS_BENCH_FUSIONS_H_
