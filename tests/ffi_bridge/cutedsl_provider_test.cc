// The provider behind the dispatcher: packaged kernels, kernels compiled on first use, and the
// reasons for neither. All on host tensors, which the provider serves for tests.
#include "ffi_bridge/cutedsl_provider.h"

#include <gtest/gtest.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ffi_bridge/errors.h"
#include "ffi_bridge/jit.h"
#include "tests/common/messages.h"
#include "tests/ffi_bridge/fake_manifest.h"
#include "tests/ffi_bridge/host_call.h"
#include "tests/ffi_bridge/malloc_counter.h"
#include "tests/ffi_bridge/package_files.h"

namespace cutedsl_quant {
namespace {

namespace ffi = tvm::ffi;

constexpr uint8_t kCompiledMark = 0x33;

// What a compiled kernel looks like from C++: no tensor is allocated for its arguments.
ffi::Function MarkingKernel() {
  return ffi::Function::FromPacked([](const ffi::AnyView* args, int32_t, ffi::Any*) {
    const auto data = args[2].cast<ffi::TensorView>();
    std::memset(data.data_ptr(), kCompiledMark, static_cast<size_t>(data.numel()));
  });
}

class CutedslProviderTest : public testing::Test {
 protected:
  CutedslProviderTest() { SetBackendMode(BackendMode::kPackaged); }
  ~CutedslProviderTest() override {
    SetKernelProvider(nullptr);
    ffi::Function::RemoveGlobal(kKernelFactoryName);
  }

  // A provider that sees the packages under `paths` and nothing else.
  void Install(std::vector<std::string> paths) {
    CutedslProvider::Options options;
    options.search = PackageSearch{std::move(paths), /*linked=*/false, /*beside=*/{}};
    options.serve_host_tensors = true;
    provider_ = std::make_unique<CutedslProvider>(options);
    SetKernelProvider(provider_.get());
    ResetStats();
    ClearErrors();
  }

  void RegisterFactory(ffi::Function factory) {
    ffi::Function::SetGlobal(kKernelFactoryName, factory, /*override=*/true);
  }

  std::unique_ptr<CutedslProvider> provider_;
  TemporaryFolder folder_;
};

uint64_t Misses(MissReason reason) { return GetStats().misses[static_cast<size_t>(reason)]; }
uint64_t Calls(Backend backend) { return GetStats().calls[static_cast<size_t>(backend)]; }

// A packaged kernel is chosen by configuration, and what no package has goes to the reference.
TEST_F(CutedslProviderTest, ServesPackagedKernels) {
  WritePackage(folder_ / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
  Install({folder_.path()});
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), FAKE_FIRST_MARK);
  EXPECT_EQ(HostCall(DType::kBFloat16).Run(), FAKE_SECOND_MARK);
  EXPECT_EQ(Calls(Backend::kCutedsl), 2u);
  EXPECT_EQ(HostCall(DType::kFloat16).Run(), 0);
  EXPECT_EQ(Calls(Backend::kReference), 1u);
  EXPECT_EQ(Misses(MissReason::kNotPackaged), 1u);
}

// What a program may ask for in advance: packaged kernels of the device, and nothing else.
TEST_F(CutedslProviderTest, ListsPackagedKernels) {
  WritePackage(folder_ / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
  Install({folder_.path()});
  EXPECT_EQ(provider_->PackagedConfigs(Device()),
            (std::vector<uint32_t>{FAKE_FIRST_ID, FAKE_SECOND_ID}));
  EXPECT_TRUE(provider_->PackagedConfigs({DeviceType::kCuda, 4242}).empty());
  EXPECT_TRUE(CutedslProvider(CutedslProvider::Options()).PackagedConfigs(Device()).empty());
}

TEST_F(CutedslProviderTest, ListsNothingOfADamagedPackage) {
  WritePackage(folder_ / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
  WriteFile(folder_ / "fake.so", "damaged");
  Install({folder_.path()});
  EXPECT_TRUE(provider_->PackagedConfigs(Device()).empty());
}

// A damaged package costs speed, never the answer.
TEST_F(CutedslProviderTest, FallsBackWhenThePackageIsDamaged) {
  WritePackage(folder_ / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
  WriteFile(folder_ / "fake.so", "damaged");
  Install({folder_.path()});
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), 0);
  EXPECT_EQ(Misses(MissReason::kPackageRejected), 1u);
  EXPECT_EQ(Calls(Backend::kReference), 1u);
}

// Why is what a C++ program would otherwise not learn; and a repaired package serves once the mode
// is set again.
TEST_F(CutedslProviderTest, SaysWhyAPackageIsNotUsedAndTriesAgain) {
  WritePackage(folder_ / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
  WriteFile(folder_ / "fake.so", "damaged");
  Install({folder_.path()});
  HostCall(DType::kFloat32).Run();
  HostCall(DType::kFloat16).Run();
  ASSERT_EQ(RecentErrors().size(), 1u);
  ExpectPieces(RecentErrors()[0], {"kernel package not used", "fake.so: 7 bytes"});
  WritePackage(folder_ / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), 0);
  SetBackendMode(BackendMode::kPackaged);
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), FAKE_FIRST_MARK);
}

// Outside tests host tensors are the reference's, packages or not.
TEST_F(CutedslProviderTest, RefusesHostTensorsByDefault) {
  CutedslProvider provider{CutedslProvider::Options()};
  const KernelLookup lookup = provider.Find(FAKE_FIRST_ID, Device());
  EXPECT_EQ(lookup.kernel, nullptr);
  EXPECT_EQ(lookup.reason, MissReason::kHostTensor);
}

// A device that is not there is a miss, not an error.
TEST_F(CutedslProviderTest, MissesForADeviceThatDoesNotExist) {
  Install({});
  EXPECT_EQ(provider_->Find(FAKE_FIRST_ID, {DeviceType::kCuda, 4242}).reason,
            MissReason::kArchitecture);
  EXPECT_EQ(provider_->Find(FAKE_FIRST_ID, {DeviceType::kCuda, -1}).reason,
            MissReason::kArchitecture);
}

// A registered factory alone must not start to compile: that is opt-in.
TEST_F(CutedslProviderTest, CompilesOnlyWhenAsked) {
  std::atomic<int> compiled{0};
  RegisterFactory(ffi::Function::FromTyped([&](ffi::String, int64_t) {
    ++compiled;
    return MarkingKernel();
  }));
  Install({});
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), 0);
  EXPECT_EQ(Misses(MissReason::kNoPackage), 1u);
  EXPECT_EQ(compiled, 0);
  SetBackendMode(BackendMode::kJit);
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), kCompiledMark);
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), kCompiledMark);
  EXPECT_EQ(compiled, 1);
  // Back: what was compiled is out of use, and comes back without a second compilation.
  SetBackendMode(BackendMode::kPackaged);
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), 0);
  SetBackendMode(BackendMode::kJit);
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), kCompiledMark);
  EXPECT_EQ(compiled, 1);
}

// The factory gets the name and the capability; a packaged kernel never reaches it.
TEST_F(CutedslProviderTest, AsksTheFactoryOnlyForWhatIsNotPackaged) {
  WritePackage(folder_ / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
  std::vector<std::string> asked;
  RegisterFactory(ffi::Function::FromTyped([&](ffi::String name, int64_t capability) {
    asked.push_back(std::string(name) + " " + std::to_string(capability));
    return MarkingKernel();
  }));
  Install({folder_.path()});
  SetBackendMode(BackendMode::kJit);
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), FAKE_FIRST_MARK);
  EXPECT_EQ(HostCall(DType::kFloat16).Run(), kCompiledMark);
  EXPECT_EQ(asked,
            (std::vector<std::string>{"cutedsl_mxfp8_fp16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none 0"}));
}

// Without a factory the reason says so, instead of blaming the packages.
TEST_F(CutedslProviderTest, MissesWithoutAFactory) {
  Install({});
  SetBackendMode(BackendMode::kJit);
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), 0);
  EXPECT_EQ(Misses(MissReason::kNoFactory), 1u);
}

// Any number of threads, one compilation; all of them are served by it.
TEST_F(CutedslProviderTest, CompilesOnceForManyThreads) {
  std::atomic<int> compiled{0};
  RegisterFactory(ffi::Function::FromTyped([&](ffi::String, int64_t) {
    ++compiled;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return MarkingKernel();
  }));
  Install({});
  SetBackendMode(BackendMode::kJit);
  constexpr int kThreads = 16;
  std::atomic<int> waiting{kThreads}, served{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      HostCall call(DType::kFloat32);
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      served += call.Run() == kCompiledMark;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(served, kThreads);
  EXPECT_EQ(Calls(Backend::kCutedsl), static_cast<uint64_t>(kThreads));
}

// Whatever a factory does wrong, the call is served by the fallback, the factory is not asked again
// for every call, and after SetBackendMode it is.
TEST_F(CutedslProviderTest, FallsBackAfterAFailedCompileUntilReset) {
  struct Case {
    const char* message;
    std::function<ffi::Any()> make;
  };
  const std::vector<Case> cases = {
      {"ValueError: no such kernel",
       []() -> ffi::Any { throw ffi::Error("ValueError", "no such kernel", ""); }},
      {"boom", []() -> ffi::Any { throw std::runtime_error("boom"); }},
      {"returned None, not a function", []() -> ffi::Any { return nullptr; }},
      {"returned int, not a function", []() -> ffi::Any { return 7; }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    int asked = 0;
    bool broken = true;
    RegisterFactory(ffi::Function::FromTyped([&](ffi::String, int64_t) -> ffi::Any {
      ++asked;
      return broken ? c.make() : ffi::Any(MarkingKernel());
    }));
    Install({});
    SetBackendMode(BackendMode::kJit);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(HostCall(DType::kFloat32).Run(), 0);
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(Misses(MissReason::kCompileFailed), 3u);
    ASSERT_EQ(RecentErrors().size(), 1u);
    EXPECT_NE(RecentErrors()[0].find(c.message), std::string::npos) << RecentErrors()[0];
    broken = false;
    SetBackendMode(BackendMode::kJit);
    EXPECT_EQ(HostCall(DType::kFloat32).Run(), kCompiledMark);
    EXPECT_EQ(asked, 2);
  }
}

// A kernel that raises is counted and its work done by the fallback.
TEST_F(CutedslProviderTest, FallsBackWhenTheLaunchFails) {
  RegisterFactory(ffi::Function::FromTyped([](ffi::String, int64_t) {
    return ffi::Function::FromPacked([](const ffi::AnyView*, int32_t, ffi::Any*) {
      TVM_FFI_THROW(CudaError) << "no kernel image";
    });
  }));
  Install({});
  SetBackendMode(BackendMode::kJit);
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), 0);
  EXPECT_EQ(Misses(MissReason::kLaunchFailed), 1u);
  ASSERT_EQ(RecentErrors().size(), 1u);
  EXPECT_NE(RecentErrors()[0].find("CudaError: no kernel image"), std::string::npos);
}

// A kernel's result is dropped, not leaked: the object it returns is released.
TEST_F(CutedslProviderTest, ReleasesWhatAKernelReturns) {
  const ffi::Function result = MarkingKernel();
  RegisterFactory(ffi::Function::FromTyped([&](ffi::String, int64_t) {
    return ffi::Function::FromPacked(
        [result](const ffi::AnyView*, int32_t, ffi::Any* out) { *out = result; });
  }));
  Install({});
  SetBackendMode(BackendMode::kJit);
  HostCall(DType::kFloat32).Run();
  const auto before = result.use_count();
  for (int i = 0; i < 10; ++i) HostCall(DType::kFloat32).Run();
  EXPECT_EQ(result.use_count(), before);
}

// Two threads that switch modes while others quantize: every call is served by somebody.
TEST_F(CutedslProviderTest, ModesChangeUnderCallers) {
  WritePackage(folder_ / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
  RegisterFactory(ffi::Function::FromTyped([](ffi::String, int64_t) { return MarkingKernel(); }));
  Install({folder_.path()});
  std::atomic<bool> stop{false};
  std::thread switcher([&] {
    for (int i = 0; !stop; ++i) SetBackendMode(static_cast<BackendMode>(i % 3));
  });
  constexpr int kCallers = 3, kCalls = 500;
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      HostCall packaged(DType::kFloat32), compiled(DType::kFloat16);
      for (int call = 0; call < kCalls; ++call) {
        const uint8_t a = packaged.Run(), b = compiled.Run();
        wrong += (a != FAKE_FIRST_MARK && a != 0) || (b != kCompiledMark && b != 0);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  stop = true;
  switcher.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(Calls(Backend::kCutedsl) + Calls(Backend::kReference), 2u * kCallers * kCalls);
}

// From Quantize to the kernel and back nothing is allocated, packaged or compiled.
TEST_F(CutedslProviderTest, WarmCallsDoNotAllocate) {
  WritePackage(folder_ / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
  RegisterFactory(ffi::Function::FromTyped([](ffi::String, int64_t) { return MarkingKernel(); }));
  Install({folder_.path()});
  SetBackendMode(BackendMode::kJit);
  HostCall packaged(DType::kFloat32), compiled(DType::kFloat16);
  packaged.Run();
  compiled.Run();
  const int64_t before = AllocationsOfThread();
  for (int i = 0; i < 100; ++i) {
    packaged.Run();
    compiled.Run();
  }
  EXPECT_EQ(AllocationsOfThread() - before, 0);
  EXPECT_EQ(Calls(Backend::kCutedsl), 202u);
}

// Constructing the provider, which happens when a program starts, opens nothing.
TEST_F(CutedslProviderTest, OpensPackagesLazily) {
  Install({folder_.path()});
  WritePackage(folder_ / "fake", FAKE_MANIFEST_FIELDS, FakeLibrary("good"));
  EXPECT_EQ(HostCall(DType::kFloat32).Run(), FAKE_FIRST_MARK);
  ASSERT_EQ(provider_->Packages().size(), 1u);
  EXPECT_TRUE(provider_->Packages()[0].verdict.ok());
}

}  // namespace
}  // namespace cutedsl_quant
