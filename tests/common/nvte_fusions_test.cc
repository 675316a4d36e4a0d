// TransformerEngine's names of the fusions: each must do what its namesake of the native API does,
// byte for byte.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cutedsl_quant/quantize.h"
#include "tests/common/allocation_counter.h"
#include "tests/common/cast_case.h"
#include "tests/common/messages.h"
#include "tests/common/nvte_case.h"
#include "transformer_engine/activation.h"
#include "transformer_engine/cast.h"

namespace {

using cutedsl_quant::Activation;
using cutedsl_quant::ActivationName;
using cutedsl_quant::AllocationsOfThread;
using cutedsl_quant::Dims;
using cutedsl_quant::ExpectPieces;
using cutedsl_quant::ExpectSame;
using cutedsl_quant::GuardedBytes;
using cutedsl_quant::HostOutput;
using cutedsl_quant::HostTensor;
using cutedsl_quant::MessageOf;
using cutedsl_quant::QuantizeConfig;
using cutedsl_quant::RandomElements;
using cutedsl_quant::Shape;
using cutedsl_quant::Tensor;
using cutedsl_quant::Wrap;
using transformer_engine::DType;
using transformer_engine::TensorWrapper;

const Shape kShapes[] = {{33, 47}, {2, 65, 64}, {97}};

constexpr struct {
  Activation activation;
  void (*quantize)(NVTETensor input, NVTETensor output, cudaStream_t stream);
} kForward[] = {
    {Activation::kGelu, nvte_gelu},   {Activation::kSilu, nvte_silu},
    {Activation::kRelu, nvte_relu},   {Activation::kQGelu, nvte_qgelu},
    {Activation::kSRelu, nvte_srelu},
};

constexpr struct {
  Activation derivative;
  void (*quantize)(NVTETensor grad, NVTETensor input, NVTETensor output, cudaStream_t stream);
  void (*quantize_dbias)(NVTETensor grad, NVTETensor input, NVTETensor output, NVTETensor dbias,
                         NVTETensor workspace, cudaStream_t stream);
} kBackward[] = {
    {Activation::kDGelu, nvte_dgelu, nvte_quantize_dbias_dgelu},
    {Activation::kDSilu, nvte_dsilu, nvte_quantize_dbias_dsilu},
    {Activation::kDRelu, nvte_drelu, nvte_quantize_dbias_drelu},
    {Activation::kDQGelu, nvte_dqgelu, nvte_quantize_dbias_dqgelu},
    {Activation::kDSRelu, nvte_dsrelu, nvte_quantize_dbias_dsrelu},
};

// Every type and layout once, with both directions and amax.
std::vector<QuantizeConfig> Configs() {
  std::vector<QuantizeConfig> configs;
  for (const QuantizeConfig& config : cutedsl_quant::CastConfigs()) {
    if (config.rowwise && config.colwise && config.with_amax) configs.push_back(config);
  }
  return configs;
}

// A random input in host memory.
struct Input {
  Input(const QuantizeConfig& config, const Shape& shape, uint32_t seed)
      : bytes(RandomElements(HostTensor(nullptr, config.dtype, shape).size(), config.dtype, seed)),
        tensor(HostTensor(bytes.data(), config.dtype, shape)) {}
  std::vector<uint8_t> bytes;
  Tensor tensor;
};

// Catches a function that stands for another activation, or loses a field.
TEST(NvteFusionsTest, ActivationsAreThoseOfTheNativeApi) {
  for (const auto& c : kForward) {
    for (const QuantizeConfig& config : Configs()) {
      for (const Shape& shape : kShapes) {
        SCOPED_TRACE(std::string(ActivationName(c.activation)) + " " + config.Name());
        const Input input(config, shape, 1);
        HostOutput expected(config, shape, false);
        QuantizeActivation(c.activation, input.tensor, expected.tensor, nullptr);
        HostOutput actual(config, shape, false);
        c.quantize(Wrap(input.tensor).data(), Wrap(actual).data(), nullptr);
        ExpectSame(actual, expected);
      }
    }
  }
}

// Catches the same, and gradient and activation input taken for each other.
TEST(NvteFusionsTest, DerivativesAreThoseOfTheNativeApi) {
  for (const auto& c : kBackward) {
    for (const QuantizeConfig& config : Configs()) {
      for (const Shape& shape : kShapes) {
        SCOPED_TRACE(std::string(ActivationName(c.derivative)) + " " + config.Name());
        const Input grad(config, shape, 2), input(config, shape, 3);
        HostOutput expected(config, shape, false);
        QuantizeDActivation(c.derivative, grad.tensor, input.tensor, expected.tensor, nullptr);
        HostOutput actual(config, shape, false);
        c.quantize(Wrap(grad.tensor).data(), Wrap(input.tensor).data(), Wrap(actual).data(),
                   nullptr);
        ExpectSame(actual, expected);
      }
    }
  }
}

// A quantization with column sums by both APIs; `native` and `nvte` are called until they have a
// workspace. The first call must describe it and write nothing.
void CompareDbias(
    const QuantizeConfig& config, const Shape& shape,
    const std::function<void(const HostOutput&, const Tensor& dbias, Tensor* workspace)>& native,
    const std::function<void(NVTETensor output, NVTETensor dbias, NVTETensor workspace)>& nvte) {
  const int64_t cols = HostTensor(nullptr, config.dtype, shape).cols();
  const int64_t dbias_bytes = cols * cutedsl_quant::ElementBytes(config.dtype);

  HostOutput expected(config, shape, false);
  GuardedBytes expected_dbias(dbias_bytes);
  const Tensor native_dbias = HostTensor(expected_dbias.data(), config.dtype, {cols});
  Tensor native_workspace;
  native(expected, native_dbias, &native_workspace);
  std::vector<float> native_memory(native_workspace.size());
  native_workspace.data = native_memory.data();
  native(expected, native_dbias, &native_workspace);

  HostOutput actual(config, shape, false);
  const TensorWrapper output = Wrap(actual);
  GuardedBytes actual_dbias(dbias_bytes);
  const TensorWrapper dbias = Wrap(HostTensor(actual_dbias.data(), config.dtype, {cols}));
  TensorWrapper query;
  nvte(output.data(), dbias.data(), query.data());
  EXPECT_TRUE(actual.untouched() && actual_dbias.untouched());
  EXPECT_EQ(Dims(query.shape()), Dims(native_workspace));
  EXPECT_EQ(query.dtype(), DType::kFloat32);
  EXPECT_EQ(query.dptr(), nullptr);

  GuardedBytes memory(query.numel() * sizeof(float));
  const TensorWrapper workspace(memory.data(), query.shape(), query.dtype());
  nvte(output.data(), dbias.data(), workspace.data());
  EXPECT_EQ(Dims(workspace.shape()), Dims(query.shape()));
  ExpectSame(actual, expected);
  EXPECT_EQ(actual_dbias.contents(), expected_dbias.contents());
  EXPECT_TRUE(actual_dbias.guards_intact() && memory.guards_intact());
}

// Catches a workspace that is described wrongly or not looked at, and sums that end up elsewhere.
TEST(NvteFusionsTest, DbiasIsThatOfTheNativeApi) {
  for (const QuantizeConfig& config : Configs()) {
    for (const Shape& shape : {Shape{33, 47}, Shape{3, 100, 64}}) {
      SCOPED_TRACE(config.Name());
      const Input input(config, shape, 4);
      const TensorWrapper wrapper = Wrap(input.tensor);
      CompareDbias(
          config, shape,
          [&](const HostOutput& output, const Tensor& dbias, Tensor* workspace) {
            QuantizeDbias(input.tensor, output.tensor, dbias, workspace, nullptr);
          },
          [&](NVTETensor output, NVTETensor dbias, NVTETensor workspace) {
            nvte_quantize_dbias(wrapper.data(), output, dbias, workspace, nullptr);
          });
    }
  }
}

TEST(NvteFusionsTest, DbiasOfDerivativesIsThatOfTheNativeApi) {
  const Shape shape = {130, 97};
  for (const auto& c : kBackward) {
    for (const QuantizeConfig& config : Configs()) {
      SCOPED_TRACE(std::string(ActivationName(c.derivative)) + " " + config.Name());
      const Input grad(config, shape, 5), input(config, shape, 6);
      const TensorWrapper grad_wrapper = Wrap(grad.tensor), input_wrapper = Wrap(input.tensor);
      CompareDbias(
          config, shape,
          [&](const HostOutput& output, const Tensor& dbias, Tensor* workspace) {
            QuantizeDbiasDActivation(c.derivative, grad.tensor, input.tensor, output.tensor, dbias,
                                     workspace, nullptr);
          },
          [&](NVTETensor output, NVTETensor dbias, NVTETensor workspace) {
            c.quantize_dbias(grad_wrapper.data(), input_wrapper.data(), output, dbias, workspace,
                             nullptr);
          });
    }
  }
}

// Catches column sums of no rows that stay what was in memory, and null pointers that are an error.
TEST(NvteFusionsTest, EmptyTensorsNeedNoMemory) {
  const std::vector<size_t> shape = {0, 8};
  const TensorWrapper input(nullptr, shape, DType::kBFloat16);
  TensorWrapper output(NVTE_MXFP8_1D_SCALING);
  output.set_rowwise_data(nullptr, DType::kFloat8E4M3, shape);
  EXPECT_NO_THROW(nvte_gelu(input.data(), output.data(), nullptr));
  EXPECT_NO_THROW(nvte_dgelu(input.data(), input.data(), output.data(), nullptr));

  const auto expect_zeroed = [&](const auto& call) {
    GuardedBytes sums(8 * 2);
    const TensorWrapper dbias(sums.data(), std::vector<size_t>{8}, DType::kBFloat16);
    const TensorWrapper workspace;
    call(dbias.data(), workspace.data());
    EXPECT_EQ(sums.contents(), std::vector<uint8_t>(8 * 2, 0));
    EXPECT_TRUE(sums.guards_intact());
    EXPECT_EQ(Dims(workspace.shape()), shape);
    EXPECT_EQ(workspace.dtype(), DType::kFloat32);
  };
  expect_zeroed([&](NVTETensor dbias, NVTETensor workspace) {
    nvte_quantize_dbias(input.data(), output.data(), dbias, workspace, nullptr);
  });
  expect_zeroed([&](NVTETensor dbias, NVTETensor workspace) {
    nvte_quantize_dbias_dgelu(input.data(), input.data(), output.data(), dbias, workspace, nullptr);
  });
}

// Catches messages that name another function or argument, and crashes on null.
TEST(NvteFusionsTest, Errors) {
  QuantizeConfig config;
  config.rowwise = true;
  const Shape shape = {32, 64};
  const Input input(config, shape, 7);
  HostOutput memory(config, shape, false);
  const TensorWrapper in = Wrap(input.tensor), out = Wrap(memory), nothing;
  const TensorWrapper short_dbias = Wrap(HostTensor(input.tensor.data, config.dtype, {63}));
  const TensorWrapper dbias = Wrap(HostTensor(input.tensor.data, config.dtype, {64}));
  const TensorWrapper small_workspace(memory.rowwise_data.data(), std::vector<size_t>{1, 63},
                                      DType::kFloat32);
  const struct {
    std::function<void()> call;
    std::vector<const char*> pieces;
  } cases[] = {
      {[&] { nvte_gelu(nullptr, out.data(), nullptr); }, {"nvte_gelu: input", "null"}},
      {[&] { nvte_silu(in.data(), nullptr, nullptr); }, {"nvte_silu: output", "null"}},
      {[&] { nvte_relu(in.data(), in.data(), nullptr); },
       {"nvte_relu: output", "scaling mode 0", "NVTE_MXFP8_1D_SCALING"}},
      {[&] { nvte_dgelu(nullptr, in.data(), out.data(), nullptr); }, {"nvte_dgelu: grad", "null"}},
      {[&] { nvte_dsilu(in.data(), nullptr, out.data(), nullptr); },
       {"nvte_dsilu: act_input", "null"}},
      {[&] { nvte_drelu(in.data(), nothing.data(), out.data(), nullptr); },
       {"nvte_drelu: act_input"}},
      {[&] {
         nvte_quantize_dbias(in.data(), out.data(), short_dbias.data(), nothing.data(), nullptr);
       },
       {"nvte_quantize_dbias: dbias", "(63)", "(64)"}},
      {[&] { nvte_quantize_dbias(in.data(), out.data(), nullptr, nothing.data(), nullptr); },
       {"nvte_quantize_dbias: dbias", "null"}},
      {[&] { nvte_quantize_dbias(in.data(), out.data(), dbias.data(), nullptr, nullptr); },
       {"nvte_quantize_dbias: workspace", "null"}},
      {[&] {
         nvte_quantize_dbias_dsrelu(in.data(), in.data(), out.data(), dbias.data(),
                                    small_workspace.data(), nullptr);
       },
       {"nvte_quantize_dbias_dsrelu: workspace", "(1, 63)", "(1, 64)"}},
      {[&] {
         nvte_quantize_dbias_dgelu(in.data(), nullptr, out.data(), dbias.data(), nothing.data(),
                                   nullptr);
       },
       {"nvte_quantize_dbias_dgelu: act_input", "null"}},
  };
  for (const auto& c : cases) ExpectPieces(MessageOf(c.call), c.pieces);
}

// Catches an allocation that the translation adds to every call.
TEST(NvteFusionsTest, WarmCallsDoNotAllocate) {
  QuantizeConfig config;
  config.rowwise = config.colwise = true;
  const Shape shape = {64, 64};
  const Input input(config, shape, 8);
  HostOutput memory(config, shape, false);
  const TensorWrapper in = Wrap(input.tensor), output = Wrap(memory), query;
  std::vector<float> sums(64), partial_sums(64);
  const TensorWrapper dbias(sums.data(), std::vector<size_t>{64}, DType::kBFloat16);
  const TensorWrapper workspace(partial_sums.data(), std::vector<size_t>{1, 64}, DType::kFloat32);
  const auto call = [&] {
    nvte_gelu(in.data(), output.data(), nullptr);
    nvte_dgelu(in.data(), in.data(), output.data(), nullptr);
    nvte_quantize_dbias(in.data(), output.data(), dbias.data(), query.data(), nullptr);
    nvte_quantize_dbias_dgelu(in.data(), in.data(), output.data(), dbias.data(), workspace.data(),
                              nullptr);
  };
  call();
  const int64_t before = AllocationsOfThread();
  call();
  EXPECT_EQ(AllocationsOfThread(), before);
}

}  // namespace
