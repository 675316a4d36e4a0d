#include "tests/tools/saxpy_user.h"

#include "tests/tools/saxpy.h"

namespace cutedsl_quant_test {

float UseSaxpy(float x, float y) { return SaxpyOnHost(x, y); }

}  // namespace cutedsl_quant_test
