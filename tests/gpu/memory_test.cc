// One configuration of every kernel family at ragged shapes, each tensor in memory of its own and
// just as large as it has to be. Short, and made to be run under compute-sanitizer, whose tools
// then see every access outside a tensor (memcheck), every use of what nobody wrote (initcheck) and
// every race in shared memory (racecheck).
#include <gtest/gtest.h>

#include <vector>

#include "common/numerics.h"
#include "cutedsl_quant/quantize.h"
#include "tests/gpu/expected.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/harness.h"
#include "tests/gpu/values.h"
#include "tools/bench/fusions.h"

namespace cutedsl_quant {
namespace testing {
namespace {

// Owns the memory of the tensors of one call.
class Memory {
 public:
  ~Memory() {
    for (void* pointer : allocations_) cudaFree(pointer);
  }
  // Filled with the byte `fill`, or uninitialised.
  Tensor Make(DType dtype, int64_t rows, int64_t cols, int fill = -1) {
    const auto bytes = static_cast<size_t>(rows * cols * ElementSize(dtype));
    void* data = nullptr;
    CUTEDSL_QUANT_CUDA(cudaMalloc(&data, bytes));
    allocations_.push_back(data);
    if (fill >= 0) CUTEDSL_QUANT_CUDA(cudaMemset(data, fill, bytes));
    return Tensor(data, dtype, kDevice, {rows, cols});
  }

 private:
  std::vector<void*> allocations_;
};

Tensor MakeScales(Memory& memory, const QuantizeConfig& config, bool colwise, int64_t m,
                  int64_t n) {
  const ScaleLayout layout = config.swizzled ? ScaleLayout::kSwizzled : ScaleLayout::kExact;
  const numerics::ScaleShape shape = ScaleShapeOf(layout, colwise, m, n);
  return memory.Make(DType::kFloat8E8M0, shape.rows, shape.cols);
}

QuantizedTensor MakeOutput(Memory& memory, const QuantizeConfig& config, int64_t m, int64_t n) {
  QuantizedTensor output;
  output.swizzled_scales = config.swizzled;
  if (config.rowwise) {
    output.rowwise_data = memory.Make(config.fp8_dtype, m, n);
    output.rowwise_scale_inv = MakeScales(memory, config, /*colwise=*/false, m, n);
  }
  if (config.colwise) {
    output.columnwise_data = memory.Make(config.fp8_dtype, m, n);
    output.columnwise_scale_inv = MakeScales(memory, config, /*colwise=*/true, m, n);
  }
  output.amax = memory.Make(DType::kFloat32, 1, 1, 0);
  return output;
}

void RunEverything(const QuantizeConfig& config, int64_t m, int64_t n) {
  Memory memory;
  constexpr int kFill = 0x3F;  // an ordinary number in every type
  bench::CallTensors tensors;
  tensors.input = memory.Make(config.dtype, m, n, kFill);
  tensors.act_input = memory.Make(config.dtype, m, n, kFill);
  tensors.output = MakeOutput(memory, config, m, n);
  tensors.dbias = memory.Make(config.dtype, 1, n);
  tensors.options.use_2d_blocks = config.use_2d_quantization;
  if (config.with_dbias) {
    bench::RunCall(config, tensors, nullptr);
    const Tensor& described = tensors.workspace;
    tensors.workspace = memory.Make(DType::kFloat32, described.rows(), described.cols());
  }
  bench::RunCall(config, tensors, nullptr);
  Dequantize(tensors.output, tensors.act_input, nullptr);
  if (config.rowwise && config.colwise) {
    QuantizeConfig other = config;
    other.swizzled = !config.swizzled;
    const QuantizedTensor moved = MakeOutput(memory, other, m, n);
    (config.swizzled ? UnswizzleScales : SwizzleScales)(tensors.output, moved, nullptr);
  }
  CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(nullptr));
}

class MemoryTest : public GpuTest {};

// Finds, under compute-sanitizer, any kernel that touches what it must not.
TEST_F(MemoryTest, EveryKernelFamily) {
  std::vector<QuantizeConfig> fusions = bench::AllFusions();
  fusions.push_back(QuantizeConfig());
  fusions.back().use_2d_quantization = true;
  for (QuantizeConfig config : fusions) {
    for (const DType dtype : kDTypes) {
      for (int directions = 1; directions <= 3; ++directions) {
        for (const bool swizzled : {false, true}) {
          config.dtype = dtype;
          config.rowwise = directions & 1;
          config.colwise = directions & 2;
          config.swizzled = swizzled;
          config.with_amax = true;
          SCOPED_TRACE(config.Name());
          // The first two are fit for the CuTeDSL kernels, for small tensors and for large ones.
          SetBackendMode(BackendMode::kPackaged);
          EXPECT_NO_THROW(RunEverything(config, 131, 176));
          EXPECT_NO_THROW(RunEverything(config, 4099, 1040));
          SetBackendMode(BackendMode::kOff);
          EXPECT_NO_THROW(RunEverything(config, 131, 176));
          EXPECT_NO_THROW(RunEverything(config, 67, 45));
        }
      }
    }
  }
}

}  // namespace
}  // namespace testing
}  // namespace cutedsl_quant
