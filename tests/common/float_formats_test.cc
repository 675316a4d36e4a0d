// The conversions of the reference against the host functions of CUDA's own headers, on every input
// where there are few and on every rounding edge where there are many.
#include "common/reference/float_formats.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "common/numerics.h"

namespace cutedsl_quant {
namespace reference {
namespace {

using numerics::BitsToFloat;
using numerics::FloatToBits;

float BFloat16Value(int code) {
  return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{static_cast<uint16_t>(code)}));
}
float Float16Value(int code) {
  return __half2float(__half(__half_raw{static_cast<uint16_t>(code)}));
}
uint16_t BFloat16Code(float value) { return __nv_bfloat16_raw(__float2bfloat16_rn(value)).x; }
uint16_t Float16Code(float value) { return __half_raw(__float2half_rn(value)).x; }
uint8_t E4M3Code(float value) { return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3); }
uint8_t E5M2Code(float value) { return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2); }

// Two NaNs are equal here whatever their bits: 16-bit NaN inputs carry payloads.
bool Same(float a, float b) {
  return FloatToBits(a) == FloatToBits(b) || (std::isnan(a) && std::isnan(b));
}

void ExpectAllEncodersAgree(float value) {
  const uint32_t bits = FloatToBits(value);
  ASSERT_EQ(EncodeE4M3(value), E4M3Code(value)) << std::hex << bits;
  ASSERT_EQ(EncodeE5M2(value), E5M2Code(value)) << std::hex << bits;
  ASSERT_EQ(EncodeFloat16(value), Float16Code(value)) << std::hex << bits;
  ASSERT_EQ(EncodeBFloat16(value), BFloat16Code(value)) << std::hex << bits;
}

// Catches a wrong exponent bias, subnormals, infinities and NaN in decoding.
TEST(FloatFormatsTest, DecodesEveryCode) {
  for (int code = 0; code < 0x10000; ++code) {
    ASSERT_TRUE(Same(DecodeBFloat16(code), BFloat16Value(code))) << std::hex << code;
    ASSERT_TRUE(Same(DecodeFloat16(code), Float16Value(code))) << std::hex << code;
  }
  for (int code = 0; code < 0x100; ++code) {
    const auto fp8 = static_cast<uint8_t>(code);
    const float e4m3 = __half2float(__half(__nv_cvt_fp8_to_halfraw(fp8, __NV_E4M3)));
    const float e5m2 = __half2float(__half(__nv_cvt_fp8_to_halfraw(fp8, __NV_E5M2)));
    ASSERT_TRUE(Same(DecodeE4M3(fp8), e4m3)) << std::hex << code;
    ASSERT_TRUE(Same(DecodeE5M2(fp8), e5m2)) << std::hex << code;
  }
}

// Catches any encoder that is wrong on a value that 16-bit inputs can have.
TEST(FloatFormatsTest, EncodesEvery16BitValue) {
  for (int code = 0; code < 0x10000; ++code) {
    ExpectAllEncodersAgree(BFloat16Value(code));
    ExpectAllEncodersAgree(Float16Value(code));
  }
}

// Catches a rounding that is off at a tie or one fp32 step beside it, for every pair of
// neighbouring codes.
TEST(FloatFormatsTest, EncodesEveryRoundingEdge) {
  const auto check_around = [](float value) {
    for (float sign : {1.0f, -1.0f}) {
      ExpectAllEncodersAgree(sign * value);
      ExpectAllEncodersAgree(sign * std::nextafter(value, 0.0f));
      ExpectAllEncodersAgree(sign * std::nextafter(value, INFINITY));
    }
  };
  const auto check_between_neighbours = [&](auto decode, int num_finite) {
    for (int code = 0; code + 1 < num_finite; ++code) {
      const double low = decode(code);
      const double high = decode(code + 1);
      check_around(static_cast<float>(low));
      check_around(static_cast<float>((low + high) / 2));
    }
    check_around(decode(num_finite - 1));
  };
  check_between_neighbours([](int c) { return DecodeE4M3(static_cast<uint8_t>(c)); }, 0x7F);
  check_between_neighbours([](int c) { return DecodeE5M2(static_cast<uint8_t>(c)); }, 0x7C);
  check_between_neighbours(Float16Value, 0x7C00);
  check_between_neighbours(BFloat16Value, 0x7F80);
  for (float edge :
       {464.0f, 480.0f, 61440.0f, 65504.0f, 65520.0f, 65536.0f, 3.3961776e38f, 3.4028235e38f}) {
    check_around(edge);
  }
}

// Catches what the tables above forgot.
TEST(FloatFormatsTest, EncodesRandomBits) {
  std::mt19937 random(1);
  for (int i = 0; i < 4'000'000; ++i) ExpectAllEncodersAgree(BitsToFloat(random()));
}

// Catches a scale conversion that differs from CUDA's on any exponent, around its rounding edges,
// or on the values of 16-bit amaxes.
TEST(NumericsTest, E8M0RoundUp) {
  const auto check = [](float value) {
    const uint8_t expected = __nv_cvt_float_to_e8m0(value, __NV_SATFINITE, cudaRoundPosInf);
    ASSERT_EQ(numerics::E8M0RoundUp(value), expected) << std::hex << FloatToBits(value);
  };
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (uint32_t mantissa :
         {0x0u, 0x1u, 0x2u, 0x3FFFFFu, 0x400000u, 0x400001u, 0x7FFFFEu, 0x7FFFFFu}) {
      check(BitsToFloat(exponent << 23 | mantissa));
    }
  }
  std::mt19937 random(2);
  for (int i = 0; i < 1'000'000; ++i) check(BitsToFloat(random() & kFloatMagnitude));
  for (int code = 0; code < 0x8000; ++code) {
    for (DType fp8 : {DType::kFloat8E4M3, DType::kFloat8E5M2}) {
      check(BFloat16Value(code) * numerics::MaxReciprocal(fp8));
      check(Float16Value(code) * numerics::MaxReciprocal(fp8));
    }
  }
}

// Catches a wrong power of two at either end of the range, where it is subnormal.
TEST(NumericsTest, ScalesAndTheirInverses) {
  for (int e = 0; e < 255; ++e) {
    const auto scale = static_cast<uint8_t>(e);
    EXPECT_EQ(numerics::DecodeE8M0(scale), std::ldexp(1.0f, e - 127)) << e;
    EXPECT_EQ(numerics::InverseScale(scale), std::ldexp(1.0f, 127 - e)) << e;
  }
  EXPECT_EQ(FloatToBits(numerics::DecodeE8M0(0xFF)), 0x7FFFFFFFu);
  EXPECT_EQ(FloatToBits(numerics::InverseScale(0xFF)), 0x7FFFFFFFu);
  EXPECT_EQ(FloatToBits(numerics::MaxReciprocal(DType::kFloat8E4M3)), 0x3B124925u);
  EXPECT_EQ(FloatToBits(numerics::MaxReciprocal(DType::kFloat8E5M2)), 0x37924925u);
}

// Catches a swizzle that is no permutation of its tiles.
TEST(NumericsTest, SwizzledIndexVisitsEveryByteOnce) {
  constexpr int64_t kOuter = 384;
  constexpr int64_t kInnerTiles = 3;
  std::vector<int> visits(kOuter * kInnerTiles * 4);
  for (int64_t outer = 0; outer < kOuter; ++outer) {
    for (int64_t inner = 0; inner < kInnerTiles * 4; ++inner) {
      ++visits.at(numerics::SwizzledIndex(outer, inner, kInnerTiles));
    }
  }
  EXPECT_EQ(visits, std::vector<int>(visits.size(), 1));
  EXPECT_EQ(numerics::SwizzledIndex(33, 2, 1), 1 * 16 + 1 * 4 + 2);
  EXPECT_EQ(numerics::SwizzledIndex(128, 5, 2), 3 * 512 + 1);
}

}  // namespace
}  // namespace reference
}  // namespace cutedsl_quant
