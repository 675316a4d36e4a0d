// First calls while a stream is captured, in a process of their own: in this one, earlier tests may
// have loaded the kernels.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "common/numerics.h"
#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/quantize.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/harness.h"
#include "tests/gpu/values.h"

namespace cutedsl_quant {
namespace testing {
namespace {

// Device memory for all tensors of the calls with an input of `shape`, one behind the other.
class Memory {
 public:
  explicit Memory(numerics::ScaleShape shape)
      : shape_(shape),
        buffer_((1 << 20) + static_cast<size_t>(shape.rows * shape.cols * kBytesPerElement), 0) {
    buffer_.Fill(kPoison, nullptr);
  }

  Tensor Take(DType dtype, numerics::ScaleShape shape) {
    Tensor tensor(static_cast<uint8_t*>(buffer_.data()) + used_, dtype, kDevice,
                  {shape.rows, shape.cols});
    used_ += numerics::RoundUp(tensor.size() * ElementSize(dtype), 256);
    EXPECT_LE(used_, static_cast<int64_t>(buffer_.size()));
    return tensor;
  }
  Tensor TakeLikeInput(DType dtype) { return Take(dtype, shape_); }
  Tensor TakeDbias() {
    return Tensor(Take(DType::kBFloat16, {1, shape_.cols}).data, DType::kBFloat16, kDevice,
                  {shape_.cols});
  }
  QuantizedTensor TakeQuantized(bool swizzled) {
    const auto& [rows, cols] = shape_;
    QuantizedTensor tensor;
    tensor.rowwise_data = TakeLikeInput(DType::kFloat8E4M3);
    tensor.rowwise_scale_inv =
        Take(DType::kFloat8E8M0, numerics::PaddedRowwiseScaleShape(rows, cols));
    tensor.columnwise_data = TakeLikeInput(DType::kFloat8E4M3);
    tensor.columnwise_scale_inv =
        Take(DType::kFloat8E8M0, numerics::PaddedColumnwiseScaleShape(rows, cols));
    tensor.swizzled_scales = swizzled;
    return tensor;
  }
  std::vector<uint8_t> contents() const { return buffer_.Download(); }

 private:
  static constexpr int64_t kBytesPerElement = 20;  // seven outputs and a bf16 tensor

  numerics::ScaleShape shape_;
  GpuBuffer buffer_;
  int64_t used_ = 0;
};

// One call of every kind of kernel.
void CallEverything(const Tensor& input, Memory& memory, Stream stream) {
  const QuantizedTensor cast = memory.TakeQuantized(false);
  Quantize(input, cast, {}, stream);
  QuantizeOptions options;
  options.use_2d_blocks = true;
  Quantize(input, memory.TakeQuantized(false), options, stream);
  QuantizeActivation(Activation::kGelu, input, memory.TakeQuantized(true), stream);
  const Tensor dbias = memory.TakeDbias();
  const auto call_twice = [&](const auto& quantize) {
    Tensor workspace;
    quantize(&workspace);  // says how large it has to be
    workspace.data = memory.Take(workspace.dtype, {workspace.shape[0], workspace.shape[1]}).data;
    quantize(&workspace);
  };
  const QuantizedTensor of_dbias = memory.TakeQuantized(false);
  call_twice([&](Tensor* workspace) { QuantizeDbias(input, of_dbias, dbias, workspace, stream); });
  const QuantizedTensor of_derivative = memory.TakeQuantized(false);
  call_twice([&](Tensor* workspace) {
    QuantizeDbiasDActivation(Activation::kDSilu, input, input, of_derivative, dbias, workspace,
                             stream);
  });
  Dequantize(cast, memory.TakeLikeInput(DType::kBFloat16), stream);
  const QuantizedTensor tiles = memory.TakeQuantized(true);
  SwizzleScales(cast, tiles, stream);
  UnswizzleScales(tiles, memory.TakeQuantized(false), stream);
}

void CaptureFirstCallsOf(numerics::ScaleShape shape, cudaStream_t stream) {
  const std::vector<uint8_t> values =
      MakeValues(ValueClass::kNormal, DType::kBFloat16, shape.rows, shape.cols);
  GpuBuffer input_buffer(values.size(), 0);
  input_buffer.Upload(values.data(), values.size());
  const Tensor input(input_buffer.data(), DType::kBFloat16, kDevice, {shape.rows, shape.cols});
  for (const BackendMode mode : {BackendMode::kPackaged, BackendMode::kOff}) {
    SetBackendMode(mode);
    Memory captured(shape), eager(shape);
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
}

void CaptureFirstCalls() {
  PreloadKernels(kDevice);
  cudaStream_t stream;
  CUTEDSL_QUANT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CaptureFirstCallsOf({96, 160}, stream);
  CaptureFirstCallsOf({3200, 1440}, stream);  // large enough for other kernels
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
