// Streams, threads, graphs and devices: calls whose results depend on where and when they run.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/numerics.h"
#include "cutedsl_quant/quantize.h"
#include "tests/gpu/call_buffers.h"
#include "tests/gpu/expected.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/harness.h"
#include "tests/gpu/values.h"

namespace cutedsl_quant {
namespace testing {
namespace {

constexpr BackendMode kModes[] = {BackendMode::kOff, BackendMode::kPackaged};

// A cast, and what launches two kernels and needs a workspace; both directions, with amax.
std::vector<Call> SomeCalls() {
  QuantizeConfig config;
  config.rowwise = config.colwise = config.swizzled = config.with_amax = true;
  QuantizeConfig fused = config;
  fused.with_dbias = fused.with_dact = true;
  fused.activation = Activation::kDGelu;
  return {{config, ScaleLayout::kSwizzled, std::nullopt},
          {fused, ScaleLayout::kSwizzled, std::nullopt}};
}

// One call's memory and what it must hold in the end.
class Work {
 public:
  Work(const Call& call, const Shape& shape, Device device = kDevice)
      : call_(call), shape_(shape), buffers_(shape, call.config.dtype, device) {}

  void SetValues(ValueClass value_class) {
    const auto values = [&](uint8_t seed) {
      return MakeValues(value_class, call_.config.dtype, shape_.m(), shape_.n(), seed);
    };
    input_ = values(0);
    act_input_ = values(1);
    buffers_.SetInput(input_);
    buffers_.SetActInput(act_input_);
  }
  void Prepare(cudaStream_t stream) { buffers_.Prepare(call_, 0.0f, stream); }
  void Launch(cudaStream_t stream) { buffers_.Launch(call_, stream); }
  std::string Check() const {
    const ExpectedBytes expected(call_.config, input_.data(), act_input_.data(), shape_.m(),
                                 shape_.n());
    Closeness closeness;
    return buffers_.Check(call_, expected, 0.0f, &closeness) + closeness.Excess();
  }

 private:
  Call call_;
  Shape shape_;
  CallBuffers buffers_;
  std::vector<uint8_t> input_;
  std::vector<uint8_t> act_input_;
};

class ExecutionTest : public GpuTest {};

// Finds state that calls on several streams and threads share, and launches on the wrong stream.
TEST_F(ExecutionTest, ManyStreamsAndThreads) {
  for (const Call& call : SomeCalls()) {
    for (BackendMode mode : kModes) {
      SetBackendMode(mode);
      std::vector<std::string> failures(4);
      std::vector<std::thread> threads;
      for (size_t t = 0; t < failures.size(); ++t) {
        threads.emplace_back([&, t] {
          cudaStream_t stream;
          CUTEDSL_QUANT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
          Work work(call, {{256 + 32 * static_cast<int64_t>(t), 1024}});
          work.SetValues(ValueClass::kNormal);
          work.Prepare(stream);
          for (int i = 0; i < 50; ++i) work.Launch(stream);
          CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));
          CUTEDSL_QUANT_CUDA(cudaStreamDestroy(stream));
          failures[t] = work.Check();
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (const std::string& failure : failures) EXPECT_EQ(failure, "") << call.Name();
    }
  }
}

// Finds launches outside the capturing stream, and anything that is computed on the host at capture
// but depends on the data: the graph is replayed on another input.
TEST_F(ExecutionTest, GraphReplayOnAnotherInput) {
  cudaStream_t stream;
  CUTEDSL_QUANT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const Call& call : SomeCalls()) {
    for (BackendMode mode : kModes) {
      SetBackendMode(mode);
      Work work(call, {{4128, 1056}});
      work.SetValues(ValueClass::kWideRange);
      work.Launch(stream);  // loads the kernel
      CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));

      cudaGraph_t graph;
      cudaGraphExec_t executable;
      CUTEDSL_QUANT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      work.Launch(stream);
      CUTEDSL_QUANT_CUDA(cudaStreamEndCapture(stream, &graph));
      CUTEDSL_QUANT_CUDA(cudaGraphInstantiate(&executable, graph, 0));

      work.SetValues(ValueClass::kNormal);
      work.Prepare(stream);
      CUTEDSL_QUANT_CUDA(cudaGraphLaunch(executable, stream));
      CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));
      EXPECT_EQ(work.Check(), "") << call.Name();
      CUTEDSL_QUANT_CUDA(cudaGraphExecDestroy(executable));
      CUTEDSL_QUANT_CUDA(cudaGraphDestroy(graph));
    }
  }
  CUTEDSL_QUANT_CUDA(cudaStreamDestroy(stream));
}

// Finds a kernel that writes partial sums while those of the call before are still added up: calls
// follow each other at once on one workspace, each with sums of its own.
TEST_F(ExecutionTest, WorkspaceIsUsedAgainAtOnce) {
  constexpr int kCalls = 16;
  constexpr int64_t kRows = 4096 + 128;  // a large tensor; whole chunks of sums
  constexpr int64_t kCols = 1024;
  constexpr DType kDType = DType::kBFloat16;
  QuantizeConfig config;
  config.rowwise = config.with_dbias = true;
  std::vector<std::vector<uint8_t>> values;
  std::vector<std::unique_ptr<GpuBuffer>> inputs;
  for (uint8_t seed = 0; seed < kCalls; ++seed) {
    // Their sums are exact.
    values.push_back(MakeValues(ValueClass::kIntegers, kDType, kRows, kCols, seed));
    inputs.push_back(std::make_unique<GpuBuffer>(values.back().size(), 0));
    inputs.back()->Upload(values.back().data(), values.back().size());
  }
  GpuBuffer data(kRows * kCols, 0);
  GpuBuffer scales(kRows * kCols / 32, 0);
  GpuBuffer workspace(kRows / numerics::DbiasChunkRows(false) * kCols * sizeof(float), 0);
  GpuBuffer dbias(kCalls * kCols * 2, 0);

  for (BackendMode mode : kModes) {
    SetBackendMode(mode);
    CallTensors tensors;
    tensors.output.rowwise_data = Tensor(data.data(), DType::kFloat8E4M3, kDevice, {kRows, kCols});
    tensors.output.rowwise_scale_inv =
        Tensor(scales.data(), DType::kFloat8E8M0, kDevice, {kRows, kCols / 32});
    for (int repeat = 0; repeat < 2; ++repeat) {  // the first loads kernels, which waits
      dbias.Fill(kPoison, nullptr);
      for (int i = 0; i < kCalls; ++i) {
        tensors.input = Tensor(inputs[i]->data(), kDType, kDevice, {kRows, kCols});
        tensors.dbias =
            Tensor(static_cast<uint16_t*>(dbias.data()) + i * kCols, kDType, kDevice, {kCols});
        tensors.workspace = Tensor(workspace.data(), DType::kFloat32, kDevice,
                                   {kRows / numerics::DbiasChunkRows(false), kCols});
        RunCall(config, tensors, nullptr);
      }
      Synchronize(kDevice, nullptr);
    }
    const std::vector<uint8_t> actual = dbias.Download();
    for (int i = 0; i < kCalls; ++i) {
      const std::vector<DbiasRange> ranges =
          MakeDbiasRanges(config, values[i].data(), nullptr, kRows, kRows, kCols);
      int wrong_sums = 0;
      for (int64_t col = 0; col < kCols; ++col) {
        wrong_sums += !ranges[col].Contains(Decode(kDType, actual.data(), i * kCols + col));
      }
      EXPECT_EQ(wrong_sums, 0) << "call " << i;
    }
  }
}

// Finds a kernel that does not wait for the one before it although it is launched while that one
// runs: each reads what the one before has just written, and writes what others have just read.
TEST_F(ExecutionTest, EachKernelFeedsTheNext) {
  constexpr int64_t kRounds = 16;
  constexpr DType kDType = DType::kBFloat16;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{128, 128}, {1024, 4096}}) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(cols));
    const auto elements = static_cast<size_t>(rows * cols);
    const int64_t num_scales = rows * cols / 32;
    // Codes without NaN, and scales near 1: what is dequantized is quantized without a loss.
    std::vector<uint8_t> codes(kRounds * elements);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = Hash(i) % 127 | (Hash(i) >> 8 & 0x80);
    std::vector<uint8_t> scales(static_cast<size_t>(num_scales));
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = 120 + Hash(i) % 16;

    const auto rowwise = [m = rows, n = cols](void* data, void* scale_inv, Device device) {
      QuantizedTensor tensor;
      tensor.rowwise_data = Tensor(data, DType::kFloat8E4M3, device, {m, n});
      tensor.rowwise_scale_inv = Tensor(scale_inv, DType::kFloat8E8M0, device, {m, n / 32});
      return tensor;
    };
    const auto values = [m = rows, n = cols](void* data, Device device) {
      return Tensor(data, kDType, device, {m, n});
    };
    std::vector<uint8_t> expected(codes.size() * 2);
    GpuBuffer first_data(codes.size(), 0);
    first_data.Upload(codes.data(), codes.size());
    GpuBuffer first_scales(scales.size(), 0);
    first_scales.Upload(scales.data(), scales.size());
    GpuBuffer results(expected.size(), 0);
    GpuBuffer input(elements * 2, 0);
    GpuBuffer data(elements, 0);
    GpuBuffer compact(scales.size(), 0);
    GpuBuffer swizzled(scales.size(), 0);
    const auto round = [](auto* memory, int64_t i, size_t bytes) {
      return static_cast<void*>(static_cast<uint8_t*>(memory) + static_cast<size_t>(i) * bytes);
    };
    for (int64_t i = 0; i < kRounds; ++i) {
      Dequantize(rowwise(round(codes.data(), i, elements), scales.data(), Device{}),
                 values(round(expected.data(), i, 2 * elements), Device{}), nullptr);
    }
    for (BackendMode mode : kModes) {
      SetBackendMode(mode);
      for (int repeat = 0; repeat < 2; ++repeat) {  // the first loads kernels, which waits
        results.Fill(kPoison, nullptr);
        for (int64_t i = 0; i < kRounds; ++i) {
          Dequantize(rowwise(round(first_data.data(), i, elements), first_scales.data(), kDevice),
                     values(input.data(), kDevice), nullptr);
          const QuantizedTensor cast = rowwise(data.data(), compact.data(), kDevice);
          Quantize(values(input.data(), kDevice), cast, {}, nullptr);
          QuantizedTensor rearranged = rowwise(data.data(), swizzled.data(), kDevice);
          rearranged.swizzled_scales = true;
          SwizzleScales(cast, rearranged, nullptr);
          Dequantize(rearranged, values(round(results.data(), i, 2 * elements), kDevice), nullptr);
        }
        Synchronize(kDevice, nullptr);
      }
      EXPECT_FALSE(results.Compare(expected, kPoison).found);
    }
  }
}

// Finds launches on the current device instead of the tensors', kernels that are loaded for one
// device only, and a current device that is another one after the call.
TEST_F(ExecutionTest, TensorsOfAnotherDevice) {
  int count = 0;
  CUTEDSL_QUANT_CUDA(cudaGetDeviceCount(&count));
  if (count < 2) {
    ASSERT_FALSE(TwoGpusAreRequired()) << "there is " << count << " GPU";
    GTEST_SKIP() << "needs two GPUs; there is " << count;
  }
  for (const Call& call : SomeCalls()) {
    for (BackendMode mode : kModes) {
      SetBackendMode(mode);
      for (int32_t current : {0, 1}) {
        SCOPED_TRACE("device " + std::to_string(current) + " is the current one");
        const Device other = {DeviceType::kCuda, 1 - current};
        CUTEDSL_QUANT_CUDA(cudaSetDevice(current));
        Work work(call, {{320, 1056}}, other);
        work.SetValues(ValueClass::kNormal);
        work.Prepare(nullptr);
        work.Launch(nullptr);
        int after = -1;
        CUTEDSL_QUANT_CUDA(cudaGetDevice(&after));
        EXPECT_EQ(after, current);
        Synchronize(other, nullptr);
        EXPECT_EQ(work.Check(), "") << call.Name();
      }
    }
  }
  CUTEDSL_QUANT_CUDA(cudaSetDevice(0));
}

// Finds a view with strides that is read as if it were contiguous, by any function.
TEST_F(ExecutionTest, StridedInputIsRefused) {
  const std::vector<int64_t> dims = {32, 32};
  const int64_t strides[] = {64, 1};
  GpuBuffer input(64 * 64 * 2, 0);
  GpuBuffer data(32 * 32, 0);
  GpuBuffer scales(32, 0);
  data.Fill(kPoison, nullptr);
  for (Call call : SomeCalls()) {
    for (bool act_input : {false, true}) {
      if (act_input && !call.config.with_dact) continue;
      CallTensors tensors;
      tensors.input = MakeTensor(input.data(), DType::kBFloat16, kDevice, dims);
      tensors.act_input = tensors.input;
      (act_input ? tensors.act_input : tensors.input).strides = strides;
      tensors.output.rowwise_data = MakeTensor(data.data(), DType::kFloat8E4M3, kDevice, dims);
      tensors.output.rowwise_scale_inv =
          MakeTensor(scales.data(), DType::kFloat8E8M0, kDevice, {32, 1});
      tensors.dbias = Tensor(input.data(), DType::kBFloat16, kDevice, {32});
      const char* const name = act_input ? "act_input" : call.config.with_dact ? "grad" : "input";
      try {
        RunCall(call.config, tensors, nullptr);
        ADD_FAILURE() << "no error for a strided " << name;
      } catch (const InvalidArgument& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find(name), std::string::npos) << message;
        EXPECT_NE(message.find("64"), std::string::npos) << message;
      }
      CUTEDSL_QUANT_CUDA(cudaDeviceSynchronize());
      EXPECT_FALSE(data.Compare(std::vector<uint8_t>(data.size(), kPoison), kPoison).found);
    }
  }
}

}  // namespace
}  // namespace testing
}  // namespace cutedsl_quant
