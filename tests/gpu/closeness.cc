#include "tests/gpu/closeness.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "common/numerics.h"
#include "common/reference/float_formats.h"

namespace cutedsl_quant {
namespace testing {
namespace {

bool IsExcess(uint64_t different, uint64_t all, double max_share) {
  return static_cast<double>(different) > kMaxFew + max_share * static_cast<double>(all);
}

// Codes in the order of their values; both zeros are 0.
int Rank(uint8_t code) { return (code & 0x80) != 0 ? -(code & 0x7F) : code; }

bool CloseCodes(uint8_t a, uint8_t b, DType fp8_dtype) {
  const auto is_nan = [](uint8_t code) { return (code & 0x7F) == numerics::kFp8Nan; };
  if (is_nan(a) || is_nan(b)) return a == b;
  if (std::abs(Rank(a) - Rank(b)) <= 1) return true;
  const bool e4m3 = fp8_dtype == DType::kFloat8E4M3;
  const auto decode = e4m3 ? reference::DecodeE4M3 : reference::DecodeE5M2;
  const float max = e4m3 ? numerics::kE4M3Max : numerics::kE5M2Max;
  return std::fabs(decode(a) - decode(b)) <= std::ldexp(max, -20);
}

}  // namespace

void Closeness::Add(const Closeness& other) {
  elements += other.elements;
  different_elements += other.different_elements;
  blocks += other.blocks;
  different_blocks += other.different_blocks;
}

std::string Closeness::Summary() const {
  const auto share = [](uint64_t part, uint64_t all) {
    return all == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(all);
  };
  char text[160];
  snprintf(text, sizeof(text), "%.3g of %.4g elements and %.3g of %.4g scales",
           share(different_elements, elements), static_cast<double>(elements),
           share(different_blocks, blocks), static_cast<double>(blocks));
  return text;
}

std::string Closeness::Excess() const {
  if (!IsExcess(different_elements, elements, kMaxElementShare) &&
      !IsExcess(different_blocks, blocks, kMaxBlockShare)) {
    return "";
  }
  return Summary() + " differ";
}

std::string CompareClosely(const Quantized& actual, const Quantized& expected, DType fp8_dtype,
                           bool colwise, int64_t m, int64_t n, Closeness* closeness) {
  std::ostringstream failures;
  const numerics::ScaleShape scales = ScaleShapeOf(ScaleLayout::kExact, colwise, m, n);
  for (int64_t i = 0; i < scales.rows; ++i) {
    for (int64_t j = 0; j < scales.cols; ++j) {
      const auto at = static_cast<size_t>(i * scales.cols + j);
      const int apart = std::abs(actual.scales[at] - expected.scales[at]);
      closeness->different_blocks += apart != 0;
      if (apart > 1) {
        failures << "  scale [" << i << ", " << j << "] is " << int{actual.scales[at]}
                 << ", expected " << int{expected.scales[at]} << "\n";
      }
    }
  }
  for (int64_t row = 0; row < m; ++row) {
    const auto row_begin = static_cast<size_t>(row * n);
    const size_t row_size = static_cast<size_t>(n);
    if (memcmp(&actual.data[row_begin], &expected.data[row_begin], row_size) == 0) continue;
    for (int64_t col = 0; col < n; ++col) {
      const size_t at = row_begin + static_cast<size_t>(col);
      if (actual.data[at] == expected.data[at]) continue;
      const auto block =
          static_cast<size_t>(colwise ? row / numerics::kBlockSize * n + col
                                      : row * scales.cols + col / numerics::kBlockSize);
      if (actual.scales[block] != expected.scales[block]) continue;
      ++closeness->different_elements;
      if (!CloseCodes(actual.data[at], expected.data[at], fp8_dtype)) {
        failures << "  element [" << row << ", " << col << "] is " << std::hex
                 << int{actual.data[at]} << ", expected " << int{expected.data[at]} << std::dec
                 << ", with the scale " << int{expected.scales[block]} << "\n";
      }
    }
  }
  std::string text = failures.str();
  constexpr size_t kEnough = 400;
  if (text.size() > kEnough) text = text.substr(0, kEnough) + "...\n";
  return (text.empty() || !colwise ? "" : "  columnwise:\n") + text;
}

bool CloseAmax(float actual, float expected, DType dtype) {
  if (actual == expected) return true;
  if (std::isinf(actual) || std::isinf(expected)) return false;
  // The unit in the last place of numbers from 1 to 2, and of subnormal ones.
  const auto close = [&](int unit, int smallest) {
    return std::fabs(actual - expected) <=
           std::ldexp(std::fabs(expected), unit) + std::ldexp(1.0f, smallest);
  };
  switch (dtype) {
    case DType::kFloat32:
      return close(-16, -149);
    case DType::kFloat16:
      return close(-10, -24);
    default:
      return close(-7, -133);
  }
}

}  // namespace testing
}  // namespace cutedsl_quant
