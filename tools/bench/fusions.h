// The ways to fuse a cast with something else: their names on command lines and in tables, and the
// functions of the native API that do them.
#ifndef CUTEDSL_QUANT_TOOLS_BENCH_FUSIONS_H_
#define CUTEDSL_QUANT_TOOLS_BENCH_FUSIONS_H_

#include <string>
#include <vector>

#include "cutedsl_quant/config.h"
#include "cutedsl_quant/quantize.h"

namespace cutedsl_quant {
namespace bench {

// One configuration for each combination of dbias, activation and derivative that has kernels; the
// first has none of them. Their other fields mean nothing.
std::vector<QuantizeConfig> AllFusions();

// "none", "dbias", "gelu", "dbias_dgelu", ...
std::string FusionName(const QuantizeConfig& config);

// The tensors of a call; those that its configuration does not need are ignored.
struct CallTensors {
  Tensor input;
  Tensor act_input;
  QuantizedTensor output;
  Tensor dbias;
  Tensor workspace;
  QuantizeOptions options;  // of plain casts
};

// Calls the function of the native API that `config` stands for. With column sums and a workspace
// without memory, that only describes the workspace.
void RunCall(const QuantizeConfig& config, CallTensors& tensors, Stream stream);

}  // namespace bench
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TOOLS_BENCH_FUSIONS_H_
