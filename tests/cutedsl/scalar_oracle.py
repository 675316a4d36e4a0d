"""MXFP8 once more, one number at a time, from definitions instead of bit tricks.

Scales come from comparing powers of two, FP8 codes from searching a table of all values that is
built from the format's definition; floats are Python's doubles, in which products of two fp32 are
exact. No numpy, no ml_dtypes: an oracle for the oracle.
"""

from __future__ import annotations

import bisect
import math
import struct
from collections.abc import Sequence

SCALES = [2.0 ** (code - 127) for code in range(255)]


def round_to_fp32(value: float) -> float:
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:  # beyond the largest fp32 after rounding
        return math.copysign(math.inf, value)


class Fp8:
    """An FP8 format: its finite magnitudes in the order of their codes."""

    def __init__(self, exponent_bits: int, mantissa_bits: int, finite_codes: int) -> None:
        bias = 2 ** (exponent_bits - 1) - 1
        self.magnitudes = []
        for code in range(finite_codes):
            exponent, mantissa = divmod(code, 2**mantissa_bits)
            fraction = mantissa / 2**mantissa_bits
            if exponent == 0:
                self.magnitudes.append(fraction * 2.0 ** (1 - bias))
            else:
                self.magnitudes.append((1 + fraction) * 2.0 ** (exponent - bias))
        self.max = self.magnitudes[-1]
        self.reciprocal_max = round_to_fp32(1 / self.max)

    def encode(self, value: float) -> int:
        """To nearest, ties to the even code, saturating; any NaN is 0x7F."""
        if math.isnan(value):
            return 0x7F
        magnitude = abs(value)
        above = bisect.bisect_left(self.magnitudes, magnitude)
        if above == len(self.magnitudes):
            code = above - 1
        elif self.magnitudes[above] == magnitude:
            code = above
        else:
            below = above - 1
            to_below = magnitude - self.magnitudes[below]
            to_above = self.magnitudes[above] - magnitude
            if to_below == to_above:
                code = below if below % 2 == 0 else above
            else:
                code = below if to_below < to_above else above
        return code | (0x80 if math.copysign(1, value) < 0 else 0)


FORMATS = {
    "fp8_e4m3fn": Fp8(4, 3, finite_codes=0x7F),  # 0x7F is NaN
    "fp8_e5m2": Fp8(5, 2, finite_codes=0x7C),  # 0x7C is infinity
}


def scale_code(amax: float, fp8: Fp8) -> int:
    quotient = round_to_fp32(amax * fp8.reciprocal_max)
    return min(bisect.bisect_left(SCALES, quotient), len(SCALES) - 1)


def quantize_block(block: Sequence[float], fp8_dtype: str) -> tuple[int, list[int]]:
    """The scale code and the element codes of up to 32 fp32 values."""
    fp8 = FORMATS[fp8_dtype]
    amax = max((abs(value) for value in block if not math.isnan(value)), default=0.0)
    code = scale_code(amax, fp8)
    factor = 2.0 ** (127 - code)
    return code, [fp8.encode(round_to_fp32(value * factor)) for value in block]


# Activations and derivatives of doubles, gelu from its definition with a tanh. NaN is not among the
# arguments, nor is what overflows.


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _gelu(x: float) -> float:
    return x * (0.5 + 0.5 * math.tanh(x * (0.79788456 + 0.03567741 * x * x)))


def _dgelu(x: float) -> float:
    t = math.tanh(0.79788456 * x * (1 + 0.044715 * x * x))
    return 0.5 * x * ((1 - t * t) * (0.79788456 + 0.1070322243 * x * x)) + 0.5 * (1 + t)


def _dsigmoid(x: float) -> float:
    return _sigmoid(x) * (1 - _sigmoid(x))


ACTIVATIONS = {
    "relu": lambda x: max(x, 0.0),
    "gelu": _gelu,
    "silu": lambda x: x * _sigmoid(x),
    "qgelu": lambda x: x * _sigmoid(1.702 * x),
    "srelu": lambda x: x * x if x > 0 else 0.0,
    "drelu": lambda x: 1.0 if x > 0 else 0.0,
    "dgelu": _dgelu,
    "dsilu": lambda x: x * _dsigmoid(x) + _sigmoid(x),
    "dqgelu": lambda x: 1.702 * x * _dsigmoid(1.702 * x) + _sigmoid(1.702 * x),
    "dsrelu": lambda x: max(2 * x, 0.0),
}
