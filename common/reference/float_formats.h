// Conversions between fp32 and the narrower floating-point formats, on the host, from integer
// arithmetic and exact products, so that they owe nothing to what they are compared with. They need
// the default floating-point environment.
#ifndef CUTEDSL_QUANT_COMMON_REFERENCE_FLOAT_FORMATS_H_
#define CUTEDSL_QUANT_COMMON_REFERENCE_FLOAT_FORMATS_H_

#include <cstdint>

#include "common/numerics.h"

namespace cutedsl_quant {
namespace reference {

inline constexpr uint32_t kFloatMagnitude = 0x7FFFFFFFu;
inline constexpr uint32_t kFloatInfinity = 0x7F800000u;

// A format with a sign bit, kExponent exponent bits and kMantissa mantissa bits, biased as IEEE 754
// does. All fp32 arithmetic in here is exact but for the one addition that rounds.
template <int kExponent, int kMantissa>
struct FloatFormat {
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kDroppedBits = 23 - kMantissa;
  static constexpr uint32_t kSign = 1u << (kExponent + kMantissa);

  // 2^exponent as bits of an fp32.
  static constexpr uint32_t PowerOfTwo(int exponent) {
    return static_cast<uint32_t>(exponent + 127) << 23;
  }

  // Rounds a finite non-negative fp32 to nearest, ties to even. Above the largest finite value, the
  // exponent goes on.
  static uint32_t RoundMagnitude(uint32_t bits) {
    const uint32_t odd = bits >> kDroppedBits & 1;
    const uint32_t half_unit_less_one = (1u << (kDroppedBits - 1)) - 1;
    const uint32_t normal = ((bits + half_unit_less_one + odd) >> kDroppedBits) -
                            (static_cast<uint32_t>(127 - kBias) << kMantissa);
    // Adding a number whose unit in the last place is this format's smallest subnormal rounds to a
    // multiple of it.
    const uint32_t anchor = PowerOfTwo(1 - kBias - kMantissa + 23);
    const uint32_t subnormal =
        numerics::FloatToBits(numerics::BitsToFloat(bits) + numerics::BitsToFloat(anchor)) - anchor;
    return bits < PowerOfTwo(1 - kBias) ? subnormal : normal;
  }

  // The value of a non-negative finite code.
  static float DecodeMagnitude(uint32_t code) {
    return numerics::BitsToFloat(code << kDroppedBits) *
           numerics::BitsToFloat(PowerOfTwo(127 - kBias));
  }
};

using E4M3Format = FloatFormat<4, 3>;
using E5M2Format = FloatFormat<5, 2>;
using Float16Format = FloatFormat<5, 10>;
using BFloat16Format = FloatFormat<8, 7>;

inline float WithSign(float magnitude, uint32_t sign) {
  return numerics::BitsToFloat(numerics::FloatToBits(magnitude) | sign);
}

// FP8, rounded to nearest even and saturated to the largest finite value; NaN is 0x7F.
template <typename Format, uint32_t kMaxBits>
uint8_t EncodeFp8(float value) {
  const uint32_t bits = numerics::FloatToBits(value);
  const uint32_t magnitude = bits & kFloatMagnitude;
  const uint32_t code = Format::RoundMagnitude(magnitude < kMaxBits ? magnitude : kMaxBits);
  const uint32_t result = code | ((bits >> 24) & Format::kSign);
  return static_cast<uint8_t>(magnitude > kFloatInfinity ? numerics::kFp8Nan : result);
}

inline uint8_t EncodeE4M3(float value) { return EncodeFp8<E4M3Format, 0x43E00000u>(value); }
inline uint8_t EncodeE5M2(float value) { return EncodeFp8<E5M2Format, 0x47600000u>(value); }

inline float DecodeE4M3(uint8_t code) {
  const uint32_t magnitude = code & 0x7F;
  if (magnitude == 0x7F) return numerics::BitsToFloat(kFloatMagnitude);
  return WithSign(E4M3Format::DecodeMagnitude(magnitude), (code & 0x80u) << 24);
}

// Infinities and NaNs of the two formats that have the exponent of all ones for them; `sign` is
// fp32's.
template <typename Format>
float DecodeIeee(uint32_t magnitude, uint32_t sign, uint32_t infinity) {
  const float finite = Format::DecodeMagnitude(magnitude);
  const uint32_t special = magnitude << Format::kDroppedBits | kFloatInfinity;
  return numerics::BitsToFloat((magnitude >= infinity ? special : numerics::FloatToBits(finite)) |
                               sign);
}

inline float DecodeE5M2(uint8_t code) {
  return DecodeIeee<E5M2Format>(code & 0x7Fu, (code & 0x80u) << 24, 0x7C);
}

inline float DecodeFloat16(uint16_t code) {
  return DecodeIeee<Float16Format>(code & 0x7FFFu, (code & 0x8000u) << 16, 0x7C00);
}

inline float DecodeBFloat16(uint16_t code) {
  return numerics::BitsToFloat(static_cast<uint32_t>(code) << 16);
}

// 16-bit floats, rounded to nearest even; too large is infinity, NaN is 0x7FFF.
template <typename Format>
uint16_t EncodeIeee16(float value, uint32_t infinity) {
  const uint32_t bits = numerics::FloatToBits(value);
  const uint32_t magnitude = bits & kFloatMagnitude;
  const uint32_t code = Format::RoundMagnitude(magnitude);
  const uint32_t result = (code < infinity ? code : infinity) | ((bits >> 16) & Format::kSign);
  return static_cast<uint16_t>(magnitude > kFloatInfinity ? 0x7FFF : result);
}

inline uint16_t EncodeFloat16(float value) { return EncodeIeee16<Float16Format>(value, 0x7C00); }
inline uint16_t EncodeBFloat16(float value) { return EncodeIeee16<BFloat16Format>(value, 0x7F80); }

}  // namespace reference
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_REFERENCE_FLOAT_FORMATS_H_
