#include "common/preload.h"

#include <cuda_runtime_api.h>

#include <memory>

#include "common/cuda/preload.h"
#include "common/cuda_check.h"
#include "common/device_guard.h"
#include "common/numerics.h"
#include "common/provider_registry.h"
#include "cutedsl_quant/backend.h"

namespace cutedsl_quant {
namespace {

ScaleView View(uint8_t* scratch, numerics::ScaleShape shape) {
  return {scratch, shape.rows, shape.cols};
}

KernelArgs MakeArgs(const QuantizeConfig& config, Device device, int64_t rows, void* scratch,
                    Stream stream) {
  auto* const bytes = static_cast<uint8_t*>(scratch);
  auto* const floats = static_cast<float*>(scratch);
  KernelArgs args;
  args.rows = rows;
  args.cols = kPreloadCols;
  args.input = scratch;
  if (config.with_dact) args.act_input = scratch;
  if (config.rowwise) {
    args.rowwise_data = bytes;
    args.rowwise_scale_inv = View(bytes, numerics::PaddedRowwiseScaleShape(rows, kPreloadCols));
  }
  if (config.colwise) {
    args.columnwise_data = bytes;
    args.columnwise_scale_inv =
        View(bytes, numerics::PaddedColumnwiseScaleShape(rows, kPreloadCols));
  }
  if (config.with_amax) args.amax = floats;
  if (config.with_dbias) {
    args.dbias_workspace = floats;
    args.dbias_workspace_rows = numerics::CeilDiv(rows, numerics::DbiasChunkRows(config.with_dact));
  }
  args.device = device;
  args.stream = stream;
  return args;
}

void LaunchPackagedKernels(KernelProvider* provider, Device device) {
  void* scratch = nullptr;
  CheckCuda(cudaMalloc(&scratch, PreloadScratchBytes(kPreloadLargeRows)), "cudaMalloc");
  const std::unique_ptr<void, cudaError_t (*)(void*)> owner(scratch, cudaFree);
  for (const int64_t rows : {int64_t{1}, kPreloadLargeRows}) {
    LaunchPackagedKernels(provider, device, rows, scratch, nullptr);
  }
  CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace

void LaunchPackagedKernels(KernelProvider* provider, Device device, int64_t rows, void* scratch,
                           Stream stream) {
  for (const uint32_t id : provider->PackagedConfigs(device)) {
    const auto config = QuantizeConfig::FromId(id);
    if (!config) continue;
    const KernelLookup lookup = provider->Find(id, device);
    if (lookup.kernel == nullptr) continue;
    // One that does not launch will not launch later either, and its calls then say so.
    lookup.kernel->Launch(*config, MakeArgs(*config, device, rows, scratch, stream));
  }
}

void PreloadKernels(Device device) {
  if (device.type == DeviceType::kCpu) return;
  const DeviceGuard guard(device);
  cuda::Preload();
  KernelProvider* const provider = GetKernelProvider();
  if (provider != nullptr && GetBackendMode() != BackendMode::kOff) {
    LaunchPackagedKernels(provider, device);
  }
}

}  // namespace cutedsl_quant
