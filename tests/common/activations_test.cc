// The element-wise functions against double precision and at special values.
#include "common/activations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace cutedsl_quant {
namespace {

using numerics::ActivationFunction;
using numerics::FloatToBits;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kSubnormal = 1e-40f;

struct Exact {
  Activation activation;
  float x;
  float expected;
};

// Would catch: a NaN or -0 that gets through relu, a wrong side of zero, an overflow that is
// clipped, an infinite square times a coefficient of zero.
TEST(ActivationsTest, SpecialValues) {
  const Exact cases[] = {
      {Activation::kRelu, 2.5f, 2.5f},
      {Activation::kRelu, -2.5f, 0.0f},
      {Activation::kRelu, -0.0f, 0.0f},
      {Activation::kRelu, kSubnormal, kSubnormal},
      {Activation::kRelu, kInfinity, kInfinity},
      {Activation::kRelu, -kInfinity, 0.0f},
      {Activation::kRelu, kNan, 0.0f},
      {Activation::kSRelu, 1.5f, 2.25f},
      {Activation::kSRelu, -1.5f, 0.0f},
      {Activation::kSRelu, -0.0f, 0.0f},
      {Activation::kSRelu, kMax, kInfinity},
      {Activation::kSRelu, kNan, 0.0f},
      {Activation::kDRelu, kSubnormal, 1.0f},
      {Activation::kDRelu, 0.0f, 0.0f},
      {Activation::kDRelu, -1.0f, 0.0f},
      {Activation::kDRelu, kInfinity, 1.0f},
      {Activation::kDRelu, kNan, 0.0f},
      {Activation::kDSRelu, 1.5f, 3.0f},
      {Activation::kDSRelu, -1.5f, 0.0f},
      {Activation::kDSRelu, -0.0f, 0.0f},
      {Activation::kDSRelu, kMax, kInfinity},
      {Activation::kDSRelu, kNan, 0.0f},
      {Activation::kGelu, 0.0f, 0.0f},
      {Activation::kGelu, -0.0f, -0.0f},
      {Activation::kGelu, 100.0f, 100.0f},
      {Activation::kGelu, -100.0f, -0.0f},
      {Activation::kGelu, kMax, kMax},
      {Activation::kGelu, -kMax, -0.0f},
      {Activation::kGelu, kInfinity, kInfinity},
      {Activation::kSilu, -0.0f, -0.0f},
      {Activation::kSilu, kMax, kMax},
      {Activation::kSilu, -kMax, -0.0f},
      {Activation::kSilu, kInfinity, kInfinity},
      {Activation::kQGelu, -0.0f, -0.0f},
      {Activation::kQGelu, kMax, kMax},
      {Activation::kQGelu, -kMax, -0.0f},
      {Activation::kQGelu, kInfinity, kInfinity},
      {Activation::kDGelu, 0.0f, 0.5f},
      {Activation::kDGelu, 100.0f, 1.0f},
      {Activation::kDGelu, -100.0f, 0.0f},
      {Activation::kDSilu, 0.0f, 0.5f},
      {Activation::kDSilu, kMax, 1.0f},
      {Activation::kDSilu, -kMax, 0.0f},
      {Activation::kDQGelu, 0.0f, 0.5f},
      {Activation::kDQGelu, kMax, 1.0f},
      {Activation::kDQGelu, -kMax, 0.0f},
  };
  for (const Exact& c : cases) {
    EXPECT_EQ(FloatToBits(ActivationFunction(c.activation)(c.x)), FloatToBits(c.expected))
        << "activation " << static_cast<int>(c.activation) << " of " << c.x;
  }
  for (Activation activation : {Activation::kGelu, Activation::kSilu, Activation::kQGelu,
                                Activation::kDGelu, Activation::kDSilu, Activation::kDQGelu}) {
    EXPECT_TRUE(std::isnan(ActivationFunction(activation)(kNan)));
  }
}

// The tanh form of the specification for gelu, the textbook's for the others.
struct Reference {
  Activation activation;
  double (*function)(double x);
  double (*exponent)(double x);   // of the exponential inside
  double (*magnitude)(double x);  // of the larger summand, which bounds the error
};

double ExactSigmoid(double y) { return 1 / (1 + std::exp(-y)); }
double GeluExponent(double x) { return 2 * 0.7978845608 * x * (1 + 0.044715 * x * x); }
double SiluExponent(double x) { return x; }
double QGeluExponent(double x) { return 1.702 * x; }
double Gelu(double x) { return x * ExactSigmoid(GeluExponent(x)); }
double Silu(double x) { return x * ExactSigmoid(x); }
double QGelu(double x) { return x * ExactSigmoid(1.702 * x); }
double DGelu(double x) {
  const double t = std::tanh(GeluExponent(x) / 2);
  if (x < -3) {  // where 1 + t cancels
    const double s = ExactSigmoid(GeluExponent(x));
    return 2 * x * s * (1 - s) * (0.7978845608 + 0.1070322243 * x * x) + s;
  }
  return 0.5 * x * ((1 - t * t) * (0.7978845608 + 0.1070322243 * x * x)) + 0.5 * (1 + t);
}
double DSilu(double x) {
  const double s = ExactSigmoid(x);
  return x * s * ExactSigmoid(-x) + s;
}
double DQGelu(double x) {
  const double s = ExactSigmoid(1.702 * x);
  return 1.702 * x * s * ExactSigmoid(-1.702 * x) + s;
}
double DGeluMagnitude(double x) {
  return std::max(1.0, std::fabs(GeluExponent(x)) * 3) * ExactSigmoid(GeluExponent(x));
}
double DSiluMagnitude(double x) { return std::max(1.0, std::fabs(x)) * ExactSigmoid(x); }
double DQGeluMagnitude(double x) {
  return std::max(1.0, std::fabs(1.702 * x)) * ExactSigmoid(1.702 * x);
}

// Would catch: a wrong coefficient, a form that cancels for negative x (an error that is large
// beside the result). Errors are in units of the last place of the result (derivatives: of their
// larger summand): 4, and 2 for each unit of the exponent, which is rounded four times.
TEST(ActivationsTest, CloseToDoublePrecision) {
  const Reference references[] = {
      {Activation::kGelu, Gelu, GeluExponent, Gelu},
      {Activation::kSilu, Silu, SiluExponent, Silu},
      {Activation::kQGelu, QGelu, QGeluExponent, QGelu},
      {Activation::kDGelu, DGelu, GeluExponent, DGeluMagnitude},
      {Activation::kDSilu, DSilu, SiluExponent, DSiluMagnitude},
      {Activation::kDQGelu, DQGelu, QGeluExponent, DQGeluMagnitude},
  };
  for (const Reference& reference : references) {
    const ActivationFunction function(reference.activation);
    double worst = 0;
    for (int i = -80000; i <= 80000; ++i) {
      const float x = static_cast<float>(i) * (1.0f / 4096);
      const double exponent = std::fabs(reference.exponent(x));
      if (exponent > 80) continue;  // results become subnormal
      const double unit = std::max(std::fabs(reference.magnitude(x)), 1e-37) * std::pow(2.0, -23);
      const double error = std::fabs(function(x) - reference.function(x)) / unit;
      worst = std::max(worst, error / (4 + 2 * exponent));
      ASSERT_LE(error, 4 + 2 * exponent) << static_cast<int>(reference.activation) << " of " << x;
    }
    RecordProperty(ActivationName(reference.activation), std::to_string(worst));
  }
}

}  // namespace
}  // namespace cutedsl_quant
