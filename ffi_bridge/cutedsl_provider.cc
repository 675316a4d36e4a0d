#include "ffi_bridge/cutedsl_provider.h"

#include <exception>

#include "ffi_bridge/compute_capability.h"
#include "ffi_bridge/errors.h"
#include "ffi_bridge/jit.h"

namespace cutedsl_quant {
namespace {

// The C entry of a function object, for calls without allocation.
TVMFFISafeCallType SafeCall(const tvm::ffi::Function& function) {
  const auto* object = tvm::ffi::detail::ObjectUnsafe::RawObjectPtrFromObjectRef(function);
  return static_cast<const tvm::ffi::FunctionObj*>(object)->safe_call;
}

void* Handle(const tvm::ffi::Function& function) {
  return tvm::ffi::detail::ObjectUnsafe::RawObjectPtrFromObjectRef(function);
}

}  // namespace

CutedslProvider::CompiledKernel::CompiledKernel(tvm::ffi::Function f)
    : function(std::move(f)), kernel(SafeCall(function), Handle(function)) {}

CutedslProvider::CutedslProvider(Options options)
    : serve_host_tensors_(options.serve_host_tensors),
      packages_(std::move(options.search)),
      cache_([this](uint32_t config_id, int32_t compute_capability) {
        return Resolve(config_id, compute_capability);
      }) {}

int32_t CutedslProvider::CapabilityOf(Device device) const noexcept {
  if (device.type == DeviceType::kCuda) return ComputeCapability(device.index);
  return serve_host_tensors_ ? kHostCapability : -1;
}

KernelLookup CutedslProvider::Find(uint32_t config_id, Device device) noexcept {
  const int32_t compute_capability = CapabilityOf(device);
  if (compute_capability < 0) {
    return {nullptr,
            device.type == DeviceType::kCuda ? MissReason::kArchitecture : MissReason::kHostTensor};
  }
  return cache_.Find(config_id, compute_capability);
}

std::vector<uint32_t> CutedslProvider::PackagedConfigs(Device device) {
  const int32_t compute_capability = CapabilityOf(device);
  if (compute_capability < 0) return {};
  return packages_.ConfigIds(compute_capability);
}

void CutedslProvider::Reset() noexcept {
  packages_.Reset();
  cache_.Reset();
}

KernelLookup CutedslProvider::Resolve(uint32_t config_id, int32_t compute_capability) noexcept try {
  const auto packaged = packages_.Find(config_id, compute_capability);
  if (packaged.call != nullptr) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto slot =
        packaged_.try_emplace({config_id, compute_capability}, packaged.call, nullptr);
    return {&slot.first->second, MissReason::kNone};
  }
  if (GetBackendMode() != BackendMode::kJit) return {nullptr, packaged.reason};
  return Compile(config_id, compute_capability);
} catch (const std::exception&) {  // out of memory
  return {nullptr, MissReason::kCompileFailed};
}

KernelLookup CutedslProvider::Compile(uint32_t config_id, int32_t compute_capability) {
  const Key key(config_id, compute_capability);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = compiled_.find(key);
    if (found != compiled_.end()) return {&found->second.kernel, MissReason::kNone};
  }
  const auto config = QuantizeConfig::FromId(config_id);
  if (!config) return {nullptr, MissReason::kUnsupportedConfig};
  CompileResult result = CompileKernel(*config, compute_capability);
  if (!result.function) return {nullptr, result.reason};
  std::lock_guard<std::mutex> lock(mutex_);
  const auto slot = compiled_.try_emplace(key, std::move(*result.function));
  return {&slot.first->second.kernel, MissReason::kNone};
}

CutedslProvider& ProcessProvider() {
  // Never destroyed: calls may come while the process ends.
  static CutedslProvider* const provider = new CutedslProvider(CutedslProvider::Options());
  return *provider;
}

}  // namespace cutedsl_quant
