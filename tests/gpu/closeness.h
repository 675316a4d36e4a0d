// Comparison of results through exponentials, whose fp32 values may differ by a few units in the
// last place from backend to backend: rounded to FP8, a few elements are then one code apart.
#ifndef CUTEDSL_QUANT_TESTS_GPU_CLOSENESS_H_
#define CUTEDSL_QUANT_TESTS_GPU_CLOSENESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cutedsl_quant/tensor.h"
#include "tests/gpu/expected.h"

namespace cutedsl_quant {
namespace testing {

struct Closeness {
  uint64_t elements = 0;
  uint64_t different_elements = 0;  // in blocks with equal scales
  uint64_t blocks = 0;
  uint64_t different_blocks = 0;  // with other scales

  void Add(const Closeness& other);
  // Empty, or shares that exceed the bounds below.
  std::string Excess() const;
  std::string Summary() const;
};

// The parts that may differ. A relative error of 2^-22 moves one element in 2^17 over the edge
// between two e4m3 codes, and one step of rounding left out moves hundreds of times as many. Blocks
// differ where their amax lies on the edge between two scales, for which some inputs are made. A
// few more may differ in small tensors.
inline constexpr double kMaxElementShare = 5e-5;
inline constexpr double kMaxBlockShare = 2e-4;
inline constexpr uint64_t kMaxFew = 4;

// Compares one direction with what was expected and counts what differs. Empty, or what is farther
// apart than allowed: scales by more than 1; in blocks with equal scales, elements by more than one
// code and by more than 2^-20 of the largest FP8 value (near a zero of a derivative, the error of
// fp32 is larger than codes are apart), or a NaN and a number.
std::string CompareClosely(const Quantized& actual, const Quantized& expected, DType fp8_dtype,
                           bool colwise, int64_t m, int64_t n, Closeness* closeness);

// Whether two maxima are as close as the values they are of: a unit in the last place of `dtype`,
// or fp32's few.
bool CloseAmax(float actual, float expected, DType dtype);

}  // namespace testing
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_GPU_CLOSENESS_H_
