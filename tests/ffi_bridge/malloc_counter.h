// Counts what a test allocates, whoever does it: linking this replaces malloc and its kin.
#ifndef CUTEDSL_QUANT_TESTS_FFI_BRIDGE_MALLOC_COUNTER_H_
#define CUTEDSL_QUANT_TESTS_FFI_BRIDGE_MALLOC_COUNTER_H_

#include <cstdint>

namespace cutedsl_quant {

// Allocations by the calling thread so far, in every library of the process. Under
// AddressSanitizer, whose own malloc must stay, always 0.
int64_t AllocationsOfThread();

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_FFI_BRIDGE_MALLOC_COUNTER_H_
