#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include "tests/tools/saxpy.h"
#include "tests/tools/saxpy_user.h"

namespace cutedsl_quant_test {
namespace {

TEST(CudaLibrary, RunsHostSideOfDeviceCode) { EXPECT_EQ(UseSaxpy(3.0f, 1.0f), 7.0f); }

TEST(CudaLibrary, TakesHostSourcesAndLocalDefines) { EXPECT_EQ(SaxpyFactor(), 2); }

TEST(CudaLibrary, LinksTheRuntime) {
  int version = 0;
  ASSERT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, CUDART_VERSION);
}

TEST(CudaLibrary, BringsHeadersAlong) {
  EXPECT_EQ(__nv_cvt_float_to_fp8(1.0f, __NV_SATFINITE, __NV_E4M3), 0x38);
}

}  // namespace
}  // namespace cutedsl_quant_test
