#include "common/dispatcher.h"

#include "common/checks.h"
#include "common/counters.h"
#include "common/cuda/cast.h"
#include "common/cuda/swizzle.h"
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

bool OnHost(Device device) { return device.type == DeviceType::kCpu; }

// Casts, by the first backend that can.
void Dispatch(const QuantizeConfig& config, const KernelArgs& args) {
  const MissReason reason = TryCutedsl(config, args);
  if (reason == MissReason::kNone) {
    CountCall(Backend::kCutedsl, reason);
    return;
  }
  const bool on_host = OnHost(args.device);
  const Backend backend = on_host ? Backend::kReference : Backend::kCuda;
  WarnNotChosen(config, backend, reason);
  on_host ? reference::Quantize(config, args) : cuda::Quantize(config, args);
  CountCall(backend, reason);
}

// Adds the partial sums up that the cast has left in the workspace.
void ReduceDbias(const QuantizeCall& call) {
  const KernelArgs& args = call.args;
  if (OnHost(args.device)) {
    reference::ReduceDbias(args.dbias_workspace, args.dbias_workspace_rows, args.cols, call.dbias,
                           call.config.dtype);
  } else {
    cuda::ReduceDbias(args.dbias_workspace, args.dbias_workspace_rows, args.cols, call.dbias,
                      call.config.dtype, args.stream);
  }
}

void DescribeWorkspace(const KernelArgs& args, Tensor* workspace) {
  *workspace =
      Tensor(nullptr, DType::kFloat32, args.device, {args.dbias_workspace_rows, args.cols});
}

void Run(const QuantizeRequest& request) {
  const QuantizeCall call = CheckQuantize(request);
  const KernelArgs& args = call.args;
  if (call.config.with_dbias && args.dbias_workspace == nullptr) {
    DescribeWorkspace(args, request.workspace);
    // Without rows none is needed, and a second call would look like this one.
    if (args.rows > 0) return;
  }
  if (args.cols == 0 || (args.rows == 0 && !call.config.with_dbias)) return;
  const DeviceGuard guard(args.device);
  if (args.rows > 0) Dispatch(call.config, args);
  if (call.config.with_dbias) ReduceDbias(call);
}

void Rearrange(const SwizzleCall& call, void (*on_host)(const SwizzleArgs&),
               void (*on_device)(const SwizzleArgs&)) {
  for (int i = 0; i < call.count; ++i) {
    const SwizzleArgs& args = call.directions[i];
    if (args.rows == 0 || args.cols == 0) return;
    const DeviceGuard guard(args.device);
    OnHost(args.device) ? on_host(args) : on_device(args);
  }
}

}  // namespace

void QuantizeAs(const char* function, const Tensor& input, const QuantizedTensor& output,
                const QuantizeOptions& options, Stream stream) {
  QuantizeRequest request{function, input, output, stream};
  request.options = &options;
  Run(request);
}

void QuantizeActivationAs(const char* function, Activation activation, const Tensor& input,
                          const QuantizedTensor& output, Stream stream) {
  QuantizeRequest request{function, input, output, stream};
  request.activation = &activation;
  Run(request);
}

void QuantizeDActivationAs(const char* function, Activation derivative, const Tensor& grad,
                           const Tensor& act_input, const QuantizedTensor& output, Stream stream) {
  QuantizeRequest request{function, grad, output, stream};
  request.activation = &derivative;
  request.act_input = &act_input;
  Run(request);
}

void QuantizeDbiasAs(const char* function, const Tensor& input, const QuantizedTensor& output,
                     const Tensor& dbias, Tensor* workspace, Stream stream) {
  QuantizeRequest request{function, input, output, stream};
  request.dbias = &dbias;
  request.workspace = workspace;
  Run(request);
}

void QuantizeDbiasDActivationAs(const char* function, Activation derivative, const Tensor& grad,
                                const Tensor& act_input, const QuantizedTensor& output,
                                const Tensor& dbias, Tensor* workspace, Stream stream) {
  QuantizeRequest request{function, grad, output, stream};
  request.activation = &derivative;
  request.act_input = &act_input;
  request.dbias = &dbias;
  request.workspace = workspace;
  Run(request);
}

void DequantizeAs(const char* function, const QuantizedTensor& input, const Tensor& output,
                  Stream stream) {
  const DequantizeArgs args = CheckDequantize(function, input, output, stream);
  if (args.rows == 0 || args.cols == 0) return;
  const DeviceGuard guard(args.device);
  OnHost(args.device) ? reference::Dequantize(args) : cuda::Dequantize(args);
}

void SwizzleScalesAs(const char* function, const QuantizedTensor& input,
                     const QuantizedTensor& output, Stream stream) {
  Rearrange(CheckSwizzle(function, input, output, /*to_swizzled=*/true, stream),
            reference::SwizzleScales, cuda::SwizzleScales);
}

void UnswizzleScalesAs(const char* function, const QuantizedTensor& input,
                       const QuantizedTensor& output, Stream stream) {
  Rearrange(CheckSwizzle(function, input, output, /*to_swizzled=*/false, stream),
            reference::UnswizzleScales, cuda::UnswizzleScales);
}

void Quantize(const Tensor& input, const QuantizedTensor& output, const QuantizeOptions& options,
              Stream stream) {
  QuantizeAs("Quantize", input, output, options, stream);
}

void QuantizeActivation(Activation activation, const Tensor& input, const QuantizedTensor& output,
                        Stream stream) {
  QuantizeActivationAs("QuantizeActivation", activation, input, output, stream);
}

void QuantizeDActivation(Activation derivative, const Tensor& grad, const Tensor& act_input,
                         const QuantizedTensor& output, Stream stream) {
  QuantizeDActivationAs("QuantizeDActivation", derivative, grad, act_input, output, stream);
}

void QuantizeDbias(const Tensor& input, const QuantizedTensor& output, const Tensor& dbias,
                   Tensor* workspace, Stream stream) {
  QuantizeDbiasAs("QuantizeDbias", input, output, dbias, workspace, stream);
}

void QuantizeDbiasDActivation(Activation derivative, const Tensor& grad, const Tensor& act_input,
                              const QuantizedTensor& output, const Tensor& dbias, Tensor* workspace,
                              Stream stream) {
  QuantizeDbiasDActivationAs("QuantizeDbiasDActivation", derivative, grad, act_input, output, dbias,
                             workspace, stream);
}

void Dequantize(const QuantizedTensor& input, const Tensor& output, Stream stream) {
  DequantizeAs("Dequantize", input, output, stream);
}

void SwizzleScales(const QuantizedTensor& input, const QuantizedTensor& output, Stream stream) {
  SwizzleScalesAs("SwizzleScales", input, output, stream);
}

void UnswizzleScales(const QuantizedTensor& input, const QuantizedTensor& output, Stream stream) {
  UnswizzleScalesAs("UnswizzleScales", input, output, stream);
}

}  // namespace cutedsl_quant
