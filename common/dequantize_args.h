// What a backend is given to dequantize one direction of an MXFP8 tensor.
#ifndef CUTEDSL_QUANT_COMMON_DEQUANTIZE_ARGS_H_
#define CUTEDSL_QUANT_COMMON_DEQUANTIZE_ARGS_H_

#include <cstdint>

#include "cutedsl_quant/kernel_provider.h"
#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {

// A checked call, every tensor flattened to two dimensions.
struct DequantizeArgs {
  int64_t rows = 0;                      // M > 0
  int64_t cols = 0;                      // N > 0
  const uint8_t* data = nullptr;         // M x N of fp8_dtype
  DType fp8_dtype = DType::kFloat8E4M3;  // kFloat8E4M3 or kFloat8E5M2
  ScaleView scale_inv;                   // only read
  bool colwise = false;                  // scales belong to 32x1 blocks instead of 1x32 blocks
  bool swizzled = false;                 // scales are in the GEMM's 128x4 tiles
  void* output = nullptr;                // M x N of dtype
  DType dtype = DType::kFloat32;         // kFloat32, kFloat16 or kBFloat16
  Device device;
  Stream stream = nullptr;
};

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_DEQUANTIZE_ARGS_H_
