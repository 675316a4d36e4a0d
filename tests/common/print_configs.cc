// Prints every legal configuration of the C++ side, "<id> <name>" a line, for
// test_config_encoding.py.
#include <cstdio>

#include "cutedsl_quant/config.h"

int main() {
  for (const cutedsl_quant::QuantizeConfig& config : cutedsl_quant::AllLegalConfigs()) {
    std::printf("%u %s\n", config.Id(), config.Name().c_str());
  }
}
