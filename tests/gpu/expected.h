// What a cast must leave in memory, from the CPU reference.
#ifndef CUTEDSL_QUANT_TESTS_GPU_EXPECTED_H_
#define CUTEDSL_QUANT_TESTS_GPU_EXPECTED_H_

#include <cstdint>
#include <vector>

#include "common/numerics.h"
#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {
namespace testing {

// The three kinds of scale buffers that callers may pass.
enum class ScaleLayout { kPadded, kExact, kSwizzled };
inline constexpr ScaleLayout kScaleLayouts[] = {ScaleLayout::kPadded, ScaleLayout::kExact,
                                                ScaleLayout::kSwizzled};
const char* ScaleLayoutName(ScaleLayout layout);

numerics::ScaleShape ScaleShapeOf(ScaleLayout layout, bool colwise, int64_t m, int64_t n);

// One direction of a cast, with exactly-sized compact scales.
struct Quantized {
  std::vector<uint8_t> data;
  std::vector<uint8_t> scales;
};

struct Expected {
  Quantized rowwise;
  Quantized columnwise;
  float amax = 0;
};

// Quantizes m x n host values with the CPU reference, in parallel.
Expected MakeExpected(const void* values, DType dtype, DType fp8_dtype, int64_t m, int64_t n);

// A scale buffer with room for the padded shape, filled with `poison` before `exact` scales are
// written in `layout`.
std::vector<uint8_t> ScaleBuffer(const std::vector<uint8_t>& exact, ScaleLayout layout,
                                 bool colwise, int64_t m, int64_t n, uint8_t poison);

}  // namespace testing
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_GPU_EXPECTED_H_
