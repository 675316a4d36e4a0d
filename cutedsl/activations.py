"""Device functions: activations and their derivatives, from fp32 to fp32.

The smooth ones are written through one exponential and one reciprocal:
gelu(x) = x * sigmoid(2u) with 2u = x * (linear + cubic * x^2) is the tanh form without its
cancellation for negative x. The factor -log2(e), which makes an exponential a power of two, is
part of the constants. A NaN gives 0 in the relu family and NaN elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cutlass import Float32

from cutedsl import numerics

_QGELU_SCALE = 1.702
_GELU_LINEAR = 1.5957691216
_GELU_CUBIC = 0.0713548163


def _sigmoid(x: Float32, scale: float = 1.0) -> Float32:
    """sigmoid(scale * x)"""
    return _logistic(x * Float32(-scale * math.log2(math.e)))


def _sigmoid_of_2u(x: Float32) -> Float32:
    cubic, linear = (Float32(-c * math.log2(math.e)) for c in (_GELU_CUBIC, _GELU_LINEAR))
    return _logistic(x * (x * x * cubic + linear))


def _logistic(exponent: Float32) -> Float32:
    return numerics.reciprocal(numerics.exp2(exponent) + Float32(1.0))


def _gated_derivative(x: Float32, s: Float32, slope: Float32) -> Float32:
    """Of x * s, where s is the sigmoid of something that rises with `slope`.

    The order of the factors decides where an infinity meets a zero.
    """
    return x * s * (Float32(1.0) - s) * slope + s


def _if_positive(x: Float32, value: Float32) -> Float32:
    return numerics.select(x > Float32(0.0), value, Float32(0.0))


def _relu(x: Float32) -> Float32:
    return _if_positive(x, x)


def _gelu(x: Float32) -> Float32:
    return x * _sigmoid_of_2u(x)


def _silu(x: Float32) -> Float32:
    return x * _sigmoid(x)


def _qgelu(x: Float32) -> Float32:
    return x * _sigmoid(x, _QGELU_SCALE)


def _srelu(x: Float32) -> Float32:
    return _if_positive(x, x * x)


def _drelu(x: Float32) -> Float32:
    return _if_positive(x, Float32(1.0))


def _dgelu(x: Float32) -> Float32:
    slope = x * x * Float32(3 * _GELU_CUBIC) + Float32(_GELU_LINEAR)
    return _gated_derivative(x, _sigmoid_of_2u(x), slope)


def _dsilu(x: Float32) -> Float32:
    return _gated_derivative(x, _sigmoid(x), Float32(1.0))


def _dqgelu(x: Float32) -> Float32:
    return _gated_derivative(x, _sigmoid(x, _QGELU_SCALE), Float32(_QGELU_SCALE))


def _dsrelu(x: Float32) -> Float32:
    return _if_positive(x, x + x)


_FUNCTIONS: dict[str, Callable[[Float32], Float32]] = {
    "relu": _relu,
    "gelu": _gelu,
    "silu": _silu,
    "qgelu": _qgelu,
    "srelu": _srelu,
    "drelu": _drelu,
    "dgelu": _dgelu,
    "dsilu": _dsilu,
    "dqgelu": _dqgelu,
    "dsrelu": _dsrelu,
}


def apply(token: str, x: Float32) -> Float32:
    """The activation or derivative `token` of config.ACTIVATION_CODES (but "none") at `x`."""
    return _FUNCTIONS[token](x)
