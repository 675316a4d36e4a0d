// What selects a kernel is the configuration and the widest access, which here only the number of
// columns limits; without rows, a call loads it and launches nothing.
#include "common/cuda/preload.h"

#include "common/cuda/cast.h"
#include "common/cuda/swizzle.h"
#include "cutedsl_quant/config.h"

namespace cutedsl_quant {
namespace cuda {
namespace {

// Multiples of every width of access that there are kernels for.
constexpr int64_t kCols[] = {16, 2, 1};

void LoadCasts(const QuantizeConfig& config) {
  for (const int64_t cols : kCols) {
    KernelArgs args;
    args.cols = cols;
    Quantize(config, args);
  }
}

void LoadDequantize(DType dtype, DType fp8_dtype) {
  for (const int64_t cols : kCols) {
    DequantizeArgs args;
    args.cols = cols;
    args.dtype = dtype;
    args.fp8_dtype = fp8_dtype;
    Dequantize(args);
  }
}

}  // namespace

void Preload() {
  for (QuantizeConfig config : AllLegalConfigs()) {
    LoadCasts(config);
    config.use_2d_quantization = true;
    if (config.IsCast()) LoadCasts(config);
  }
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const DType fp8_dtype : {DType::kFloat8E4M3, DType::kFloat8E5M2}) {
      LoadDequantize(dtype, fp8_dtype);
    }
    ReduceDbias(nullptr, 0, 0, nullptr, dtype, nullptr);
  }
  SwizzleArgs scales;
  scales.cols = 1;
  SwizzleScales(scales);
  UnswizzleScales(scales);
}

}  // namespace cuda
}  // namespace cutedsl_quant
