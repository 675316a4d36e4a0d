"""Device functions: fp32 arithmetic, two elements to an instruction where an architecture can.

A formula over `Floats` stands once. On an architecture with packed arithmetic it is traced over
pairs, elsewhere over single elements, with the same roundings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import cutlass.cute as cute
from cutlass import Float32

from cutedsl.architectures import Architecture


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two fp32; the other operand of its arithmetic is a pair, or one number for both."""

    low: Float32
    high: Float32

    def __add__(self, other: Pair | float) -> Pair:
        return _packed(cute.arch.add_packed_f32x2, self, other)

    def __rsub__(self, other: float) -> Pair:
        return _packed(cute.arch.sub_packed_f32x2, other, self)

    def __mul__(self, other: Pair | float) -> Pair:
        return _packed(cute.arch.mul_packed_f32x2, self, other)


Floats = Float32 | Pair


def _both(operand: Pair | float) -> tuple[Float32, Float32]:
    if isinstance(operand, Pair):
        return operand.low, operand.high
    return Float32(operand), Float32(operand)


def _packed(operation: Callable[..., tuple[Float32, Float32]], *operands: Pair | float) -> Pair:
    return Pair(*operation(*map(_both, operands), rnd="rn", ftz=False))


def multiply_add(a: Floats, b: Floats | float, c: Floats | float) -> Floats:
    """a * b + c, rounded once; for single elements that is what the compiler makes of it."""
    if isinstance(a, Pair):
        return _packed(cute.arch.fma_packed_f32x2, a, b, c)
    return a * b + c


def each(function: Callable[..., Float32], x: Floats, *others: Floats | float) -> Floats:
    """`function`, which exists for single elements alone."""
    if isinstance(x, Pair):
        return Pair(*map(function, *map(_both, (x, *others))))
    return function(x, *others)


def join(architecture: Architecture, values: Sequence[Float32]) -> Sequence[Floats]:
    """What formulas are traced over for `values`, of which there is an even number."""
    if not architecture.has_packed_f32:
        return values
    return [Pair(low, high) for low, high in zip(values[::2], values[1::2], strict=True)]


def split(values: Sequence[Floats]) -> list[Float32]:
    """The inverse of `join`."""
    return [
        element
        for value in values
        for element in (_both(value) if isinstance(value, Pair) else [value])
    ]
