// The element-wise functions and their derivatives, in fp32, for every backend written in C++.
//
// They come in two families: relu and srelu, exact everywhere, and x * sigmoid(y) with y = x *
// (linear + cubic * x^2), which covers gelu, silu and qgelu with one exponential and one
// reciprocal. gelu's tanh form is the same function; this one does not cancel for negative x.
#ifndef CUTEDSL_QUANT_COMMON_ACTIVATIONS_H_
#define CUTEDSL_QUANT_COMMON_ACTIVATIONS_H_

#include <cmath>
#include <limits>

#include "common/numerics.h"
#include "cutedsl_quant/config.h"

namespace cutedsl_quant {
namespace numerics {

// 1 / (1 + exp(-y)), in every backend 0 where that would be subnormal.
CUTEDSL_QUANT_HOST_DEVICE float Sigmoid(float y) {
#ifdef __CUDA_ARCH__
  float exponential, reciprocal;
  // The instructions that flush are several times as fast.
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(exponential) : "f"(y * -1.4426950408889634f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(1.0f + exponential));
  return reciprocal;
#else
  const float reciprocal = 1.0f / (1.0f + std::exp(-y));
  return reciprocal < std::numeric_limits<float>::min() ? 0.0f : reciprocal;
#endif
}

// One of the ten functions, chosen at run time: made once, called for every element. The members
// for single families are for kernels that decide once for all of a thread's elements.
class ActivationFunction {
 public:
  ActivationFunction() = default;

  explicit ActivationFunction(Activation activation) {
    derivative_ = IsDerivative(activation);
    switch (activation) {
      case Activation::kNone:
      case Activation::kRelu:
      case Activation::kDRelu:
        break;
      case Activation::kSRelu:
      case Activation::kDSRelu:
        squared_ = true;
        break;
      case Activation::kGelu:
      case Activation::kDGelu:
        cubic_ = 0.0713548163f;
        linear_ = 1.5957691216f;
        break;
      case Activation::kSilu:
      case Activation::kDSilu:
        linear_ = 1.0f;
        break;
      case Activation::kQGelu:
      case Activation::kDQGelu:
        linear_ = 1.702f;
        break;
    }
  }

  CUTEDSL_QUANT_HOST_DEVICE float operator()(float x) const {
    if (derivative_) return rectifies() ? RectifiedDerivative(x) : GatedDerivative(x);
    return rectifies() ? Rectified(x) : Gated(x);
  }

  // relu, srelu and their derivatives; NaN becomes 0.
  CUTEDSL_QUANT_HOST_DEVICE bool rectifies() const { return linear_ == 0.0f; }

  CUTEDSL_QUANT_HOST_DEVICE float Rectified(float x) const {
    return x > 0.0f ? (squared_ ? x * x : x) : 0.0f;
  }
  CUTEDSL_QUANT_HOST_DEVICE float RectifiedDerivative(float x) const {
    return x > 0.0f ? (squared_ ? x + x : 1.0f) : 0.0f;
  }

  // gelu, silu, qgelu.
  CUTEDSL_QUANT_HOST_DEVICE float Gated(float x) const {
    return x * Sigmoid(x * (linear_ + cubic_ * Square(x)));
  }
  CUTEDSL_QUANT_HOST_DEVICE float GatedDerivative(float x) const {
    const float square = Square(x);
    const float s = Sigmoid(x * (linear_ + cubic_ * square));
    return x * s * (1.0f - s) * (linear_ + 3.0f * cubic_ * square) + s;
  }

 private:
  // Where it counts; elsewhere an infinite square would become NaN.
  CUTEDSL_QUANT_HOST_DEVICE float Square(float x) const { return cubic_ != 0.0f ? x * x : 0.0f; }

  float linear_ = 0.0f;
  float cubic_ = 0.0f;
  bool squared_ = false;
  bool derivative_ = false;
};

}  // namespace numerics
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_ACTIVATIONS_H_
