// Inputs for the comparisons: classes of values that each find their own kind of fault.
#ifndef CUTEDSL_QUANT_TESTS_GPU_VALUES_H_
#define CUTEDSL_QUANT_TESTS_GPU_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {
namespace testing {

enum class ValueClass {
  kNormal,         // what tensors hold
  kWideRange,      // finite, every exponent as likely as another: scales at both ends
  kZeros,          // +0 and -0, whole blocks of them, few other numbers
  kSubnormals,     // of the input type: a flush to zero shows
  kInfinities,     // some among numbers: scale 0xFE, elements saturate
  kNans,           // some among numbers: they must not reach the maximum of their block
  kNanBlocks,      // nothing but NaN in whole blocks: scale 0
  kRoundingEdges,  // maxima that are a power of two times the FP8 maximum and their neighbours;
                   // elements half way between FP8 values
  kPatterns,       // all 65,536 16-bit patterns as elements (fp32: as upper halves)
  kPatternMaxima,  // each of them alone in its block, in both directions
  kIntegers,       // small ones: their column sums are exact in any order
};

// Those for casts; kIntegers has its use where values are added up.
inline constexpr ValueClass kCastValueClasses[] = {
    ValueClass::kNormal,        ValueClass::kWideRange,     ValueClass::kZeros,
    ValueClass::kSubnormals,    ValueClass::kInfinities,    ValueClass::kNans,
    ValueClass::kNanBlocks,     ValueClass::kRoundingEdges, ValueClass::kPatterns,
    ValueClass::kPatternMaxima,
};

const char* ValueClassName(ValueClass value_class);

int64_t ElementSize(DType dtype);

// Row-major m x n elements of kFloat32, kFloat16 or kBFloat16; the same from run to run. Another
// `seed` gives other numbers.
std::vector<uint8_t> MakeValues(ValueClass value_class, DType dtype, int64_t m, int64_t n,
                                uint8_t seed = 0);

// A number for each index that looks random; the same from run to run.
uint64_t Hash(uint64_t index);

// Calls function(begin, end) for parts of [0, count), from as many threads as there are processors.
void ParallelFor(int64_t count, const std::function<void(int64_t begin, int64_t end)>& function);

}  // namespace testing
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_GPU_VALUES_H_
