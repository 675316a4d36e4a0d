// First calls while a stream is captured, in a process of their own: in this one, earlier tests may
// have loaded the kernels.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/quantize.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/harness.h"
#include "tests/gpu/values.h"

namespace cutedsl_quant {
namespace testing {
namespace {

constexpr int64_t kRows = 96;
constexpr int64_t kCols = 160;

// Device memory for all tensors of the calls, one behind the other.
class Memory {
 public:
  Memory() : buffer_(kSize, 0) { buffer_.Fill(kPoison, nullptr); }

  Tensor Take(DType dtype, std::initializer_list<int64_t> dims) {
    Tensor tensor(static_cast<uint8_t*>(buffer_.data()) + used_, dtype, kDevice, dims);
    used_ += (tensor.size() * 4 + 255) / 256 * 256;  // enough for every type
    EXPECT_LE(used_, kSize);
    return tensor;
  }
  QuantizedTensor TakeQuantized(bool swizzled) {
    QuantizedTensor tensor;
    tensor.rowwise_data = Take(DType::kFloat8E4M3, {kRows, kCols});
    tensor.rowwise_scale_inv = Take(DType::kFloat8E8M0, {128, 8});
    tensor.columnwise_data = Take(DType::kFloat8E4M3, {kRows, kCols});
    tensor.columnwise_scale_inv = Take(DType::kFloat8E8M0, {4, 256});
    tensor.swizzled_scales = swizzled;
    return tensor;
  }
  std::vector<uint8_t> contents() const {
    std::vector<uint8_t> bytes(kSize);
    CUTEDSL_QUANT_CUDA(cudaMemcpy(bytes.data(), buffer_.data(), kSize, cudaMemcpyDeviceToHost));
    return bytes;
  }

 private:
  static constexpr size_t kSize = 1 << 20;
  GpuBuffer buffer_;
  size_t used_ = 0;
};

// One call of every kind of kernel.
void CallEverything(const Tensor& input, Memory& memory, Stream stream) {
  const QuantizedTensor cast = memory.TakeQuantized(false);
  Quantize(input, cast, {}, stream);
  QuantizeOptions options;
  options.use_2d_blocks = true;
  Quantize(input, memory.TakeQuantized(false), options, stream);
  QuantizeActivation(Activation::kGelu, input, memory.TakeQuantized(true), stream);
  const Tensor dbias = memory.Take(DType::kBFloat16, {kCols});
  Tensor workspace = memory.Take(DType::kFloat32, {2, kCols});
  QuantizeDbias(input, memory.TakeQuantized(false), dbias, &workspace, stream);
  QuantizeDbiasDActivation(Activation::kDSilu, input, input, memory.TakeQuantized(false), dbias,
                           &workspace, stream);
  Dequantize(cast, memory.Take(DType::kBFloat16, {kRows, kCols}), stream);
  const QuantizedTensor tiles = memory.TakeQuantized(true);
  SwizzleScales(cast, tiles, stream);
  UnswizzleScales(tiles, memory.TakeQuantized(false), stream);
}

void CaptureFirstCalls() {
  const std::vector<uint8_t> values =
      MakeValues(ValueClass::kNormal, DType::kBFloat16, kRows, kCols);
  GpuBuffer input_buffer(values.size(), 0);
  input_buffer.Upload(values.data(), values.size());
  const Tensor input(input_buffer.data(), DType::kBFloat16, kDevice, {kRows, kCols});
  cudaStream_t stream;
  CUTEDSL_QUANT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  PreloadKernels(kDevice);
  for (const BackendMode mode : {BackendMode::kPackaged, BackendMode::kOff}) {
    SetBackendMode(mode);
    Memory captured, eager;
    CUTEDSL_QUANT_CUDA(cudaDeviceSynchronize());
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CUTEDSL_QUANT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CallEverything(input, captured, stream);
    CUTEDSL_QUANT_CUDA(cudaStreamEndCapture(stream, &graph));
    CUTEDSL_QUANT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUTEDSL_QUANT_CUDA(cudaGraphLaunch(executable, stream));
    CallEverything(input, eager, stream);
    CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(captured.contents(), eager.contents());
    CUTEDSL_QUANT_CUDA(cudaGraphExecDestroy(executable));
    CUTEDSL_QUANT_CUDA(cudaGraphDestroy(graph));
  }
  CUTEDSL_QUANT_CUDA(cudaStreamDestroy(stream));
}

class PreloadTest : public GpuTest {};

// Catches a kernel that is not loaded in advance, where loading it invalidates the capture.
TEST_F(PreloadTest, FirstCallsMayBeCaptured) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process, which runs this test alone
  const auto status_of_captures = [] {
    CaptureFirstCalls();
    return HasFailure() ? 1 : 0;
  };
  EXPECT_EXIT(exit(status_of_captures()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace testing
}  // namespace cutedsl_quant
