#include "tools/bench/fusions.h"

namespace cutedsl_quant {
namespace bench {

std::vector<QuantizeConfig> AllFusions() {
  const std::vector<QuantizeConfig> configs = AllLegalConfigs();
  QuantizeConfig first = configs.front();
  std::vector<QuantizeConfig> fusions;
  for (const QuantizeConfig& config : configs) {
    first.with_dbias = config.with_dbias;
    first.with_dact = config.with_dact;
    first.with_act = config.with_act;
    first.activation = config.activation;
    if (config.Id() == first.Id()) fusions.push_back(config);
  }
  return fusions;
}

std::string FusionName(const QuantizeConfig& config) {
  const std::string activation = ActivationName(config.activation);
  if (!config.with_dbias) return activation;
  return config.activation == Activation::kNone ? "dbias" : "dbias_" + activation;
}

void RunCall(const QuantizeConfig& config, CallTensors& tensors, Stream stream) {
  const auto& [input, act_input, output, dbias, workspace, options] = tensors;
  if (config.with_dbias && config.with_dact) {
    QuantizeDbiasDActivation(config.activation, input, act_input, output, dbias, &tensors.workspace,
                             stream);
  } else if (config.with_dbias) {
    QuantizeDbias(input, output, dbias, &tensors.workspace, stream);
  } else if (config.with_dact) {
    QuantizeDActivation(config.activation, input, act_input, output, stream);
  } else if (config.with_act) {
    QuantizeActivation(config.activation, input, output, stream);
  } else {
    Quantize(input, output, options, stream);
  }
}

}  // namespace bench
}  // namespace cutedsl_quant
