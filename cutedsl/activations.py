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
from cutedsl.pairs import Floats, each, multiply_add

_QGELU_SCALE = 1.702
_GELU_LINEAR = 1.5957691216
_GELU_CUBIC = 0.0713548163


def _sigmoid(x: Floats, scale: float = 1.0) -> Floats:
    """sigmoid(scale * x)"""
    return _logistic(x * (-scale * math.log2(math.e)))


def _sigmoid_of_2u(x: Floats) -> Floats:
    cubic, linear = (-c * math.log2(math.e) for c in (_GELU_CUBIC, _GELU_LINEAR))
    return _logistic(x * multiply_add(x * x, cubic, linear))


def _logistic(exponent: Floats) -> Floats:
    return each(numerics.reciprocal, each(numerics.exp2, exponent) + 1.0)


def _gated_derivative(x: Floats, s: Floats, slope: Floats | float | None = None) -> Floats:
    """Of x * s, where s is the sigmoid of something that rises with `slope` (1 if None).

    The order of the factors decides where an infinity meets a zero.
    """
    gate, rest = x * s, 1.0 - s
    if slope is None:
        return multiply_add(gate, rest, s)
    return multiply_add(gate * rest, slope, s)


def _if_positive(x: Floats, value: Floats | float) -> Floats:
    def choose(x: Float32, value: Float32 | float) -> Float32:
        return numerics.select(x > 0.0, Float32(value), Float32(0.0))

    return each(choose, x, value)


def _relu(x: Floats) -> Floats:
    return _if_positive(x, x)


def _gelu(x: Floats) -> Floats:
    return x * _sigmoid_of_2u(x)


def _silu(x: Floats) -> Floats:
    return x * _sigmoid(x)


def _qgelu(x: Floats) -> Floats:
    return x * _sigmoid(x, _QGELU_SCALE)


def _srelu(x: Floats) -> Floats:
    return _if_positive(x, x * x)


def _drelu(x: Floats) -> Floats:
    return _if_positive(x, 1.0)


def _dgelu(x: Floats) -> Floats:
    slope = multiply_add(x * x, 3 * _GELU_CUBIC, _GELU_LINEAR)
    return _gated_derivative(x, _sigmoid_of_2u(x), slope)


def _dsilu(x: Floats) -> Floats:
    return _gated_derivative(x, _sigmoid(x))


def _dqgelu(x: Floats) -> Floats:
    return _gated_derivative(x, _sigmoid(x, _QGELU_SCALE), _QGELU_SCALE)


def _dsrelu(x: Floats) -> Floats:
    return _if_positive(x, x + x)


_FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
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


def apply(token: str, x: Floats) -> Floats:
    """The activation or derivative `token` of config.ACTIVATION_CODES (but "none") at `x`."""
    return _FUNCTIONS[token](x)
