#include "tests/gpu/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "common/numerics.h"
#include "common/reference/float_formats.h"

namespace cutedsl_quant {
namespace testing {
namespace {

// Where the parts of a number lie in its bits.
struct Layout {
  int exponent_bits;
  int mantissa_bits;

  uint32_t sign(bool negative) const {
    return negative ? 1u << (exponent_bits + mantissa_bits) : 0;
  }
  uint32_t max_exponent() const { return (1u << exponent_bits) - 1; }  // of infinity and NaN
  uint32_t mantissa_mask() const { return (1u << mantissa_bits) - 1; }
  uint32_t Bits(bool negative, uint32_t exponent, uint32_t mantissa) const {
    return sign(negative) | exponent << mantissa_bits | (mantissa & mantissa_mask());
  }
};

Layout LayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return {8, 23};
    case DType::kFloat16:
      return {5, 10};
    default:
      return {8, 7};
  }
}

uint32_t Encode(DType dtype, float value) {
  switch (dtype) {
    case DType::kFloat32:
      return numerics::FloatToBits(value);
    case DType::kFloat16:
      return reference::EncodeFloat16(value);
    default:
      return reference::EncodeBFloat16(value);
  }
}

// Bits of the random number of one element, taken from the low end.
class Dice {
 public:
  explicit Dice(uint64_t index) : bits_(Hash(index)) {}
  bool Coin() { return Below(2) == 1; }
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  uint32_t Below(uint32_t n) {
    const uint32_t result = static_cast<uint32_t>(bits_ % n);
    bits_ = Hash(bits_);
    return result;
  }
  float Normal() {
    float sum = 0;
    for (int i = 0; i < 6; ++i) sum += static_cast<float>(Below(1 << 16)) / 65536.0f - 0.5f;
    return sum * 1.4f;
  }

 private:
  uint64_t bits_;
};

struct Position {
  int64_t row;
  int64_t col;
  int64_t cols;
  uint8_t seed;

  int64_t index() const { return row * cols + col; }
  int64_t tile() const { return row / 32 * ((cols + 31) / 32) + col / 32; }
};

// Elements of a tile whose columns, rows or whole extent (a third each) are chosen now and then.
bool InChosenBlock(const Position& at) {
  const uint64_t kind = Hash(static_cast<uint64_t>(at.tile()) + (1ull << 40));
  switch (kind % 3) {
    case 0:
      return kind / 3 % 2 == 0;
    case 1:
      return Hash(kind + static_cast<uint64_t>(at.row)) % 4 == 0;
    default:
      return Hash(kind + static_cast<uint64_t>(at.col)) % 4 == 0;
  }
}

uint32_t RoundingEdge(const Layout& layout, const Position& at, Dice& dice) {
  // 448 and 57344 are both 1.75 times a power of two.
  const uint32_t fp8_max = 3u << (layout.mantissa_bits - 2);
  const uint32_t top = layout.max_exponent() - 1;
  const uint32_t exponent =
      16 +
      static_cast<uint32_t>(Hash(static_cast<uint64_t>(at.tile()) + (1ull << 41)) % (top - 16));
  const bool negative = dice.Coin();
  if (dice.OneIn(12)) {
    const uint32_t neighbour = dice.Below(3);  // below, equal, above
    return layout.Bits(negative, exponent, fp8_max + neighbour - 1);
  }
  // Four bits behind the point are an e4m3 mantissa and a half.
  const uint32_t mantissa = dice.Below(16) << (layout.mantissa_bits - 4);
  return layout.Bits(negative, exponent - dice.Below(16), mantissa);
}

uint32_t MakeBits(ValueClass value_class, DType dtype, const Position& at) {
  const Layout layout = LayoutOf(dtype);
  const auto pattern = [&](int64_t number) {
    const uint32_t bits = static_cast<uint32_t>(number) & 0xFFFF;
    return dtype == DType::kFloat32 ? bits << 16 : bits;
  };
  Dice dice(static_cast<uint64_t>(at.index()) + (static_cast<uint64_t>(value_class) << 48) +
            (static_cast<uint64_t>(at.seed) << 56));
  const auto nan = [&] {
    return layout.Bits(dice.Coin(), layout.max_exponent(), 1 + dice.Below(layout.mantissa_mask()));
  };
  switch (value_class) {
    case ValueClass::kNormal:
      break;
    case ValueClass::kWideRange:
      return layout.Bits(dice.Coin(), dice.Below(layout.max_exponent()), dice.Below(1 << 23));
    case ValueClass::kZeros:
      if (dice.OneIn(16) && !InChosenBlock(at)) break;
      return layout.sign(dice.Coin());
    case ValueClass::kSubnormals:
      return layout.Bits(dice.Coin(), dice.OneIn(100) ? 1 : 0,
                         dice.Below(1 << 23) >> dice.Below(24));
    case ValueClass::kInfinities:
      if (dice.OneIn(200)) return layout.Bits(dice.Coin(), layout.max_exponent(), 0);
      break;
    case ValueClass::kNans:
      if (dice.OneIn(10)) return nan();
      break;
    case ValueClass::kNanBlocks:
      if (InChosenBlock(at)) return nan();
      break;
    case ValueClass::kRoundingEdges:
      return RoundingEdge(layout, at, dice);
    case ValueClass::kPatterns:
      return pattern(at.index() * 40503);  // odd: every pattern once in 65,536
    case ValueClass::kPatternMaxima:
      return at.row % 32 == at.col % 32 ? pattern(at.tile() * 32 + at.row % 32) : 0;
    case ValueClass::kIntegers:
      return Encode(dtype, static_cast<float>(dice.Below(17)) - 8.0f);
  }
  return Encode(dtype, dice.Normal());
}

}  // namespace

const char* ValueClassName(ValueClass value_class) {
  constexpr const char* kNames[] = {
      "normal",     "wide_range",     "zeros",    "subnormals",     "infinities", "nans",
      "nan_blocks", "rounding_edges", "patterns", "pattern_maxima", "integers",
  };
  return kNames[static_cast<int>(value_class)];
}

int64_t ElementSize(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    default:
      return 1;
  }
}

uint64_t Hash(uint64_t index) {
  uint64_t x = index + 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

void ParallelFor(int64_t count, const std::function<void(int64_t, int64_t)>& function) {
  const int64_t num_threads =
      std::min<int64_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < num_threads; ++t) {
    threads.emplace_back(function, count * t / num_threads, count * (t + 1) / num_threads);
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<uint8_t> MakeValues(ValueClass value_class, DType dtype, int64_t m, int64_t n,
                                uint8_t seed) {
  const int64_t size = ElementSize(dtype);
  std::vector<uint8_t> values(static_cast<size_t>(m * n * size));
  ParallelFor(m, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t col = 0; col < n; ++col) {
        const uint32_t bits = MakeBits(value_class, dtype, {row, col, n, seed});
        memcpy(&values[static_cast<size_t>((row * n + col) * size)], &bits,
               static_cast<size_t>(size));
      }
    }
  });
  return values;
}

}  // namespace testing
}  // namespace cutedsl_quant
