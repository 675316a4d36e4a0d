// What a call must leave in memory, from the CPU reference.
#ifndef CUTEDSL_QUANT_TESTS_GPU_EXPECTED_H_
#define CUTEDSL_QUANT_TESTS_GPU_EXPECTED_H_

#include <cstdint>
#include <vector>

#include "common/numerics.h"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {
namespace testing {

// The three kinds of scale buffers that callers may pass.
enum class ScaleLayout { kPadded, kExact, kSwizzled };
inline constexpr ScaleLayout kScaleLayouts[] = {ScaleLayout::kPadded, ScaleLayout::kExact,
                                                ScaleLayout::kSwizzled};
const char* ScaleLayoutName(ScaleLayout layout);

numerics::ScaleShape ScaleShapeOf(ScaleLayout layout, bool colwise, int64_t m, int64_t n);

// One direction of a call, with exactly-sized compact scales.
struct Quantized {
  std::vector<uint8_t> data;
  std::vector<uint8_t> scales;
};

struct Expected {
  Quantized rowwise;
  Quantized columnwise;
  float amax = 0;
};

// Both directions of what `config` makes of m x n host values, by the CPU reference, in parallel.
// Of `config`, the types, the activation or derivative and the use of 2-D blocks count.
Expected MakeExpected(const QuantizeConfig& config, const void* input, const void* act_input,
                      int64_t m, int64_t n);

// What one column of dbias may hold.
struct DbiasRange {
  float lowest = 0;  // both NaN: NaN alone
  float highest = 0;
  bool any = false;  // fp32 sums overflow or not, as the order of additions has it

  bool Contains(float value) const;
};

// The ranges of all columns: the sums in double precision, give or take what fp32 additions in any
// order within and over the chunks of the workspace may err, rounded to config.dtype. Whole numbers
// below 2^24 are exact. Row i of m is row i % num_rows of the values given.
std::vector<DbiasRange> MakeDbiasRanges(const QuantizeConfig& config, const void* input,
                                        const void* act_input, int64_t num_rows, int64_t m,
                                        int64_t n);

// A value of kFloat32, kFloat16 or kBFloat16.
float Decode(DType dtype, const void* values, int64_t index);

// A scale buffer with room for the padded shape, filled with `poison` before `exact` scales are
// written in `layout`.
std::vector<uint8_t> ScaleBuffer(const std::vector<uint8_t>& exact, ScaleLayout layout,
                                 bool colwise, int64_t m, int64_t n, uint8_t poison);
// The scales that lie in such a buffer.
std::vector<uint8_t> ExactScales(const std::vector<uint8_t>& buffer, ScaleLayout layout,
                                 bool colwise, int64_t m, int64_t n);

}  // namespace testing
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_GPU_EXPECTED_H_
