// TransformerEngine's names: handles that keep what they are given, and calls that are translated
// whole.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cutedsl_quant/backend.h"
#include "tests/common/allocation_counter.h"
#include "tests/common/cast_case.h"
#include "tests/common/messages.h"
#include "tests/common/nvte_case.h"
#include "transformer_engine/cast.h"
#include "transformer_engine/transformer_engine.h"

namespace {

using cutedsl_quant::BackendMode;
using cutedsl_quant::CastConfigs;
using cutedsl_quant::Dims;
using cutedsl_quant::ExpectPieces;
using cutedsl_quant::ExpectSame;
using cutedsl_quant::GuardedBytes;
using cutedsl_quant::HostOutput;
using cutedsl_quant::HostTensor;
using cutedsl_quant::MessageOf;
using cutedsl_quant::QuantizeConfig;
using cutedsl_quant::QuantizeOptions;
using cutedsl_quant::RandomElements;
using cutedsl_quant::Tensor;
using cutedsl_quant::Wrap;
using transformer_engine::DType;
using transformer_engine::QuantizationConfigWrapper;
using transformer_engine::TensorWrapper;

// Catches a value that differs from TransformerEngine's: callers pass them as numbers.
TEST(NvteTest, EnumerationsHaveTransformerEnginesValues) {
  EXPECT_EQ(kNVTEByte, 0);
  EXPECT_EQ(kNVTEFloat32, 4);
  EXPECT_EQ(kNVTEBFloat16, 6);
  EXPECT_EQ(kNVTEFloat8E8M0, 9);
  EXPECT_EQ(kNVTEFloat4E2M1, 10);
  EXPECT_EQ(kNVTERowwiseData, 0);
  EXPECT_EQ(kNVTEColumnwiseData, 1);
  EXPECT_EQ(kNVTEScale, 2);
  EXPECT_EQ(kNVTEAmax, 3);
  EXPECT_EQ(kNVTERowwiseScaleInv, 4);
  EXPECT_EQ(kNVTEColumnwiseScaleInv, 5);
  EXPECT_EQ(kNVTEColumnwiseAmax, 6);
  EXPECT_EQ(kNVTEWithGEMMSwizzledScales, 7);
  EXPECT_EQ(kNVTERowScaledNVFP4, 8);
  EXPECT_EQ(kNVTENVFP4E4M3Max, 9);
  EXPECT_EQ(NVTE_MXFP8_1D_SCALING, 1);
  EXPECT_EQ(kNVTEQuantizationConfigNoopTensor, 2);
  EXPECT_EQ(kNVTEQuantizationConfigMXFP82DQuantization, 10);
  EXPECT_EQ(sizeof(NVTEShape), 16 * sizeof(size_t));
}

// Catches a parameter that is stored under another's name or read back changed.
TEST(NvteTest, TensorsKeepTheirParameters) {
  char memory[8];
  const NVTETensor tensor = nvte_create_tensor(NVTE_MXFP8_1D_SCALING);
  EXPECT_EQ(nvte_tensor_scaling_mode(tensor), NVTE_MXFP8_1D_SCALING);
  EXPECT_EQ(nvte_tensor_data(tensor), nullptr);
  EXPECT_EQ(nvte_tensor_numel(tensor), 0u);
  for (int param = 0; param < kNVTEWithGEMMSwizzledScales; ++param) {
    const size_t dims[] = {size_t(param) + 1, 5};
    const NVTEBasicTensor view = {memory + param, static_cast<NVTEDType>(param),
                                  nvte_make_shape(dims, 2)};
    nvte_set_tensor_param_v2(tensor, static_cast<NVTETensorParam>(param), &view, sizeof(view));
  }
  for (int param = 0; param < kNVTEWithGEMMSwizzledScales; ++param) {
    const NVTEBasicTensor view = nvte_get_tensor_param(tensor, static_cast<NVTETensorParam>(param));
    EXPECT_EQ(view.data_ptr, memory + param);
    EXPECT_EQ(view.dtype, param);
    EXPECT_EQ(Dims(view.shape), (std::vector<size_t>{size_t(param) + 1, 5}));
    NVTEBasicTensor again = {};
    size_t written = 0;
    nvte_get_tensor_param_v2(tensor, static_cast<NVTETensorParam>(param), &again, sizeof(again),
                             &written);
    EXPECT_EQ(written, sizeof(again));
    EXPECT_EQ(std::memcmp(&again, &view, sizeof(view)), 0);
  }
  EXPECT_EQ(nvte_tensor_data(tensor), memory + kNVTERowwiseData);
  EXPECT_EQ(nvte_tensor_columnwise_data(tensor), memory + kNVTEColumnwiseData);
  EXPECT_EQ(static_cast<void*>(nvte_tensor_scale(tensor)), memory + kNVTEScale);
  EXPECT_EQ(static_cast<void*>(nvte_tensor_amax(tensor)), memory + kNVTEAmax);
  EXPECT_EQ(static_cast<void*>(nvte_tensor_scale_inv(tensor)), memory + kNVTERowwiseScaleInv);
  EXPECT_EQ(Dims(nvte_tensor_scale_inv_shape(tensor)),
            (std::vector<size_t>{kNVTERowwiseScaleInv + 1, 5}));
  EXPECT_EQ(Dims(nvte_tensor_columnwise_shape(tensor)),
            (std::vector<size_t>{kNVTEColumnwiseData + 1, 5}));

  uint8_t swizzled = 1;
  nvte_set_tensor_param_v2(tensor, kNVTEWithGEMMSwizzledScales, &swizzled, 1);
  swizzled = 0;
  size_t written = 0;
  nvte_get_tensor_param_v2(tensor, kNVTEWithGEMMSwizzledScales, &swizzled, 1, &written);
  EXPECT_EQ(swizzled, 1);
  EXPECT_EQ(written, 1u);

  const int32_t e4m3_max = 256;
  nvte_set_tensor_param_v2(tensor, kNVTENVFP4E4M3Max, &e4m3_max, sizeof(e4m3_max));
  int32_t kept = 0;
  nvte_get_tensor_param_v2(tensor, kNVTENVFP4E4M3Max, &kept, sizeof(kept), &written);
  EXPECT_EQ(kept, 256);
  EXPECT_EQ(written, 4u);
  nvte_set_tensor_param_v2(tensor, kNVTERowScaledNVFP4, &swizzled, 1);
  nvte_get_tensor_param_v2(tensor, kNVTERowScaledNVFP4, nullptr, 0, &written);
  EXPECT_EQ(written, 1u);

  NVTETensor handle = tensor;
  const NVTEBasicTensor other = {memory, kNVTEInt16, nvte_make_shape(nullptr, 3)};
  nvte_set_tensor_param(&handle, kNVTEScale, &other);
  EXPECT_EQ(Dims(nvte_get_tensor_param(tensor, kNVTEScale).shape), (std::vector<size_t>{0, 0, 0}));
  nvte_destroy_tensor(tensor);
  nvte_destroy_tensor(nullptr);
}

// Catches sizes that forget a dimension, a type, or that only the columnwise data is there.
TEST(NvteTest, SizesAndTypes) {
  char memory[1];
  TensorWrapper tensor(memory, std::vector<size_t>{2, 3, 5}, DType::kBFloat16);
  EXPECT_EQ(tensor.ndim(), 3u);
  EXPECT_EQ(tensor.size(2), 5u);
  EXPECT_EQ(tensor.numel(), 30u);
  EXPECT_EQ(tensor.element_size(), 2u);
  EXPECT_EQ(tensor.element_size_bits(), 16u);
  EXPECT_EQ(tensor.bytes(), 60u);
  EXPECT_EQ(tensor.dtype(), DType::kBFloat16);
  EXPECT_EQ(tensor.scaling_mode(), NVTE_DELAYED_TENSOR_SCALING);
  EXPECT_EQ(tensor.amax(), nullptr);
  EXPECT_EQ(Dims(tensor.scale_inv_shape()), std::vector<size_t>{0});

  TensorWrapper columnwise(NVTE_MXFP8_1D_SCALING);
  columnwise.set_columnwise_data(memory, DType::kFloat8E5M2, std::vector<size_t>{4, 7});
  EXPECT_EQ(columnwise.numel(), 28u);
  EXPECT_EQ(columnwise.dtype(), DType::kFloat8E5M2);
  EXPECT_EQ(columnwise.dptr(), nullptr);
  EXPECT_EQ(columnwise.bytes(), 0u);
  EXPECT_EQ(columnwise.columnwise_dptr(), memory);

  TensorWrapper scalar(memory, std::vector<size_t>{}, DType::kInt64);
  EXPECT_EQ(scalar.numel(), 1u);
  EXPECT_EQ(scalar.bytes(), 8u);
  TensorWrapper fp4(memory, std::vector<size_t>{3}, DType::kFloat4E2M1);
  EXPECT_EQ(fp4.bytes(), 2u);
  EXPECT_NE(MessageOf([&] { fp4.element_size(); }).find("nvte_tensor_element_size"),
            std::string::npos);
}

// Catches a handle that is freed twice or lost when its wrapper moves (under a sanitizer), and
// questions to one that was moved from.
TEST(NvteTest, WrappersMove) {
  char memory[1];
  float amax = 0;
  TensorWrapper first(memory, std::vector<size_t>{2}, DType::kByte, &amax);
  EXPECT_EQ(first.amax(), &amax);
  TensorWrapper second(std::move(first));
  EXPECT_EQ(second.dptr(), memory);
  EXPECT_EQ(first.dptr(), nullptr);  // NOLINT: what is tested
  EXPECT_EQ(first.numel(), 0u);
  EXPECT_EQ(first.dtype(), DType::kNumTypes);
  first = std::move(second);
  EXPECT_EQ(first.dptr(), memory);
  QuantizationConfigWrapper config;
  QuantizationConfigWrapper moved(std::move(config));
  config = std::move(moved);
  EXPECT_NE(static_cast<NVTEQuantizationConfig>(config), nullptr);
}

// Catches an attribute that another one overwrites, or of another size than callers pass.
TEST(NvteTest, QuantizationConfigsKeepTheirAttributes) {
  float noop_value = 0;
  TensorWrapper noop(&noop_value, std::vector<size_t>{1}, DType::kFloat32);
  QuantizationConfigWrapper config;
  config.set_force_pow_2_scales(true);
  config.set_amax_epsilon(0.5f);
  config.set_noop_tensor(noop.data());
  config.set_rng_state(noop.data());
  config.set_nvfp4_2d_quantization(true);
  config.set_stochastic_rounding(true);
  config.set_use_fast_math(true);
  config.set_nvfp4_4over6_mode(kNVTENVFP44Over6MinMSE);
  config.set_nvfp4_4over6_err_use_fast_math(true);
  config.set_mxfp8_2d_quantization(true);
  NVTETensor tensor = nullptr;
  size_t written = 0;
  nvte_get_quantization_config_attribute(config, kNVTEQuantizationConfigNoopTensor, &tensor,
                                         sizeof(tensor), &written);
  EXPECT_EQ(tensor, noop.data());
  EXPECT_EQ(written, sizeof(tensor));
  float epsilon = 0;
  nvte_get_quantization_config_attribute(config, kNVTEQuantizationConfigAmaxEpsilon, &epsilon,
                                         sizeof(epsilon), &written);
  EXPECT_EQ(epsilon, 0.5f);
  nvte_get_quantization_config_attribute(config, kNVTEQuantizationConfigUseFastMath, nullptr, 0,
                                         &written);
  EXPECT_EQ(written, 1u);
  uint8_t mode = 0;
  nvte_get_quantization_config_attribute(config, kNVTEQuantizationConfigNVFP44Over6Mode, &mode, 1,
                                         &written);
  EXPECT_EQ(mode, kNVTENVFP44Over6MinMSE);
  EXPECT_EQ(written, 1u);
}

// Catches a field that is lost between the handles and the native call: every cast must give the
// same bytes as the native API, noop included.
TEST(NvteTest, QuantizesLikeTheNativeApi) {
  const cutedsl_quant::Shape shapes[] = {{33, 47}, {2, 3, 64}, {97}};
  for (const QuantizeConfig& config : CastConfigs()) {
    for (const auto& shape : shapes) {
      const Tensor view = HostTensor(nullptr, config.dtype, shape);
      std::vector<uint8_t> bytes = RandomElements(view.size(), config.dtype, 5);
      TensorWrapper input(bytes.data(), Dims(view), static_cast<DType>(config.dtype));
      for (float noop_value : {0.0f, 1.0f}) {
        SCOPED_TRACE(config.Name());
        TensorWrapper noop(&noop_value, std::vector<size_t>{1}, DType::kFloat32);
        QuantizeOptions options;
        options.noop = HostTensor(&noop_value, cutedsl_quant::DType::kFloat32, {1});
        HostOutput expected(config, shape, false);
        Quantize(HostTensor(bytes.data(), config.dtype, shape), expected.tensor, options, nullptr);

        HostOutput by_noop(config, shape, false);
        nvte_quantize_noop(input.data(), Wrap(by_noop).data(), noop.data(), nullptr);
        ExpectSame(by_noop, expected);

        HostOutput by_config(config, shape, false);
        QuantizationConfigWrapper quantization_config;
        quantization_config.set_noop_tensor(noop.data());
        nvte_quantize_v2(input.data(), Wrap(by_config).data(), quantization_config, nullptr);
        ExpectSame(by_config, expected);

        if (noop_value == 1.0f) continue;
        HostOutput plain(config, shape, false);
        nvte_quantize(input.data(), Wrap(plain).data(), nullptr);
        ExpectSame(plain, expected);
        HostOutput without_noop(config, shape, false);
        nvte_quantize_noop(input.data(), Wrap(without_noop).data(), TensorWrapper().data(),
                           nullptr);
        ExpectSame(without_noop, expected);
        HostOutput without_config(config, shape, false);
        nvte_quantize_v2(input.data(), Wrap(without_config).data(), nullptr, nullptr);
        ExpectSame(without_config, expected);
      }
    }
  }
}

// Catches blocks that stay 1x32 and 32x1 when the config asks for 32x32.
TEST(NvteTest, QuantizesTwoDimensionalBlocksLikeTheNativeApi) {
  QuantizationConfigWrapper quantization_config;
  quantization_config.set_mxfp8_2d_quantization(true);
  QuantizeOptions options;
  options.use_2d_blocks = true;
  const cutedsl_quant::Shape shape = {70, 97};
  for (const QuantizeConfig& config : CastConfigs()) {
    std::vector<uint8_t> bytes = RandomElements(70 * 97, config.dtype, 9);
    const Tensor view = HostTensor(bytes.data(), config.dtype, shape);
    HostOutput expected(config, shape, false);
    Quantize(view, expected.tensor, options, nullptr);
    HostOutput actual(config, shape, false);
    nvte_quantize_v2(Wrap(view).data(), Wrap(actual).data(), quantization_config, nullptr);
    SCOPED_TRACE(config.Name());
    ExpectSame(actual, expected);
  }
}

// Catches a tensor of a list that is left out, mixed up with another, or has no elements.
TEST(NvteTest, QuantizesListsLikeTheirTensors) {
  const cutedsl_quant::Shape shapes[] = {{33, 47}, {0, 64}, {2, 3, 64}};
  QuantizeConfig config;
  config.rowwise = config.colwise = true;
  std::vector<std::vector<uint8_t>> memory;
  std::vector<TensorWrapper> wrappers;
  std::vector<NVTETensor> inputs, outputs;
  std::deque<HostOutput> actual, expected;
  for (const auto& shape : shapes) {
    const int64_t size = HostTensor(nullptr, config.dtype, shape).size();
    memory.push_back(RandomElements(size, config.dtype, 10));
    const Tensor view = HostTensor(memory.back().data(), config.dtype, shape);
    expected.emplace_back(config, shape, false);
    actual.emplace_back(config, shape, false);
    Quantize(view, expected.back().tensor, {}, nullptr);
    wrappers.push_back(Wrap(view));
    inputs.push_back(wrappers.back().data());
    wrappers.push_back(Wrap(actual.back()));
    outputs.push_back(wrappers.back().data());
  }
  nvte_multi_tensor_quantize(inputs.data(), outputs.data(), nullptr, 3, nullptr);
  for (int i = 0; i < 3; ++i) ExpectSame(actual[i], expected[i]);
  nvte_multi_tensor_quantize(nullptr, nullptr, nullptr, 0, nullptr);
}

// Catches bytes that are left over, a write beyond the tensor, or one through a null pointer.
TEST(NvteTest, ZeroesTensors) {
  GuardedBytes data(2 * 3 * 5);
  float amax = 7;
  TensorWrapper tensor(data.data(), std::vector<size_t>{3, 5}, DType::kBFloat16, &amax);
  tensor.zero_(nullptr);
  EXPECT_EQ(data.contents(), std::vector<uint8_t>(30, 0));
  EXPECT_TRUE(data.guards_intact());
  EXPECT_EQ(amax, 0);
  TensorWrapper(NVTE_MXFP8_1D_SCALING).zero_(nullptr);
  nvte_zero_tensor(nullptr, nullptr);
}

// Catches the same in the other direction.
TEST(NvteTest, DequantizesLikeTheNativeApi) {
  for (const QuantizeConfig& config : CastConfigs()) {
    const cutedsl_quant::Shape shape = {130, 97};
    std::vector<uint8_t> bytes = RandomElements(130 * 97, config.dtype, 6);
    HostOutput quantized(config, shape, false);
    Quantize(HostTensor(bytes.data(), config.dtype, shape), quantized.tensor, {}, nullptr);
    std::vector<uint8_t> expected(bytes.size());
    Dequantize(quantized.tensor, HostTensor(expected.data(), config.dtype, shape), nullptr);
    std::vector<uint8_t> actual(bytes.size());
    TensorWrapper output(actual.data(), std::vector<size_t>{130, 97},
                         static_cast<DType>(config.dtype));
    nvte_dequantize(Wrap(quantized).data(), output.data(), nullptr);
    EXPECT_EQ(actual, expected) << config.Name();
  }
}

// Catches an error for tensors without elements, whose pointers are null more often than not.
TEST(NvteTest, EmptyTensorsNeedNoMemory) {
  TensorWrapper input(nullptr, std::vector<size_t>{0, 64}, DType::kBFloat16);
  TensorWrapper quantized(NVTE_MXFP8_1D_SCALING);
  quantized.set_rowwise_data(nullptr, DType::kFloat8E4M3, std::vector<size_t>{0, 64});
  EXPECT_NO_THROW(nvte_quantize(input.data(), quantized.data(), nullptr));
  EXPECT_NO_THROW(nvte_dequantize(quantized.data(), input.data(), nullptr));
}

// Catches messages that name the native function or leave the tensor or value out, and crashes on
// null.
TEST(NvteTest, Errors) {
  char memory[64] = {};
  TensorWrapper input(memory, std::vector<size_t>{1, 1}, DType::kBFloat16);
  TensorWrapper unallocated(nullptr, std::vector<size_t>{1, 1}, DType::kBFloat16);
  TensorWrapper wrong_mode(memory, std::vector<size_t>{1, 1}, DType::kFloat8E4M3);
  TensorWrapper nothing(NVTE_MXFP8_1D_SCALING);
  TensorWrapper no_scales(NVTE_MXFP8_1D_SCALING);
  no_scales.set_rowwise_data(memory, DType::kFloat8E4M3, std::vector<size_t>{1, 1});
  NVTEBasicTensor too_many_dims = input.get_rowwise_data();
  too_many_dims.shape.ndim = 16;
  const auto tensor_param = static_cast<NVTETensorParam>(10);
  const auto attribute = static_cast<NVTEQuantizationConfigAttribute>(99);
  QuantizationConfigWrapper config;
  TensorWrapper empty(nullptr, std::vector<size_t>{0}, DType::kBFloat16);
  NVTETensor list[] = {empty.data(), input.data()};
  size_t size = 0;
  const struct {
    std::function<void()> call;
    std::vector<const char*> pieces;
  } cases[] = {
      {[&] { nvte_quantize(nullptr, nothing.data(), nullptr); }, {"nvte_quantize: input", "null"}},
      {[&] { nvte_quantize(input.data(), nullptr, nullptr); }, {"nvte_quantize: output", "null"}},
      {[&] { nvte_quantize(unallocated.data(), no_scales.data(), nullptr); },
       {"nvte_quantize: input", "null"}},
      {[&] { nvte_quantize(nothing.data(), no_scales.data(), nullptr); },
       {"nvte_quantize: output.rowwise_data", "(1, 1)", "shape of input", "(0)"}},
      {[&] { nvte_quantize(input.data(), wrong_mode.data(), nullptr); },
       {"nvte_quantize: output", "scaling mode 0", "NVTE_MXFP8_1D_SCALING"}},
      {[&] { nvte_quantize(input.data(), nothing.data(), nullptr); },
       {"nvte_quantize: output", "neither"}},
      {[&] { nvte_quantize_v2(input.data(), no_scales.data(), nullptr, nullptr); },
       {"nvte_quantize_v2: output.rowwise_scale_inv"}},
      {[&] { nvte_quantize_noop(input.data(), no_scales.data(), nullptr, nullptr); },
       {"nvte_quantize_noop: output.rowwise_scale_inv"}},
      {[&] { nvte_multi_tensor_quantize(nullptr, nullptr, nullptr, 1, nullptr); },
       {"nvte_multi_tensor_quantize: inputs", "null"}},
      {[&] { nvte_multi_tensor_quantize(list, list, nullptr, 2, nullptr); },
       {"nvte_multi_tensor_quantize: output", "scaling mode 0", "(tensor 1)"}},
      {[&] { nvte_dequantize(no_scales.data(), input.data(), nullptr); },
       {"nvte_dequantize: input.rowwise_scale_inv"}},
      {[&] { nvte_dequantize(input.data(), input.data(), nullptr); },
       {"nvte_dequantize: input", "scaling mode"}},
      {[&] { nvte_tensor_shape(nullptr); }, {"nvte_tensor_shape", "null"}},
      {[&] { nvte_tensor_size(input.data(), 2); },
       {"nvte_tensor_size", "dim is 2", "2 dimensions"}},
      {[&] { nvte_make_shape(nullptr, 16); }, {"nvte_make_shape", "16", "15"}},
      {[&] { nvte_get_tensor_param(input.data(), kNVTEWithGEMMSwizzledScales); },
       {"nvte_get_tensor_param", "parameter 7"}},
      {[&] { nvte_set_tensor_param_v2(input.data(), tensor_param, memory, sizeof(memory)); },
       {"nvte_set_tensor_param_v2", "parameter 10"}},
      {[&] {
         nvte_set_tensor_param_v2(input.data(), kNVTEAmax, &too_many_dims, sizeof(too_many_dims));
       },
       {"nvte_set_tensor_param_v2", "16", "15"}},
      {[&] { nvte_set_tensor_param_v2(input.data(), kNVTEAmax, memory, 8); },
       {"size_in_bytes is 8", "144"}},
      {[&] { nvte_set_tensor_param_v2(input.data(), kNVTEAmax, nullptr, 144); }, {"buf is null"}},
      {[&] { nvte_set_quantization_config_attribute(config, attribute, memory, 8); },
       {"nvte_set_quantization_config_attribute", "attribute 99"}},
      {[&] { nvte_get_quantization_config_attribute(nullptr, attribute, memory, 8, &size); },
       {"nvte_get_quantization_config_attribute", "null"}},
  };
  for (const auto& c : cases) ExpectPieces(MessageOf(c.call), c.pieces);
}

// Catches a switch that does not reach the native one.
TEST(NvteTest, BackendSwitch) {
  nvte_set_cutedsl_quant_backend(0);
  EXPECT_EQ(cutedsl_quant::GetBackendMode(), BackendMode::kOff);
  nvte_set_cutedsl_quant_backend(1);
  EXPECT_EQ(cutedsl_quant::GetBackendMode(), BackendMode::kJit);
}

// Catches a warm-up that fails where there is nothing to warm up.
TEST(NvteTest, PreloadsNothingWithoutAGpu) {
  int device = 0;
  if (cudaGetDevice(&device) == cudaSuccess) GTEST_SKIP() << "there is a GPU";
  EXPECT_NO_THROW(nvte_preload_kernels());
}

// Catches an allocation that the translation adds to every call.
TEST(NvteTest, WarmCallsDoNotAllocate) {
  QuantizeConfig config;
  config.rowwise = config.colwise = config.with_amax = true;
  std::vector<uint8_t> bytes = RandomElements(64 * 64, config.dtype, 8);
  TensorWrapper input(bytes.data(), std::vector<size_t>{64, 64}, DType::kBFloat16);
  HostOutput output(config, {64, 64}, false);
  const TensorWrapper quantized = Wrap(output);
  QuantizationConfigWrapper quantization_config;
  nvte_quantize_v2(input.data(), quantized.data(), quantization_config, nullptr);
  const int64_t before = cutedsl_quant::AllocationsOfThread();
  nvte_quantize(input.data(), quantized.data(), nullptr);
  nvte_quantize_v2(input.data(), quantized.data(), quantization_config, nullptr);
  nvte_dequantize(quantized.data(), input.data(), nullptr);
  EXPECT_EQ(cutedsl_quant::AllocationsOfThread(), before);
}

}  // namespace
