// What a backend is given to rearrange the scales of one direction of an MXFP8 tensor.
#ifndef CUTEDSL_QUANT_COMMON_SWIZZLE_ARGS_H_
#define CUTEDSL_QUANT_COMMON_SWIZZLE_ARGS_H_

#include <cstdint>

#include "cutedsl_quant/kernel_provider.h"
#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {

// A checked call. One of the two buffers is only read.
struct SwizzleArgs {
  int64_t rows = 0;      // M > 0 of the tensor
  int64_t cols = 0;      // N > 0
  bool colwise = false;  // scales belong to 32x1 blocks instead of 1x32 blocks
  ScaleView compact;     // padded or exact
  ScaleView swizzled;    // in the GEMM's 128x4 tiles
  Device device;
  Stream stream = nullptr;
};

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_SWIZZLE_ARGS_H_
