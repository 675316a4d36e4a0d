// Counts what a test allocates: linking this replaces operator new.
#ifndef CUTEDSL_QUANT_TESTS_COMMON_ALLOCATION_COUNTER_H_
#define CUTEDSL_QUANT_TESTS_COMMON_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace cutedsl_quant {

// Calls of operator new by the calling thread so far.
int64_t AllocationsOfThread();

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_COMMON_ALLOCATION_COUNTER_H_
