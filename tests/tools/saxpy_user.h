#ifndef CUTEDSL_QUANT_TESTS_TOOLS_SAXPY_USER_H_
#define CUTEDSL_QUANT_TESTS_TOOLS_SAXPY_USER_H_

namespace cutedsl_quant_test {

// Reaches a cuda_library through a plain cc_library.
float UseSaxpy(float x, float y);

}  // namespace cutedsl_quant_test

#endif  // CUTEDSL_QUANT_TESTS_TOOLS_SAXPY_USER_H_
