// Bad calls: each must throw InvalidArgument with a message that says which function, which tensor,
// what came and what is accepted, and must leave every output alone.
#include "common/checks.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/common/cast_case.h"
#include "tests/common/messages.h"

namespace cutedsl_quant {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max() / 2;
const int64_t kTransposed[] = {1, 33};
const int64_t kRowMajor[] = {160, 1};
const int64_t kPaddedRows[] = {256, 1};

// A correct call, to be spoiled: 33 x 160, both directions, compact, padded scale buffers. With
// what the fused functions take besides.
struct Call {
  Call()
      : input_bytes(33 * 160 * 4 + 4),
        output(AllOutputs(), {33, 160}, false),
        dbias_bytes(160 * 4),
        workspace_bytes(160 * 4) {
    input = HostTensor(input_bytes.data(), DType::kFloat32, {33, 160});
    options.noop = HostTensor(&noop, DType::kFloat32, {1});
    act_input = input;
    dbias = HostTensor(dbias_bytes.data(), DType::kFloat32, {160});
    workspace = HostTensor(workspace_bytes.data(), DType::kFloat32, {1, 160});
  }

  static QuantizeConfig AllOutputs() {
    QuantizeConfig config;
    config.rowwise = config.colwise = config.with_amax = true;
    return config;
  }

  std::vector<uint8_t> input_bytes;
  float noop = 0;
  HostOutput output;
  GuardedBytes dbias_bytes;
  GuardedBytes workspace_bytes;
  Tensor input;
  Tensor act_input;
  Tensor dbias;
  Tensor workspace;
  Activation derivative = Activation::kDRelu;
  QuantizeOptions options;
  QuantizedTensor& out = output.tensor;

  void QuantizeWithEverything() {
    QuantizeDbiasDActivation(derivative, input, act_input, out, dbias, &workspace, nullptr);
  }
  bool untouched() const {
    return output.untouched() && output.amax == 0 && dbias_bytes.untouched() &&
           workspace_bytes.untouched();
  }
};

void SetShape(Tensor& tensor, const Shape& shape) {
  tensor = HostTensor(tensor.data, tensor.dtype, shape);
}

struct BadCall {
  const char* what;
  std::function<void(Call&)> spoil;
  std::vector<const char*> pieces;  // of the message
};

void ExpectMessage(const std::string& message, const BadCall& bad) {
  EXPECT_NE(message, "") << bad.what << ": nothing was thrown";
  ExpectPieces(message, bad.pieces, bad.what);
}

// Catches a check that is missing, comes after a write, or leaves the reader guessing.
TEST(ChecksTest, BadQuantizeCalls) {
  const BadCall bad_calls[] = {
      {"no input", [](Call& c) { c.input = Tensor(); }, {"input is not given"}},
      {"input dtype",
       [](Call& c) { c.input.dtype = DType::kInt32; },
       {"input", "int32", "float32, float16 and bfloat16"}},
      {"unknown input dtype",
       [](Call& c) { c.input.dtype = static_cast<DType>(42); },
       {"input has dtype unknown (42)"}},
      {"fp8 input",
       [](Call& c) { c.input.dtype = DType::kFloat8E4M3; },
       {"input", "float8_e4m3fn"}},
      {"null input", [](Call& c) { c.input.data = nullptr; }, {"input", "(33, 160)", "null"}},
      {"unaligned input",
       [](Call& c) { c.input.data = c.input_bytes.data() + 1; },
       {"input", "not aligned", "float32", "multiple of 4"}},
      {"unaligned bf16 input",
       [](Call& c) { c.input.data = c.input_bytes.data() + 1, c.input.dtype = DType::kBFloat16; },
       {"input", "not aligned", "bfloat16", "multiple of 2"}},
      {"too many dimensions", [](Call& c) { c.input.ndim = 16; }, {"input", "16 dimensions", "15"}},
      {"too many dimensions from the start",
       [](Call& c) {
         c.input = Tensor(c.input.data, c.input.dtype, c.input.device,
                          {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 33, 160});
       },
       {"input", "20 dimensions", "15"}},
      {"negative dimension",
       [](Call& c) { c.input.shape[0] = -3; },
       {"input", "(-3, 160)", "negative"}},
      {"size overflow", [](Call& c) { SetShape(c.input, {kHuge, 4}); }, {"input", "63 bits"}},
      {"size overflow beside a zero",
       [](Call& c) { SetShape(c.input, {0, kHuge, kHuge}); },
       {"input", "63 bits"}},
      {"transposed input",
       [](Call& c) { c.input.strides = kTransposed; },
       {"input", "(33, 160)", "strides (1, 33)", "contiguous", "(160, 1)"}},
      {"padded rows",
       [](Call& c) { c.input.strides = kPaddedRows; },
       {"input", "strides (256, 1)", "(160, 1)"}},
      {"no output",
       [](Call& c) { c.out = QuantizedTensor(); },
       {"output", "neither", "rowwise_data", "columnwise_data"}},
      {"output dtype",
       [](Call& c) { c.out.rowwise_data.dtype = DType::kByte; },
       {"output.rowwise_data", "uint8", "float8_e4m3fn and float8_e5m2"}},
      {"two output dtypes",
       [](Call& c) { c.out.columnwise_data.dtype = DType::kFloat8E5M2; },
       {"output.columnwise_data", "float8_e5m2", "output.rowwise_data", "float8_e4m3fn"}},
      {"output shape",
       [](Call& c) { SetShape(c.out.rowwise_data, {160, 33}); },
       {"output.rowwise_data", "(160, 33)", "input", "(33, 160)"}},
      {"columnwise shape",
       [](Call& c) { SetShape(c.out.columnwise_data, {33, 160, 1}); },
       {"output.columnwise_data", "(33, 160, 1)", "(33, 160)"}},
      {"null output",
       [](Call& c) { c.out.columnwise_data.data = nullptr; },
       {"output.columnwise_data", "null"}},
      {"strided output",
       [](Call& c) { c.out.columnwise_data.strides = kTransposed; },
       {"output.columnwise_data", "strides (1, 33)"}},
      {"no rowwise scales",
       [](Call& c) { c.out.rowwise_scale_inv = Tensor(); },
       {"output.rowwise_scale_inv is not given", "output.rowwise_data"}},
      {"no columnwise scales",
       [](Call& c) { c.out.columnwise_scale_inv = Tensor(); },
       {"output.columnwise_scale_inv is not given", "output.columnwise_data"}},
      {"rowwise scales without data",
       [](Call& c) { c.out.rowwise_data = Tensor(); },
       {"output.rowwise_scale_inv is given", "output.rowwise_data is not"}},
      {"columnwise scales without data",
       [](Call& c) { c.out.columnwise_data = Tensor(); },
       {"output.columnwise_scale_inv is given", "output.columnwise_data is not"}},
      {"scale dtype",
       [](Call& c) { c.out.rowwise_scale_inv.dtype = DType::kFloat32; },
       {"output.rowwise_scale_inv", "float32", "float8_e8m0fnu"}},
      {"null scales",
       [](Call& c) { c.out.rowwise_scale_inv.data = nullptr; },
       {"output.rowwise_scale_inv", "null"}},
      {"rowwise scale shape",
       [](Call& c) { SetShape(c.out.rowwise_scale_inv, {33, 8}); },
       {"output.rowwise_scale_inv", "(33, 8)", "(128, 8)", "(33, 5)"}},
      {"columnwise scale shape",
       [](Call& c) { SetShape(c.out.columnwise_scale_inv, {2, 256}); },
       {"output.columnwise_scale_inv", "(2, 256)", "(4, 256)", "(2, 160)"}},
      {"transposed columnwise scales",
       [](Call& c) { SetShape(c.out.columnwise_scale_inv, {160, 2}); },
       {"output.columnwise_scale_inv", "(160, 2)"}},
      {"exact scales when swizzled",
       [](Call& c) {
         c.out.swizzled_scales = true;
         SetShape(c.out.rowwise_scale_inv, {33, 5});
       },
       {"output.rowwise_scale_inv", "(33, 5)", "(128, 8)", "swizzled"}},
      {"amax dtype",
       [](Call& c) { c.out.amax.dtype = DType::kBFloat16; },
       {"output.amax", "bfloat16", "float32"}},
      {"amax shape", [](Call& c) { SetShape(c.out.amax, {2}); }, {"output.amax", "(2)", "(1)"}},
      {"null amax", [](Call& c) { c.out.amax.data = nullptr; }, {"output.amax", "null"}},
      {"noop dtype",
       [](Call& c) { c.options.noop.dtype = DType::kInt32; },
       {"noop", "int32", "float32"}},
      {"noop shape", [](Call& c) { SetShape(c.options.noop, {0}); }, {"noop", "(0)", "(1)"}},
      {"null noop", [](Call& c) { c.options.noop.data = nullptr; }, {"noop", "null"}},
      {"output elsewhere",
       [](Call& c) { c.out.rowwise_data.device = {DeviceType::kCuda, 1}; },
       {"output.rowwise_data", "cuda:1", "one device", "the host"}},
      {"scales elsewhere",
       [](Call& c) { c.out.columnwise_scale_inv.device = {DeviceType::kCuda, 0}; },
       {"output.columnwise_scale_inv", "cuda:0", "the host"}},
      {"amax elsewhere",
       [](Call& c) { c.out.amax.device = {DeviceType::kCuda, 0}; },
       {"output.amax", "cuda:0"}},
      {"noop elsewhere",
       [](Call& c) { c.options.noop.device = {DeviceType::kCuda, 0}; },
       {"noop", "cuda:0"}},
      {"input elsewhere",
       [](Call& c) { c.input.device = {DeviceType::kCuda, 3}; },
       {"output.rowwise_data", "the host", "cuda:3"}},
  };
  for (const BadCall& bad : bad_calls) {
    Call call;
    bad.spoil(call);
    const std::string message =
        MessageOf<InvalidArgument>([&] { Quantize(call.input, call.out, call.options, nullptr); });
    ExpectMessage(message, bad);
    EXPECT_EQ(message.rfind("Quantize: ", 0), 0u) << message;
    EXPECT_TRUE(call.untouched()) << bad.what;
  }
}

// Catches the same faults in what only the fused functions take.
TEST(ChecksTest, BadFusedCalls) {
  const BadCall bad_calls[] = {
      {"no gradient", [](Call& c) { c.input = Tensor(); }, {"grad is not given"}},
      {"gradient dtype", [](Call& c) { c.input.dtype = DType::kInt64; }, {"grad", "int64"}},
      {"output shape",
       [](Call& c) { SetShape(c.out.rowwise_data, {33, 5, 32}); },
       {"output.rowwise_data", "(33, 5, 32)", "grad", "(33, 160)"}},
      {"no derivative",
       [](Call& c) { c.derivative = Activation::kNone; },
       {"derivative is none", "drelu, dgelu, dsilu, dqgelu and dsrelu"}},
      {"not a derivative",
       [](Call& c) { c.derivative = Activation::kGelu; },
       {"derivative is gelu", "dgelu"}},
      {"unknown derivative",
       [](Call& c) { c.derivative = static_cast<Activation>(11); },
       {"derivative is unknown (11)"}},
      {"no act_input", [](Call& c) { c.act_input = Tensor(); }, {"act_input is not given"}},
      {"act_input dtype",
       [](Call& c) { c.act_input.dtype = DType::kBFloat16; },
       {"act_input", "bfloat16", "grad", "float32"}},
      {"act_input shape",
       [](Call& c) { SetShape(c.act_input, {160, 33}); },
       {"act_input", "(160, 33)", "grad", "(33, 160)"}},
      {"null act_input", [](Call& c) { c.act_input.data = nullptr; }, {"act_input", "null"}},
      {"strided act_input",
       [](Call& c) { c.act_input.strides = kTransposed; },
       {"act_input", "strides (1, 33)"}},
      {"act_input elsewhere",
       [](Call& c) { c.act_input.device = {DeviceType::kCuda, 2}; },
       {"act_input", "cuda:2", "the host"}},
      {"no dbias", [](Call& c) { c.dbias = Tensor(); }, {"dbias is not given"}},
      {"dbias dtype",
       [](Call& c) { c.dbias.dtype = DType::kFloat16; },
       {"dbias", "float16", "grad", "float32"}},
      {"dbias shape", [](Call& c) { SetShape(c.dbias, {33}); }, {"dbias", "(33)", "(160)"}},
      {"null dbias", [](Call& c) { c.dbias.data = nullptr; }, {"dbias", "null"}},
      {"dbias elsewhere",
       [](Call& c) { c.dbias.device = {DeviceType::kCuda, 0}; },
       {"dbias", "cuda:0"}},
      {"workspace dtype",
       [](Call& c) { c.workspace.dtype = DType::kByte; },
       {"workspace", "uint8", "float32"}},
      {"small workspace",
       [](Call& c) { SetShape(c.workspace, {1, 159}); },
       {"workspace", "(1, 159)", "(1, 160)"}},
      {"workspace elsewhere",
       [](Call& c) { c.workspace.device = {DeviceType::kCuda, 0}; },
       {"workspace", "cuda:0"}},
      {"strided workspace",
       [](Call& c) { c.workspace.strides = kTransposed; },
       {"workspace", "strides"}},
      // Also where the workspace is only asked for.
      {"workspace query",
       [](Call& c) { c.workspace.data = nullptr, c.dbias.data = nullptr; },
       {"dbias", "null"}},
  };
  for (const BadCall& bad : bad_calls) {
    Call call;
    bad.spoil(call);
    const std::string message = MessageOf<InvalidArgument>([&] { call.QuantizeWithEverything(); });
    ExpectMessage(message, bad);
    EXPECT_EQ(message.rfind("QuantizeDbiasDActivation: ", 0), 0u) << message;
    EXPECT_TRUE(call.untouched()) << bad.what;
  }
}

// Catches a function that reports under another's name, or skips the checks they share.
TEST(ChecksTest, EveryFunctionSaysItsName) {
  const struct {
    const char* name;
    std::function<void(Call&)> run;
  } functions[] = {
      {"QuantizeActivation: activation is drelu; relu, gelu, silu, qgelu and srelu are accepted",
       [](Call& c) { QuantizeActivation(Activation::kDRelu, c.input, c.out, nullptr); }},
      {"QuantizeActivation: input is not given",
       [](Call& c) { QuantizeActivation(Activation::kRelu, Tensor(), c.out, nullptr); }},
      {"QuantizeDActivation: act_input is not given",
       [](Call& c) { QuantizeDActivation(Activation::kDRelu, c.input, Tensor(), c.out, nullptr); }},
      {"QuantizeDbias: workspace is null",
       [](Call& c) { QuantizeDbias(c.input, c.out, c.dbias, nullptr, nullptr); }},
      {"QuantizeDbias: dbias has dtype float16; the dtype of input is float32",
       [](Call& c) {
         c.dbias.dtype = DType::kFloat16;
         QuantizeDbias(c.input, c.out, c.dbias, &c.workspace, nullptr);
       }},
  };
  for (const auto& function : functions) {
    Call call;
    EXPECT_EQ(MessageOf<InvalidArgument>([&] { function.run(call); }), function.name);
    EXPECT_TRUE(call.untouched()) << function.name;
  }
}

// Catches a check that refuses what is documented as accepted.
TEST(ChecksTest, GoodQuantizeCalls) {
  const struct {
    const char* what;
    std::function<void(Call&)> change;
  } good_calls[] = {
      {"as it is", [](Call&) {}},
      {"strides spelled out", [](Call& c) { c.input.strides = kRowMajor; }},
      {"strides of a single row do not matter",
       [](Call& c) {
         SetShape(c.input, {1, 33, 160});
         static const int64_t strides[] = {7, 160, 1};
         c.input.strides = strides;
       }},
      {"strides of nothing do not matter",
       [](Call& c) {
         SetShape(c.input, {0, 160});
         c.input.strides = kTransposed;
         c.out = QuantizedTensor();
         c.out.rowwise_data = HostTensor(nullptr, DType::kFloat8E4M3, {0, 160});
         c.out.rowwise_scale_inv = HostTensor(nullptr, DType::kFloat8E8M0, {0, 8});
       }},
      {"the same matrix in more dimensions",
       [](Call& c) { SetShape(c.out.rowwise_data, {3, 11, 160}); }},
      {"exact rowwise scales", [](Call& c) { SetShape(c.out.rowwise_scale_inv, {33, 5}); }},
      {"exact columnwise scales", [](Call& c) { SetShape(c.out.columnwise_scale_inv, {2, 160}); }},
      {"swizzled", [](Call& c) { c.out.swizzled_scales = true; }},
      {"rowwise alone",
       [](Call& c) { c.out.columnwise_data = c.out.columnwise_scale_inv = Tensor(); }},
      {"columnwise alone",
       [](Call& c) { c.out.rowwise_data = c.out.rowwise_scale_inv = Tensor(); }},
      {"no amax, no noop", [](Call& c) { c.out.amax = c.options.noop = Tensor(); }},
      {"0-D amax and noop",
       [](Call& c) {
         SetShape(c.out.amax, {});
         SetShape(c.options.noop, {});
       }},
  };
  for (const auto& good : good_calls) {
    Call call;
    good.change(call);
    EXPECT_NO_THROW(Quantize(call.input, call.out, call.options, nullptr)) << good.what;
  }
}

// Catches the same where the fused functions are generous.
TEST(ChecksTest, GoodFusedCalls) {
  const struct {
    const char* what;
    std::function<void(Call&)> change;
  } good_calls[] = {
      {"as it is", [](Call&) {}},
      {"act_input in more dimensions", [](Call& c) { SetShape(c.act_input, {3, 11, 160}); }},
      {"dbias in more dimensions", [](Call& c) { SetShape(c.dbias, {1, 1, 160}); }},
      {"flat workspace", [](Call& c) { SetShape(c.workspace, {160}); }},
      {"larger workspace",
       [](Call& c) {
         SetShape(c.input, {11, 3, 160});
         SetShape(c.workspace, {2, 80});
       }},
      {"in place", [](Call& c) { c.act_input = c.input; }},
  };
  for (const auto& good : good_calls) {
    Call call;
    good.change(call);
    EXPECT_NO_THROW(call.QuantizeWithEverything()) << good.what;
  }
}

// Catches a field of the checked call that is lost or swapped on the way to the kernels.
TEST(ChecksTest, CheckedQuantizeCallIsComplete) {
  Call call;
  call.out.swizzled_scales = true;
  call.input.dtype = DType::kFloat16;
  call.out.rowwise_data.dtype = call.out.columnwise_data.dtype = DType::kFloat8E5M2;
  const Stream stream = reinterpret_cast<Stream>(0x1234);
  call.options.use_2d_blocks = true;
  const QuantizeCall checked = CheckQuantize({"f", call.input, call.out, stream, &call.options});
  EXPECT_EQ(checked.config.Name(), "cutedsl_mxfp8_fp16_fp8_e5m2_1_1_1_1_0_0_0_1_none");
  EXPECT_EQ(checked.args.rows, 33);
  EXPECT_EQ(checked.args.cols, 160);
  EXPECT_EQ(checked.args.input, call.input.data);
  EXPECT_EQ(checked.args.act_input, nullptr);
  EXPECT_EQ(checked.args.rowwise_data, call.output.rowwise_data.data());
  EXPECT_EQ(checked.args.rowwise_scale_inv.data, call.output.rowwise_scales.data());
  EXPECT_EQ(checked.args.rowwise_scale_inv.rows, 128);
  EXPECT_EQ(checked.args.rowwise_scale_inv.cols, 8);
  EXPECT_EQ(checked.args.columnwise_data, call.output.colwise_data.data());
  EXPECT_EQ(checked.args.columnwise_scale_inv.data, call.output.colwise_scales.data());
  EXPECT_EQ(checked.args.columnwise_scale_inv.rows, 4);
  EXPECT_EQ(checked.args.columnwise_scale_inv.cols, 256);
  EXPECT_EQ(checked.args.amax, &call.output.amax);
  EXPECT_EQ(checked.args.noop, &call.noop);
  EXPECT_EQ(checked.args.dbias_workspace, nullptr);
  EXPECT_EQ(checked.args.device, Device{});
  EXPECT_EQ(checked.args.stream, stream);

  const Activation derivative = Activation::kDSilu;
  call.input.dtype = call.act_input.dtype = call.dbias.dtype = DType::kBFloat16;
  const QuantizeCall fused = CheckQuantize({"f", call.input, call.out, stream, nullptr, &derivative,
                                            &call.act_input, &call.dbias, &call.workspace});
  EXPECT_EQ(fused.config.Name(), "cutedsl_mxfp8_bf16_fp8_e5m2_1_1_1_1_1_1_0_0_dsilu");
  EXPECT_EQ(fused.args.act_input, call.act_input.data);
  EXPECT_EQ(fused.args.dbias_workspace, call.workspace.data);
  EXPECT_EQ(fused.args.dbias_workspace_rows, 1);
  EXPECT_EQ(fused.args.noop, nullptr);
  EXPECT_EQ(fused.dbias, call.dbias.data);
}

// Catches the same faults in the other direction.
TEST(ChecksTest, BadDequantizeCalls) {
  // The input of Call is the output here.
  const BadCall bad_calls[] = {
      {"no input",
       [](Call& c) { c.out = QuantizedTensor(); },
       {"input", "neither", "rowwise_data"}},
      {"input dtype",
       [](Call& c) { c.out.rowwise_data.dtype = DType::kByte; },
       {"input.rowwise_data", "uint8"}},
      {"no scales",
       [](Call& c) { c.out.rowwise_scale_inv = Tensor(); },
       {"input.rowwise_scale_inv is not given", "input.rowwise_data"}},
      {"no columnwise scales",
       [](Call& c) { c.out.rowwise_data = c.out.columnwise_scale_inv = Tensor(); },
       {"input.columnwise_scale_inv is not given", "input.columnwise_data"}},
      {"scale shape",
       [](Call& c) { SetShape(c.out.rowwise_scale_inv, {128, 5}); },
       {"input.rowwise_scale_inv", "(128, 5)", "(128, 8)", "(33, 5)"}},
      {"no output", [](Call& c) { c.input = Tensor(); }, {"output is not given"}},
      {"output dtype",
       [](Call& c) { c.input.dtype = DType::kFloat8E4M3; },
       {"output", "float8_e4m3fn", "float16"}},
      {"output shape",
       [](Call& c) { SetShape(c.input, {32, 160}); },
       {"input.rowwise_data", "(33, 160)", "output", "(32, 160)"}},
      {"null output", [](Call& c) { c.input.data = nullptr; }, {"output", "null"}},
      {"strided output",
       [](Call& c) { c.input.strides = kTransposed; },
       {"output", "strides (1, 33)"}},
      {"output elsewhere",
       [](Call& c) { c.input.device = {DeviceType::kCuda, 0}; },
       {"output", "cuda:0", "the host"}},
      {"scales elsewhere",
       [](Call& c) { c.out.rowwise_scale_inv.device = {DeviceType::kCuda, 0}; },
       {"input.rowwise_scale_inv", "cuda:0"}},
  };
  for (const BadCall& bad : bad_calls) {
    Call call;
    call.input_bytes.assign(call.input_bytes.size(), kPoison);
    bad.spoil(call);
    const std::string message =
        MessageOf<InvalidArgument>([&] { Dequantize(call.out, call.input, nullptr); });
    ExpectMessage(message, bad);
    EXPECT_EQ(message.rfind("Dequantize: ", 0), 0u) << message;
    EXPECT_EQ(call.input_bytes, std::vector<uint8_t>(call.input_bytes.size(), kPoison)) << bad.what;
  }
}

}  // namespace
}  // namespace cutedsl_quant
