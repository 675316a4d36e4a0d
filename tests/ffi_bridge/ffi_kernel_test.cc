// The call of a kernel: the argument list of kernel_package_abi.h, exactly.
#include "ffi_bridge/ffi_kernel.h"

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ffi_bridge/dtype.h"
#include "ffi_bridge/errors.h"
#include "tests/ffi_bridge/malloc_counter.h"

namespace cutedsl_quant {
namespace {

// One argument as the kernel saw it, in words.
std::string Describe(const TVMFFIAny& value) {
  if (value.zero_padding != 0) return "padding is not zero";
  if (value.type_index == kTVMFFINone) return value.v_int64 == 0 ? "None" : "None with a value";
  if (value.type_index == kTVMFFIOpaquePtr)
    return "pointer " + std::to_string(reinterpret_cast<uintptr_t>(value.v_ptr));
  if (value.type_index != kTVMFFIDLTensorPtr) return "type " + std::to_string(value.type_index);
  const auto& tensor = *static_cast<const DLTensor*>(value.v_ptr);
  std::string text =
      "tensor " + std::to_string(reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset);
  text += " type " + std::to_string(tensor.dtype.code) + "x" + std::to_string(tensor.dtype.bits) +
          "x" + std::to_string(tensor.dtype.lanes);
  text += " device " + std::to_string(tensor.device.device_type) + ":" +
          std::to_string(tensor.device.device_id);
  for (int i = 0; i < tensor.ndim; ++i) {
    text += " " + std::to_string(tensor.shape[i]) + "/" + std::to_string(tensor.strides[i]);
  }
  return text;
}

struct Recorder {
  std::vector<std::string> args;
  int result = 0;
};

int Record(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny*) {
  auto* recorder = static_cast<Recorder*>(self);
  recorder->args.clear();
  for (int i = 0; i < num_args; ++i) recorder->args.push_back(Describe(args[i]));
  if (recorder->result != 0) TVMFFIErrorSetRaisedFromCStr("CudaError", "no luck");
  return recorder->result;
}

template <typename T>
T* Address(uintptr_t value) {
  return reinterpret_cast<T*>(value);
}

// Every argument given: its place, type, extents, strides and device. Extents differ, so that none
// can be swapped.
TEST(FfiKernel, PassesEveryArgument) {
  QuantizeConfig config;
  config.dtype = DType::kFloat16;
  config.fp8_dtype = DType::kFloat8E5M2;
  KernelArgs args;
  args.rows = 3000000000;  // beyond 32 bits
  args.cols = 48;
  args.input = Address<void>(16);
  args.act_input = Address<void>(32);
  args.rowwise_data = Address<uint8_t>(48);
  args.rowwise_scale_inv = {Address<uint8_t>(64), 256, 4};
  args.columnwise_data = Address<uint8_t>(80);
  args.columnwise_scale_inv = {Address<uint8_t>(96), 8, 128};
  args.amax = Address<float>(112);
  args.dbias_workspace = Address<float>(128);
  args.dbias_workspace_rows = 7;
  args.noop = Address<float>(144);
  args.device = {DeviceType::kCuda, 5};
  args.stream = Address<CUstream_st>(160);
  Recorder recorder;
  EXPECT_TRUE(FfiKernel(Record, &recorder).Launch(config, args));
  const auto text = [](int data, DLDataType dtype, const std::string& extents) {
    return "tensor " + std::to_string(data) + " type " + std::to_string(dtype.code) + "x" +
           std::to_string(dtype.bits) + "x1 device 2:5 " + extents;
  };
  const DLDataType half{kDLFloat, 16, 1}, fp8{kDLFloat8_e5m2, 8, 1}, byte{kDLUInt, 8, 1},
      single{kDLFloat, 32, 1};
  const std::vector<std::string> expected = {
      text(16, half, "3000000000/48 48/1"),
      text(32, half, "3000000000/48 48/1"),
      text(48, fp8, "3000000000/48 48/1"),
      text(64, byte, "256/4 4/1"),
      text(80, fp8, "3000000000/48 48/1"),
      text(96, byte, "8/128 128/1"),
      text(112, single, "1/1"),
      text(128, single, "7/48 48/1"),
      "pointer 144",
      "pointer 160",
  };
  EXPECT_EQ(recorder.args, expected);
}

// What is not there is None, not an empty tensor; the default stream is a null pointer.
TEST(FfiKernel, PassesNoneForWhatIsAbsent) {
  KernelArgs args;
  args.rows = args.cols = 16;
  args.input = Address<void>(16);
  Recorder recorder;
  EXPECT_TRUE(FfiKernel(Record, &recorder).Launch(QuantizeConfig(), args));
  ASSERT_EQ(recorder.args.size(), 10u);
  for (int i = 1; i < 9; ++i) EXPECT_EQ(recorder.args[i], "None") << i;
  EXPECT_EQ(recorder.args[9], "pointer 0");
}

// A refused launch is false and a message; the error does not stay behind in the thread for the
// next caller.
TEST(FfiKernel, TurnsAnErrorIntoFalse) {
  ClearErrors();
  KernelArgs args;
  QuantizeConfig config;
  config.rowwise = true;
  Recorder recorder;
  recorder.result = -1;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(FfiKernel(Record, &recorder).Launch(config, args));
  EXPECT_EQ(RecentErrors(),
            (std::vector<std::string>{"launch of " + config.Name() + ": CudaError: no luck"}));
  TVMFFIObjectHandle left = nullptr;
  TVMFFIErrorMoveFromRaised(&left);
  EXPECT_EQ(left, nullptr);
}

// A function that fails without saying why.
TEST(FfiKernel, SurvivesAFailureWithoutAnError) {
  ClearErrors();
  const auto fail = [](void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { return -1; };
  EXPECT_FALSE(FfiKernel(fail, nullptr).Launch(QuantizeConfig(), KernelArgs()));
  ASSERT_EQ(RecentErrors().size(), 1u);
  EXPECT_NE(RecentErrors()[0].find("failed without an error"), std::string::npos);
}

// Messages of a kernel that fails for ever must not fill the memory.
TEST(Errors, KeepsTheLatest) {
  ClearErrors();
  for (int i = 0; i < 100; ++i) RecordError("", QuantizeConfig(), std::to_string(i));
  const auto errors = RecentErrors();
  ASSERT_EQ(errors.size(), 32u);
  EXPECT_EQ(errors.back(), QuantizeConfig().Name() + ": 99");
}

int Nothing(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { return 0; }

// The reference's two heap allocations per tensor.
TEST(FfiKernel, DoesNotAllocate) {
  KernelArgs args;
  args.rows = args.cols = 32;
  args.input = args.rowwise_data = Address<uint8_t>(16);
  args.rowwise_scale_inv = {Address<uint8_t>(16), 32, 1};
  const FfiKernel kernel(Nothing, nullptr);
  const int64_t before = AllocationsOfThread();
  for (int i = 0; i < 100; ++i) kernel.Launch(QuantizeConfig(), args);
  EXPECT_EQ(AllocationsOfThread(), before);
}

// The table of types, both ways.
TEST(DType, GoesToDlpackAndBack) {
  for (int value = 0; value <= static_cast<int>(DType::kFloat8E8M0); ++value) {
    const auto dtype = static_cast<DType>(value);
    EXPECT_EQ(FromDLDataType(ToDLDataType(dtype)), dtype) << DTypeName(dtype);
  }
  EXPECT_EQ(ToDLDataType(DType::kFloat4E2M1).code, kDLFloat4_e2m1fn);
  EXPECT_EQ(FromDLDataType({kDLFloat, 64, 1}), std::nullopt);
  EXPECT_EQ(FromDLDataType({kDLFloat, 32, 4}), std::nullopt);
}

}  // namespace
}  // namespace cutedsl_quant
