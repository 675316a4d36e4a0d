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

}  // namespace bench
}  // namespace cutedsl_quant
