// Explanations of why a call was not served by a CuTeDSL kernel.
#ifndef CUTEDSL_QUANT_COMMON_WARNING_H_
#define CUTEDSL_QUANT_COMMON_WARNING_H_

#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/config.h"

namespace cutedsl_quant {

// If the environment asks for warnings: one line on stderr for each distinct reason and
// configuration, saying what to do.
void WarnNotChosen(const QuantizeConfig& config, Backend served_by, MissReason reason);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_WARNING_H_
