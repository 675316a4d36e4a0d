// Which backend serves a call and why, with a kernel provider made for the purpose. All on host
// tensors: the dispatch is the same for both kinds of device.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/kernel_provider.h"
#include "cutedsl_quant/quantize.h"
#include "tests/common/allocation_counter.h"
#include "tests/common/cast_case.h"

namespace {

// Before anything can ask for the environment.
const bool environment_is_set = [] {
  setenv("NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN", "0", 1);
  unsetenv("NVTE_ENABLE_CUTEDSL_QUANT_BACKEND");
  return true;
}();

}  // namespace

namespace cutedsl_quant {
namespace {

class FakeKernel : public Kernel {
 public:
  bool Launch(const QuantizeConfig& config, const KernelArgs& args) const noexcept override {
    ++launches;
    id = config.Id();
    rows = args.rows;
    if (args.dbias_workspace != nullptr) {
      std::fill_n(args.dbias_workspace, args.dbias_workspace_rows * args.cols, 1.0f);
    }
    return succeeds;
  }
  mutable std::atomic<int> launches{0};
  mutable std::atomic<uint32_t> id{0};
  mutable std::atomic<int64_t> rows{0};
  bool succeeds = true;
};

class FakeProvider : public KernelProvider {
 public:
  KernelLookup Find(uint32_t config_id, Device device) noexcept override {
    ++lookups;
    id = config_id;
    on_host = device.type == DeviceType::kCpu;
    return answer;
  }
  std::vector<uint32_t> PackagedConfigs(Device) override { return {}; }
  void Reset() noexcept override { ++resets; }

  KernelLookup answer;
  std::atomic<int> lookups{0};
  std::atomic<int> resets{0};
  std::atomic<uint32_t> id{0};
  std::atomic<bool> on_host{false};
};

class DispatcherTest : public testing::Test {
 protected:
  DispatcherTest() {
    config_.rowwise = true;
    SetKernelProvider(&provider_);
    SetBackendMode(BackendMode::kPackaged);
    provider_.answer = {&kernel_, MissReason::kNone};
    provider_.resets = 0;
    ResetStats();
  }
  ~DispatcherTest() override {
    SetKernelProvider(nullptr);
    SetBackendMode(BackendMode::kPackaged);
  }

  // An aligned bf16 cast of rows x cols; `offset` elements off the alignment.
  void Call(int64_t rows, int64_t cols, int64_t offset = 0) {
    GuardedBytes input((rows * cols + offset) * 2);
    HostOutput output(config_, {rows, cols}, false);
    Quantize(HostTensor(input.data() + offset * 2, DType::kBFloat16, {rows, cols}), output.tensor,
             {}, nullptr);
    written_ = !output.untouched();
  }

  static uint64_t Calls(Backend backend) { return GetStats().calls[static_cast<size_t>(backend)]; }
  static uint64_t Misses(MissReason reason) {
    return GetStats().misses[static_cast<size_t>(reason)];
  }

  QuantizeConfig config_;
  FakeKernel kernel_;
  FakeProvider provider_;
  bool written_ = false;
};

// Catches a kernel that is not asked for, asked for under another id, or run together with the
// reference.
TEST_F(DispatcherTest, TheProvidersKernelServes) {
  Call(64, 32);
  EXPECT_EQ(provider_.lookups, 1);
  EXPECT_EQ(provider_.id, config_.Id());
  EXPECT_TRUE(provider_.on_host);
  EXPECT_EQ(kernel_.launches, 1);
  EXPECT_EQ(kernel_.id, config_.Id());
  EXPECT_EQ(kernel_.rows, 64);
  EXPECT_FALSE(written_);
  EXPECT_EQ(Calls(Backend::kCutedsl), 1u);
  EXPECT_EQ(Calls(Backend::kReference), 0u);
  for (uint64_t misses : GetStats().misses) EXPECT_EQ(misses, 0u);
}

// Catches reasons that are mixed up or asked in another order: each case has every later reason as
// well.
TEST_F(DispatcherTest, ReasonsComeInOrder) {
  const struct {
    MissReason expected;
    int64_t cols;
    int64_t offset;
    BackendMode mode;
    bool has_provider;
    bool has_kernel;
  } cases[] = {
      {MissReason::kDisabled, 33, 1, BackendMode::kOff, false, false},
      {MissReason::kShape, 33, 1, BackendMode::kPackaged, false, false},
      {MissReason::kShape, 40, 0, BackendMode::kPackaged, true, true},
      {MissReason::kAlignment, 32, 1, BackendMode::kPackaged, false, false},
      {MissReason::kNoProvider, 32, 0, BackendMode::kPackaged, false, false},
      {MissReason::kNotPackaged, 32, 0, BackendMode::kPackaged, true, false},
      {MissReason::kLaunchFailed, 32, 0, BackendMode::kJit, true, true},
  };
  kernel_.succeeds = false;
  for (const auto& c : cases) {
    SCOPED_TRACE(MissReasonName(c.expected));
    SetBackendMode(c.mode);
    SetKernelProvider(c.has_provider ? &provider_ : nullptr);
    provider_.answer = {c.has_kernel ? &kernel_ : nullptr, MissReason::kNotPackaged};
    ResetStats();
    Call(16, c.cols, c.offset);
    EXPECT_TRUE(written_);
    EXPECT_EQ(Misses(c.expected), 1u);
    EXPECT_EQ(Calls(Backend::kReference), 1u);
    EXPECT_EQ(Calls(Backend::kCutedsl), 0u);
    uint64_t all_misses = 0;
    for (uint64_t misses : GetStats().misses) all_misses += misses;
    EXPECT_EQ(all_misses, 1u);
  }
}

// Catches an output pointer that nobody looked at before the kernel assumed its alignment.
TEST_F(DispatcherTest, EveryDataPointerMustBeAligned) {
  config_.colwise = true;
  GuardedBytes input(16 * 16 * 2);
  const Tensor view = HostTensor(input.data(), DType::kBFloat16, {16, 16});
  for (Tensor QuantizedTensor::* member :
       {&QuantizedTensor::rowwise_data, &QuantizedTensor::columnwise_data}) {
    HostOutput output(config_, {16, 16}, false);
    GuardedBytes unaligned(16 * 16, /*offset=*/8);
    (output.tensor.*member).data = unaligned.data();
    Quantize(view, output.tensor, {}, nullptr);
    EXPECT_FALSE(unaligned.untouched());
  }
  EXPECT_EQ(Misses(MissReason::kAlignment), 2u);
}

// Catches calls on nothing that reach a kernel, are counted, or touch an output.
TEST_F(DispatcherTest, EmptyInputsSucceedEarly) {
  Call(0, 32);
  EXPECT_FALSE(written_);
  Call(32, 0);
  EXPECT_FALSE(written_);
  EXPECT_EQ(provider_.lookups, 0);
  for (uint64_t calls : GetStats().calls) EXPECT_EQ(calls, 0u);
}

// A call of QuantizeDbias or, with a derivative, QuantizeDbiasDActivation on fp32 tensors.
struct DbiasCall {
  DbiasCall(int64_t rows, int64_t cols, bool with_dact)
      : with_dact(with_dact),
        input_bytes(rows * cols * 4),
        dbias_bytes(cols * 4),
        output({DType::kFloat32, DType::kFloat8E4M3, /*rowwise=*/true}, {rows, cols}, false),
        input(HostTensor(input_bytes.data(), DType::kFloat32, {rows, cols})),
        dbias(HostTensor(dbias_bytes.data(), DType::kFloat32, {cols})) {}

  void Run() {
    if (with_dact) {
      QuantizeDbiasDActivation(Activation::kDRelu, input, input, output.tensor, dbias, &workspace,
                               nullptr);
    } else {
      QuantizeDbias(input, output.tensor, dbias, &workspace, nullptr);
    }
  }
  std::vector<float> Dbias() const {
    const std::vector<uint8_t> bytes = dbias_bytes.contents();
    std::vector<float> values(bytes.size() / 4);
    if (!values.empty()) memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  bool with_dact;
  GuardedBytes input_bytes;
  GuardedBytes dbias_bytes;
  HostOutput output;
  Tensor input;
  Tensor dbias;
  Tensor workspace;
};

// Catches a workspace of another shape than documented or one that depends on the backend, a query
// that does more than describe, and column sums that are not made from the kernel's partial sums.
TEST_F(DispatcherTest, WorkspaceIsDescribedThenUsed) {
  const struct {
    int64_t rows;
    bool with_dact;
    int64_t chunks;
  } cases[] = {{1, false, 1}, {128, false, 1}, {129, false, 2}, {1000, false, 8},
               {1, true, 1},  {64, true, 1},   {65, true, 2},   {1000, true, 16}};
  for (const auto& c : cases) {
    for (bool with_kernel : {true, false}) {
      SCOPED_TRACE(c.rows);
      provider_.answer = {with_kernel ? &kernel_ : nullptr, MissReason::kNotPackaged};
      DbiasCall call(c.rows, 32, c.with_dact);
      const int lookups = provider_.lookups;
      call.Run();
      EXPECT_EQ(call.workspace.dtype, DType::kFloat32);
      ASSERT_EQ(call.workspace.ndim, 2);
      EXPECT_EQ(call.workspace.shape[0], c.chunks);
      EXPECT_EQ(call.workspace.shape[1], 32);
      EXPECT_EQ(call.workspace.data, nullptr);
      EXPECT_EQ(provider_.lookups, lookups);
      EXPECT_TRUE(call.output.untouched() && call.dbias_bytes.untouched());

      GuardedBytes memory(c.chunks * 32 * 4);
      call.workspace.data = memory.data();
      call.Run();
      EXPECT_EQ(provider_.lookups, lookups + 1);
      EXPECT_TRUE(memory.guards_intact() && call.dbias_bytes.guards_intact());
      if (with_kernel) {
        EXPECT_EQ(call.Dbias(), std::vector<float>(32, static_cast<float>(c.chunks)));
      }
    }
  }
}

// Catches column sums of nothing that keep what was in memory: an empty workspace has no address,
// so the first call has to do it all.
TEST_F(DispatcherTest, DbiasOfNothingIsZero) {
  for (bool with_dact : {false, true}) {
    DbiasCall call(0, 32, with_dact);
    call.Run();
    EXPECT_EQ(call.workspace.shape[0], 0);
    EXPECT_EQ(call.Dbias(), std::vector<float>(32, 0.0f));
    DbiasCall no_columns(32, 0, with_dact);
    no_columns.Run();
    no_columns.Run();
    EXPECT_TRUE(no_columns.dbias_bytes.untouched());
  }
  EXPECT_EQ(provider_.lookups, 0);
}

// Catches a fused call under another configuration, and one for which no kernel exists that asks
// for one.
TEST_F(DispatcherTest, FusionsAreLookedUpByTheirConfiguration) {
  GuardedBytes input(64 * 32 * 2);
  HostOutput output(config_, {64, 32}, false);
  const Tensor x = HostTensor(input.data(), DType::kBFloat16, {64, 32});
  config_.with_act = true;
  config_.activation = Activation::kSilu;
  QuantizeActivation(Activation::kSilu, x, output.tensor, nullptr);
  EXPECT_EQ(kernel_.id, config_.Id());
  config_.with_act = false;
  config_.with_dact = true;
  config_.activation = Activation::kDGelu;
  QuantizeDActivation(Activation::kDGelu, x, x, output.tensor, nullptr);
  EXPECT_EQ(kernel_.id, config_.Id());
  EXPECT_TRUE(output.untouched());

  QuantizeOptions options;
  options.use_2d_blocks = true;
  Quantize(x, output.tensor, options, nullptr);
  EXPECT_EQ(Misses(MissReason::kUnsupportedConfig), 1u);
  EXPECT_EQ(Calls(Backend::kReference), 1u);
  EXPECT_FALSE(output.untouched());
}

// Catches a switch that does not take effect at once, or failures that are remembered beyond it.
TEST_F(DispatcherTest, ModeSwitchesAtAnyTime) {
  for (BackendMode mode : {BackendMode::kOff, BackendMode::kJit, BackendMode::kPackaged}) {
    const int resets = provider_.resets;
    const int launches = kernel_.launches;
    SetBackendMode(mode);
    EXPECT_EQ(GetBackendMode(), mode);
    EXPECT_EQ(provider_.resets, resets + 1);
    Call(16, 16);
    EXPECT_EQ(kernel_.launches - launches, mode == BackendMode::kOff ? 0 : 1);
  }
}

// Catches a device that cannot be made current and is taken for the current one.
TEST_F(DispatcherTest, UnknownDevicesAreErrors) {
  GuardedBytes input(16 * 16 * 2);
  HostOutput output(config_, {16, 16}, false);
  const Device nowhere = {DeviceType::kCuda, 4096};
  Tensor view = HostTensor(input.data(), DType::kBFloat16, {16, 16});
  QuantizedTensor& out = output.tensor;
  for (Tensor* tensor : {&view, &out.rowwise_data, &out.rowwise_scale_inv})
    tensor->device = nowhere;
  EXPECT_THROW(Quantize(view, out, {}, nullptr), CudaError);
  EXPECT_THROW(Dequantize(out, view, nullptr), CudaError);
  EXPECT_TRUE(output.untouched() && input.untouched());
  EXPECT_EQ(provider_.lookups, 0);
}

// Catches a provider that is lost or kept when another is installed.
TEST_F(DispatcherTest, SetKernelProviderReturnsTheOneBefore) {
  FakeProvider other;
  EXPECT_EQ(SetKernelProvider(&other), &provider_);
  EXPECT_EQ(SetKernelProvider(nullptr), &other);
  EXPECT_EQ(SetKernelProvider(&provider_), nullptr);
}

// Catches an allocation per call, on the kernel's path and on the reference's.
TEST_F(DispatcherTest, WarmCallsDoNotAllocate) {
  config_.colwise = config_.with_amax = true;
  GuardedBytes input(64 * 64 * 2);
  GuardedBytes dbias_bytes(64 * 2);
  GuardedBytes workspace_bytes(64 * 4);
  float noop = 0;
  HostOutput output(config_, {64, 64}, false);
  QuantizeOptions options;
  options.noop = HostTensor(&noop, DType::kFloat32, {1});
  const Tensor view = HostTensor(input.data(), DType::kBFloat16, {64, 64});
  for (bool with_kernel : {true, false}) {
    provider_.answer = {with_kernel ? &kernel_ : nullptr, MissReason::kNotPackaged};
    Quantize(view, output.tensor, options, nullptr);
    const int64_t before = AllocationsOfThread();
    for (int i = 0; i < 100; ++i) Quantize(view, output.tensor, options, nullptr);
    EXPECT_EQ(AllocationsOfThread(), before) << with_kernel;
  }
  const Tensor dbias = HostTensor(dbias_bytes.data(), DType::kBFloat16, {64});
  Tensor workspace = HostTensor(workspace_bytes.data(), DType::kFloat32, {1, 64});
  for (bool with_kernel : {true, false}) {
    provider_.answer = {with_kernel ? &kernel_ : nullptr, MissReason::kNotPackaged};
    const int64_t before = AllocationsOfThread();
    QuantizeDbiasDActivation(Activation::kDGelu, view, view, output.tensor, dbias, &workspace,
                             nullptr);
    EXPECT_EQ(AllocationsOfThread(), before) << with_kernel;
  }
  const Tensor back = HostTensor(input.data(), DType::kBFloat16, {64, 64});
  const int64_t before = AllocationsOfThread();
  Dequantize(output.tensor, back, nullptr);
  EXPECT_EQ(AllocationsOfThread(), before);
}

// Catches lost counts, and data races between calls, switches and readers (under a sanitizer).
TEST_F(DispatcherTest, ManyThreads) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this] {
      GuardedBytes input(16 * 16 * 2);
      HostOutput output(config_, {16, 16}, false);
      const Tensor view = HostTensor(input.data(), DType::kBFloat16, {16, 16});
      for (int i = 0; i < kCalls; ++i) Quantize(view, output.tensor, {}, nullptr);
    });
  }
  for (int i = 0; i < 100; ++i) {
    SetBackendMode(i % 2 == 0 ? BackendMode::kOff : BackendMode::kJit);
    GetStats();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Calls(Backend::kCutedsl) + Calls(Backend::kReference), uint64_t{kThreads * kCalls});
  EXPECT_EQ(Calls(Backend::kReference), Misses(MissReason::kDisabled));
  EXPECT_EQ(Calls(Backend::kCutedsl), static_cast<uint64_t>(kernel_.launches));
}

// Catches a name used by warnings and statistics that is missing or doubled.
TEST(BackendNamesTest, AreDistinct) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kNumBackends; ++i) names.push_back(BackendName(static_cast<Backend>(i)));
  EXPECT_EQ(names, (std::vector<std::string>{"cutedsl", "cuda", "reference"}));
  names.clear();
  for (size_t i = 0; i < kNumMissReasons; ++i)
    names.push_back(MissReasonName(static_cast<MissReason>(i)));
  EXPECT_EQ(names, (std::vector<std::string>{
                       "none", "disabled", "no_provider", "host_tensor", "unsupported_config",
                       "shape", "alignment", "no_package", "package_rejected", "architecture",
                       "not_packaged", "no_factory", "compile_failed", "launch_failed"}));
  EXPECT_STREQ(MissReasonName(static_cast<MissReason>(kNumMissReasons)), "unknown");
}

}  // namespace
}  // namespace cutedsl_quant
