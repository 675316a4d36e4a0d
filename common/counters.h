// The counters behind GetStats.
#ifndef CUTEDSL_QUANT_COMMON_COUNTERS_H_
#define CUTEDSL_QUANT_COMMON_COUNTERS_H_

#include "cutedsl_quant/backend.h"

namespace cutedsl_quant {

// Counts a call served by `backend`; `reason` says why not by a CuTeDSL kernel.
void CountCall(Backend backend, MissReason reason) noexcept;

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_COUNTERS_H_
