#include "tests/tools/saxpy.h"

namespace cutedsl_quant_test {

int SaxpyFactor() { return SAXPY_FACTOR; }

}  // namespace cutedsl_quant_test
