"""Device functions: absolute maxima, E8M0 scales and FP8 conversion.

Elements live in 32-bit words: two neighbours of a 16-bit type, or one fp32. All functions are
traced, so that each call emits straight-line code.
"""

from __future__ import annotations

from collections.abc import Sequence

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64, Uint32
from cutlass._mlir.dialects import llvm

from cutedsl import pairs
from cutedsl.architectures import Architecture

# float(1 / largest finite value) of each FP8 type, as fp32 bits.
_RECIPROCAL_MAX_BITS = {"fp8_e4m3fn": 0x3B124925, "fp8_e5m2": 0x37924925}
_FP8_PTX_TYPES = {"fp8_e4m3fn": "e4m3x2", "fp8_e5m2": "e5m2x2"}
_MAX_PTX_TYPES = {"fp32": "f32", "fp16": "f16x2", "bf16": "bf16x2"}
_PAIR_PTX_TYPES = {"fp16": "f16x2", "bf16": "bf16x2"}

# Clears the sign of every element of a word.
_MAGNITUDE_MASK = {"fp32": 0x7FFFFFFF, "fp16": 0x7FFF7FFF, "bf16": 0x7FFF7FFF}


def _ptx(
    text: str,
    constraints: str,
    operands: Sequence[cutlass.Numeric],
    results: Sequence[type[cutlass.Numeric]],
    *,
    volatile: bool = False,
) -> list[cutlass.Numeric]:
    """Emits inline PTX and returns its results, in order.

    volatile: it touches memory or other lanes, so it stays where it is.
    """
    types = [result.mlir_type for result in results]
    if not types:
        result_type = None
    elif len(types) == 1:
        result_type = types[0]
    else:
        result_type = llvm.StructType.get_literal(types)
    value = llvm.inline_asm(
        result_type,
        [operand.ir_value() for operand in operands],
        text,
        constraints,
        has_side_effects=volatile,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
    )
    if len(types) == 1:
        return [results[0](value)]
    return [
        result(llvm.extractvalue(result.mlir_type, value, [index]))
        for index, result in enumerate(results)
    ]


def _ptx_word(
    text: str,
    constraints: str,
    operands: Sequence[cutlass.Numeric],
    *,
    volatile: bool = False,
) -> Uint32:
    """Inline PTX with one word as its result."""
    return _ptx(text, constraints, operands, [Uint32], volatile=volatile)[0]


def _vector(count: int, first: int) -> tuple[str, str]:
    """Operands from `first` on and type suffix of an access to `count` words."""
    operands = ", ".join(f"${first + i}" for i in range(count))
    return (f"{{{operands}}}", f".v{count}") if count > 1 else (operands, "")


def _permute(a: Uint32, b: Uint32, selector: int) -> Uint32:
    """Four bytes of a (0 to 3) and b (4 to 7), one by each hexadecimal digit of `selector`."""
    return _ptx_word(f"prmt.b32 $0, $1, $2, {selector};", "=r,r,r", [a, b])


def _bits_to_float(bits: Uint32) -> Float32:
    return Float32(llvm.bitcast(Float32.mlir_type, bits.ir_value()))


def _float_to_bits(value: Float32) -> Uint32:
    return Uint32(llvm.bitcast(Uint32.mlir_type, value.ir_value()))


def select(
    condition: cutlass.Boolean, if_true: cutlass.Numeric, if_false: cutlass.Numeric
) -> cutlass.Numeric:
    """Both are computed; of the type of `if_true`."""
    return type(if_true)(cutlass.select_(condition, if_true, if_false))


# Memory


def _write_if(
    predicate: cutlass.Boolean,
    write: str,
    address: Int64 | Int32,
    words: Sequence[Uint32],
    policy: Int64 | None = None,
) -> None:
    """Emits `write`, of `words` ($2 and on) to `address` ($0), to run where `predicate` is true.

    Addresses in shared memory are Int32. `policy` is the operand after the words, if any.
    """
    address_constraint = "r" if isinstance(address, Int32) else "l"
    policies = [] if policy is None else [policy]
    _ptx(
        f"{{ .reg .pred p; setp.ne.b32 p, $1, 0; @p {write} }}",
        ",".join([address_constraint, "r"] + ["r"] * len(words) + ["l"] * len(policies)),
        [address, Int32(predicate), *words, *policies],
        [],
        volatile=True,
    )


def load_words(
    address: Int64, count: int, predicate: cutlass.Boolean | None = None
) -> list[Uint32]:
    """4 or 8 words of read-only memory at `address`, aligned to their size.

    Zeros where `predicate` is false.
    """
    operands, vector = _vector(count, 0)
    load = f"ld.global.nc{vector}.b32 {operands}, [${count}];"
    if predicate is None:
        constraints = ",".join(["=r"] * count + ["l"])
        return _ptx(load, constraints, [address], [Uint32] * count, volatile=True)
    zeros = " ".join(f"mov.b32 ${i}, 0;" for i in range(count))
    return _ptx(
        f"{{ .reg .pred p; setp.ne.b32 p, ${count + 1}, 0; {zeros} @p {load} }}",
        ",".join(["=&r"] * count + ["l", "r"]),
        [address, Int32(predicate)],
        [Uint32] * count,
        volatile=True,
    )


def retention_policy() -> Int64:
    """For stores: the L2 cache is to keep what they write longer than anything else."""
    policy = "createpolicy.fractional.L2::evict_last.b64 $0, 1.0;"
    return _ptx(policy, "=l", [], [Int64])[0]


def _store_global_if(
    predicate: cutlass.Boolean,
    kind: str,
    operands: str,
    address: Int64,
    words: Sequence[Uint32],
    policy: Int64 | None,
) -> None:
    """Stores `words`, which are `operands`; `kind`: vector and type."""
    store = f"st.global{kind} [$0], {operands};"
    if policy is not None:
        store = f"st.global.L2::cache_hint{kind} [$0], {operands}, ${2 + len(words)};"
    _write_if(predicate, store, address, words, policy)


def store_words(
    address: Int64,
    words: Sequence[Uint32],
    predicate: cutlass.Boolean,
    policy: Int64 | None = None,
) -> None:
    """Stores 1, 2 or 4 words at `address`, aligned to their size, where `predicate` is true."""
    operands, vector = _vector(len(words), 2)
    _store_global_if(predicate, f"{vector}.b32", operands, address, words, policy)


def store_byte(
    address: Int64, word: Uint32, predicate: cutlass.Boolean, policy: Int64 | None = None
) -> None:
    """Stores the lowest byte of `word` at `address` where `predicate` is true."""
    _store_global_if(predicate, ".b8", "$2", address, [word], policy)


def load_flag(address: Int64) -> Uint32:
    """The word at `address`, 0 for a null pointer."""
    return _ptx_word(
        "{ .reg .pred p; setp.ne.b64 p, $1, 0; mov.b32 $0, 0; @p ld.global.b32 $0, [$1]; }",
        "=&r,l",
        [address],
        volatile=True,
    )


def load_contended(address: Int64) -> Uint32:
    """The word at `address`, which other CTAs may be changing."""
    return _ptx_word("ld.relaxed.gpu.global.b32 $0, [$1];", "=r,l", [address], volatile=True)


def atomic_max_nonnegative(address: Int64, bits: Uint32, predicate: cutlass.Boolean) -> None:
    """Raises the fp32 at `address` to the non-negative fp32 `bits`, whose order is that of ints."""
    _write_if(predicate, "red.relaxed.gpu.global.max.s32 [$0], $2;", address, [bits])


def store_shared(address: Int32, words: Sequence[Uint32]) -> None:
    """Stores 1, 2 or 4 words at `address` in shared memory, aligned to their size."""
    operands, vector = _vector(len(words), 1)
    _ptx(
        f"st.shared{vector}.b32 [$0], {operands};",
        ",".join(["r"] * (1 + len(words))),
        [address, *words],
        [],
        volatile=True,
    )


def store_shared_byte(address: Int32, word: Uint32, predicate: cutlass.Boolean) -> None:
    """Stores the lowest byte of `word` in shared memory where `predicate` is true."""
    _write_if(predicate, "st.shared.b8 [$0], $2;", address, [word])


def load_shared(address: Int32, count: int) -> list[Uint32]:
    """1, 2 or 4 words at `address` in shared memory, aligned to their size."""
    operands, vector = _vector(count, 0)
    return _ptx(
        f"ld.shared{vector}.b32 {operands}, [${count}];",
        ",".join(["=r"] * count + ["r"]),
        [address],
        [Uint32] * count,
        volatile=True,
    )


# Absolute maxima


def max_magnitude(dtype: str, a: Uint32, b: Uint32) -> Uint32:
    """max(|a|, |b|) of each element, a NaN giving way to the other; the signs are arbitrary."""
    return _ptx_word(f"max.xorsign.abs.{_MAX_PTX_TYPES[dtype]} $0, $1, $2;", "=r,r,r", [a, b])


def reduce_magnitude(dtype: str, words: Sequence[Uint32]) -> Uint32:
    """max_magnitude over `words`, as a tree."""
    words = list(words)
    while len(words) > 1:
        pairs = [max_magnitude(dtype, a, b) for a, b in zip(words[::2], words[1::2], strict=False)]
        words = pairs + words[2 * len(pairs) :]
    return words[0]


def clean_magnitude(dtype: str, word: Uint32) -> Uint32:
    """Clears what max_magnitude leaves behind: signs, and NaN where every element was one."""
    return max_magnitude(dtype, word, Uint32(0)) & Uint32(_MAGNITUDE_MASK[dtype])


def pair_magnitude(dtype: str, a: Uint32, b: Uint32) -> Uint32:
    """Of two words of a 16-bit type: (the larger half of a, the larger half of b)."""
    low = _permute(a, b, 0x5410)
    high = _permute(a, b, 0x7632)
    return max_magnitude(dtype, low, high)


def shuffle_magnitude(dtype: str, word: Uint32, offsets: Sequence[int]) -> Uint32:
    """max_magnitude over the lanes that differ in the bits `offsets` of their number."""
    for offset in offsets:
        word = max_magnitude(dtype, word, cute.arch.shuffle_sync_bfly(word, offset))
    return word


def largest_bits(magnitudes: Sequence[Float32]) -> Uint32:
    """The bits of the largest of some non-negative values, which are ordered like integers."""
    largest = _float_to_bits(magnitudes[0])
    for magnitude in magnitudes[1:]:
        largest = cutlass.max(largest, _float_to_bits(magnitude))
    return largest


def warp_max(bits: Uint32) -> Uint32:
    """The largest `bits` of the warp."""
    return _ptx_word("redux.sync.max.u32 $0, $1, 0xffffffff;", "=r,r", [bits], volatile=True)


# Conversion


def to_floats(dtype: str, word: Uint32) -> list[Float32]:
    """The elements of a word, exactly."""
    if dtype == "fp32":
        return [_bits_to_float(word)]
    if dtype == "bf16":
        return [_bits_to_float(word << Uint32(16)), _bits_to_float(word & Uint32(0xFFFF0000))]
    return _ptx(
        "{ .reg .b16 low, high; mov.b32 {low, high}, $2; "
        "cvt.f32.f16 $0, low; cvt.f32.f16 $1, high; }",
        "=f,=f,r",
        [word],
        [Float32, Float32],
    )


def to_floats_anew(dtype: str, word: Uint32) -> list[Float32]:
    """The same by other instructions, so that the compiler cannot keep the results of both.

    Where a word is needed as floats twice, it would hold twice as many registers in between.
    """
    if dtype == "fp32":
        return to_floats(dtype, word)
    if dtype == "bf16":
        zero = Uint32(0)
        return [
            _bits_to_float(_permute(word, zero, 0x1044)),
            _bits_to_float(_permute(word, zero, 0x3244)),
        ]
    high, low = to_floats(dtype, _permute(word, word, 0x1032))
    return [low, high]


def to_words(dtype: str, values: Sequence[Float32]) -> list[Uint32]:
    """The inverse of to_floats, rounding to nearest even; an even number of values."""
    if dtype == "fp32":
        return [_float_to_bits(value) for value in values]
    convert = f"cvt.rn.{_PAIR_PTX_TYPES[dtype]}.f32 $0, $2, $1;"
    return [_ptx_word(convert, "=r,f,f", values[i : i + 2]) for i in range(0, len(values), 2)]


def exp2(exponent: Float32) -> Float32:
    """2^exponent, to 2 ulp; results below 2^-126 are 0."""
    return _ptx("ex2.approx.ftz.f32 $0, $1;", "=f,f", [exponent], [Float32])[0]


def reciprocal(value: Float32) -> Float32:
    """1 / value, to 1 ulp; 0 where it would be subnormal, which saves four instructions."""
    return _ptx("rcp.approx.ftz.f32 $0, $1;", "=f,f", [value], [Float32])[0]


def block_scales(
    architecture: Architecture, fp8_dtype: str, amaxes: Sequence[Float32]
) -> list[Uint32]:
    """E8M0 bytes, packed four to a word in order, of the scales amax / max rounded up.

    amaxes: a multiple of four, none of them NaN.
    """
    reciprocal = _bits_to_float(Uint32(_RECIPROCAL_MAX_BITS[fp8_dtype]))
    joined = pairs.join(architecture, amaxes)
    quotients = pairs.split([amax * reciprocal for amax in joined])
    convert = _pack_e8m0_in_hardware if architecture.has_e8m0_conversion else _pack_e8m0
    return [convert(quotients[i : i + 4]) for i in range(0, len(quotients), 4)]


def _pack_e8m0_in_hardware(values: Sequence[Float32]) -> Uint32:
    return _ptx_word(
        "{ .reg .b16 low, high; "
        "cvt.rp.satfinite.ue8m0x2.f32 low, $2, $1; cvt.rp.satfinite.ue8m0x2.f32 high, $4, $3; "
        "mov.b32 $0, {low, high}; }",
        "=r,f,f,f,f",
        values,
    )


def _pack_e8m0(values: Sequence[Float32]) -> Uint32:
    a, b, c, d = (_round_up_to_e8m0(value) for value in values)
    low = _permute(a, b, 0x0040)
    high = _permute(c, d, 0x0040)
    return _permute(low, high, 0x5410)


def _round_up_to_e8m0(value: Float32) -> Uint32:
    """The exponent of the least power of two that is not below `value` (>= 0, not NaN).

    Saturates at 254. Up to 2^-127, the least power of two there is, it is 0.
    """
    bits = _float_to_bits(value)
    rounded_up = (bits + Uint32(0x7FFFFF)) >> Uint32(23)
    saturated = cutlass.min(rounded_up, Uint32(254))
    return select(bits <= Uint32(0x400000), Uint32(0), saturated)


def inverse_scale(packed: Uint32, index: int) -> Float32:
    """2^(127 - e) of byte `index` of `packed`, e != 255; 2^-127 for e = 254 is subnormal."""
    shift = 23 - 8 * index
    moved = packed << Uint32(shift) if shift >= 0 else packed >> Uint32(-shift)
    exponent = moved & Uint32(0x7F800000)
    return _bits_to_float(cutlass.max(Uint32(0x7F000000) - exponent, Uint32(0x00400000)))


def scale(
    architecture: Architecture, values: Sequence[Float32], factors: Sequence[Float32]
) -> list[Float32]:
    """values[i] * factors[i], rounded to nearest; an even number of them."""
    joined = zip(pairs.join(architecture, values), pairs.join(architecture, factors), strict=True)
    return pairs.split([value * factor for value, factor in joined])


def to_fp8(fp8_dtype: str, values: Sequence[Float32]) -> list[Uint32]:
    """FP8 bytes, packed four to a word in order; saturates, NaN is 0x7F. A multiple of four."""
    convert = f"cvt.rn.satfinite.{_FP8_PTX_TYPES[fp8_dtype]}.f32"
    return [
        _ptx_word(
            f"{{ .reg .b16 low, high; {convert} low, $2, $1; {convert} high, $4, $3; "
            "mov.b32 $0, {low, high}; }",
            "=r,f,f,f,f",
            values[i : i + 4],
        )
        for i in range(0, len(values), 4)
    ]
