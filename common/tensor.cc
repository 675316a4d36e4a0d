#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {

const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kByte:
      return "uint8";
    case DType::kInt16:
      return "int16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat8E4M3:
      return "float8_e4m3fn";
    case DType::kFloat8E5M2:
      return "float8_e5m2";
    case DType::kFloat8E8M0:
      return "float8_e8m0fnu";
    case DType::kFloat4E2M1:
      return "float4_e2m1fn";
  }
  return "unknown";
}

}  // namespace cutedsl_quant
