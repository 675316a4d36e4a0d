// A call of the native API as tests describe it: the tensor's shape, the configuration, the
// buffers.
#ifndef CUTEDSL_QUANT_TESTS_GPU_CALL_H_
#define CUTEDSL_QUANT_TESTS_GPU_CALL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cutedsl_quant/config.h"
#include "cutedsl_quant/tensor.h"
#include "tests/gpu/expected.h"
#include "tools/bench/fusions.h"

namespace cutedsl_quant {
namespace testing {

using bench::CallTensors;
using bench::RunCall;

struct Shape {
  std::vector<int64_t> dims;
  // Added to addresses aligned to 256 bytes.
  int64_t input_offset = 0;      // elements; of input and dbias
  int64_t output_offset = 0;     // bytes; of data and scales
  int64_t act_input_offset = 0;  // elements

  int64_t n() const { return dims.empty() ? 1 : dims.back(); }
  int64_t m() const {
    int64_t product = 1;
    for (size_t i = 0; i + 1 < dims.size(); ++i) product *= dims[i];
    return product;
  }
  bool empty() const { return m() * n() == 0; }
  // A name that may be part of a test's.
  std::string Name() const;
};

struct Call {
  QuantizeConfig config;
  ScaleLayout layout;
  std::optional<float> noop;

  // Nothing may be written.
  bool skipped() const;
  std::string Name() const;
};

// The casts of `dtype` to `fp8_dtype` in all directions and layouts, with and without amax, each
// with the fusion (and the use of 2-D blocks) of `fusion`. Exactly-sized buffers are a third layout
// to the caller, and no configuration of their own.
std::vector<Call> AllCalls(const QuantizeConfig& fusion, DType dtype, DType fp8_dtype);
// Every direction and layout once.
std::vector<Call> FewCalls(const QuantizeConfig& fusion, DType dtype, DType fp8_dtype);

// Whether exponentials are part of it: fp32 values may then differ by a few units in the last place
// from backend to backend.
bool IsSmooth(const QuantizeConfig& config);

Tensor MakeTensor(void* data, DType dtype, Device device, const std::vector<int64_t>& dims);

}  // namespace testing
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_GPU_CALL_H_
