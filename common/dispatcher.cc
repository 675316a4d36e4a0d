#include "common/dispatcher.h"

#include "common/checks.h"
#include "common/counters.h"
#include "common/cuda/cast.h"
#include "common/device_guard.h"
#include "common/provider_registry.h"
#include "common/reference/reference.h"
#include "common/warning.h"
#include "cutedsl_quant/backend.h"

namespace cutedsl_quant {
namespace {

// What the CuTeDSL kernels ask for; see ffi_bridge/kernel_package_abi.h.
constexpr int64_t kColsMultiple = 16;
constexpr uintptr_t kAlignment = 16;

bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0;
}

// Launches a CuTeDSL kernel, or says why none was launched.
MissReason TryCutedsl(const QuantizeConfig& config, const KernelArgs& args) noexcept {
  if (GetBackendMode() == BackendMode::kOff) return MissReason::kDisabled;
  if (!config.IsLegal()) return MissReason::kUnsupportedConfig;
  if (args.cols % kColsMultiple != 0) return MissReason::kShape;
  if (!IsAligned(args.input) || !IsAligned(args.act_input) || !IsAligned(args.rowwise_data) ||
      !IsAligned(args.columnwise_data)) {
    return MissReason::kAlignment;
  }
  KernelProvider* const provider = GetKernelProvider();
  if (provider == nullptr) return MissReason::kNoProvider;
  const KernelLookup lookup = provider->Find(config.Id(), args.device);
  if (lookup.kernel == nullptr) return lookup.reason;
  return lookup.kernel->Launch(config, args) ? MissReason::kNone : MissReason::kLaunchFailed;
}

void Dispatch(const QuantizeConfig& config, const KernelArgs& args) {
  const DeviceGuard guard(args.device);
  const MissReason reason = TryCutedsl(config, args);
  if (reason == MissReason::kNone) {
    CountCall(Backend::kCutedsl, reason);
    return;
  }
  const bool on_host = args.device.type == DeviceType::kCpu;
  const Backend backend = on_host ? Backend::kReference : Backend::kCuda;
  WarnNotChosen(config, backend, reason);
  on_host ? reference::Quantize(config, args) : cuda::Quantize(config, args);
  CountCall(backend, reason);
}

}  // namespace

void QuantizeAs(const char* function, const Tensor& input, const QuantizedTensor& output,
                const QuantizeOptions& options, Stream stream) {
  const QuantizeCall call = CheckQuantize(function, input, output, options, stream);
  if (call.args.rows == 0 || call.args.cols == 0) return;
  Dispatch(call.config, call.args);
}

void DequantizeAs(const char* function, const QuantizedTensor& input, const Tensor& output,
                  Stream stream) {
  const DequantizeArgs args = CheckDequantize(function, input, output, stream);
  if (args.rows == 0 || args.cols == 0) return;
  const DeviceGuard guard(args.device);
  args.device.type == DeviceType::kCpu ? reference::Dequantize(args) : cuda::Dequantize(args);
}

void Quantize(const Tensor& input, const QuantizedTensor& output, const QuantizeOptions& options,
              Stream stream) {
  QuantizeAs("Quantize", input, output, options, stream);
}

void Dequantize(const QuantizedTensor& input, const Tensor& output, Stream stream) {
  DequantizeAs("Dequantize", input, output, stream);
}

}  // namespace cutedsl_quant
