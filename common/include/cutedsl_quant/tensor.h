// Non-owning tensor views: what every function of this library takes and fills.
#ifndef CUTEDSL_QUANT_TENSOR_H_
#define CUTEDSL_QUANT_TENSOR_H_

#include <cstdint>
#include <initializer_list>

// The CUDA runtime's stream handle, declared here so that callers without CUDA headers can include
// this one.
struct CUstream_st;

namespace cutedsl_quant {

// A CUDA stream (the same type as cudaStream_t); null is the default stream. Ignored for host
// tensors.
using Stream = CUstream_st*;

// Element types. The values are part of the kernel configuration's encoding (config.h).
enum class DType : uint8_t {
  kByte = 0,
  kInt16 = 1,
  kInt32 = 2,
  kInt64 = 3,
  kFloat32 = 4,
  kFloat16 = 5,
  kBFloat16 = 6,
  kFloat8E4M3 = 7,
  kFloat8E5M2 = 8,
  kFloat8E8M0 = 9,
  kFloat4E2M1 = 10,
};

enum class DeviceType : uint8_t { kCpu = 0, kCuda = 1 };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int32_t index = 0;  // CUDA device ordinal; 0 for the host
};

constexpr bool operator==(Device a, Device b) { return a.type == b.type && a.index == b.index; }
constexpr bool operator!=(Device a, Device b) { return !(a == b); }

inline constexpr int kMaxDims = 15;

// A view of memory that the caller owns. A default-constructed Tensor means "not given".
//
// Quantization sees every tensor as two-dimensional: rows() is the product of all dimensions but
// the last, cols() the last one. One dimension (N) is 1 x N, and no dimension is 1 x 1.
struct Tensor {
  Tensor() = default;
  Tensor(void* data, DType dtype, Device device, std::initializer_list<int64_t> dims)
      : data(data), dtype(dtype), device(device), ndim(static_cast<int>(dims.size())) {
    int i = 0;
    for (int64_t d : dims) {
      if (i < kMaxDims) shape[i++] = d;  // too many are refused by whoever is given the tensor
    }
  }

  bool present() const { return ndim >= 0; }
  int64_t cols() const { return ndim > 0 ? shape[ndim - 1] : 1; }
  int64_t rows() const {
    int64_t product = 1;
    for (int i = 0; i + 1 < ndim; ++i) product *= shape[i];
    return product;
  }
  int64_t size() const { return ndim < 0 ? 0 : rows() * cols(); }

  void* data = nullptr;
  // Distances in elements between neighbours along each dimension (ndim of them), or null for
  // row-major contiguous. Tensors that are not contiguous are refused; the field exists so that
  // they can be.
  const int64_t* strides = nullptr;
  DType dtype = DType::kFloat32;
  Device device;
  int ndim = -1;                 // at most kMaxDims; -1: not given
  int64_t shape[kMaxDims] = {};  // last, so that all of a tensor of few dimensions is in one line
};

// "float32", "bfloat16", "float8_e4m3fn", ...
const char* DTypeName(DType dtype);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TENSOR_H_
