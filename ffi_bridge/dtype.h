// Element types and devices as DLPack spells them.
#ifndef CUTEDSL_QUANT_FFI_BRIDGE_DTYPE_H_
#define CUTEDSL_QUANT_FFI_BRIDGE_DTYPE_H_

#include <dlpack/dlpack.h>

#include <optional>

#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {

struct DTypePair {
  DType dtype;
  DLDataType dl;
};

// The one table of both spellings.
inline constexpr DTypePair kDTypes[] = {
    {DType::kByte, {kDLUInt, 8, 1}},
    {DType::kInt16, {kDLInt, 16, 1}},
    {DType::kInt32, {kDLInt, 32, 1}},
    {DType::kInt64, {kDLInt, 64, 1}},
    {DType::kFloat32, {kDLFloat, 32, 1}},
    {DType::kFloat16, {kDLFloat, 16, 1}},
    {DType::kBFloat16, {kDLBfloat, 16, 1}},
    {DType::kFloat8E4M3, {kDLFloat8_e4m3fn, 8, 1}},
    {DType::kFloat8E5M2, {kDLFloat8_e5m2, 8, 1}},
    {DType::kFloat8E8M0, {kDLFloat8_e8m0fnu, 8, 1}},
};

constexpr DLDataType ToDLDataType(DType dtype) {
  for (const DTypePair& pair : kDTypes) {
    if (pair.dtype == dtype) return pair.dl;
  }
  return {kDLFloat4_e2m1fn, 4, 1};  // the only one left
}

constexpr std::optional<DType> FromDLDataType(DLDataType dl) {
  for (const DTypePair& pair : kDTypes) {
    if (pair.dl.code == dl.code && pair.dl.bits == dl.bits && pair.dl.lanes == dl.lanes) {
      return pair.dtype;
    }
  }
  return std::nullopt;
}

constexpr DLDevice ToDLDevice(Device device) {
  return {device.type == DeviceType::kCuda ? kDLCUDA : kDLCPU, device.index};
}

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_FFI_BRIDGE_DTYPE_H_
