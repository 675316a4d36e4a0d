// The error shim inside kernel packages, called as generated code calls it.
#include <gtest/gtest.h>
#include <tvm/ffi/error.h>

#include <string>

extern "C" void CuteDSLRT_TVMFFISetRaisedCudaError(void (*raise)(const char*, const char**,
                                                                 int32_t),
                                                   int32_t code);

namespace {

std::string RaisedBy(int32_t code) {
  CuteDSLRT_TVMFFISetRaisedCudaError(TVMFFIErrorSetRaisedFromCStrParts, code);
  const tvm::ffi::Error error = tvm::ffi::detail::MoveFromSafeCallRaised();
  return error.kind() + ": " + error.message();
}

// The number alone, as the compiler's own runtime gives it, sends everybody to a table.
TEST(KernelPackageRuntime, NamesTheCudaError) {
  EXPECT_EQ(RaisedBy(209),
            "CudaError: CUDA error 209 (cudaErrorNoKernelImageForDevice): no kernel image is "
            "available for execution on the device");
}

// Codes that CUDA does not know, with the longest number.
TEST(KernelPackageRuntime, TakesAnyCode) {
  EXPECT_EQ(RaisedBy(INT32_MIN).rfind("CudaError: CUDA error -2147483648 (", 0), 0u);
}

// No setter: nothing to do, nothing to crash on.
TEST(KernelPackageRuntime, TakesNoSetter) {
  CuteDSLRT_TVMFFISetRaisedCudaError(nullptr, 209);
  TVMFFIObjectHandle raised = nullptr;
  TVMFFIErrorMoveFromRaised(&raised);
  EXPECT_EQ(raised, nullptr);
}

}  // namespace
