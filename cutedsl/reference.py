"""The oracle: the semantics of MXFP8 quantization in numpy, vectorised.

Tensors are numpy arrays of float32, float16 or ml_dtypes.bfloat16, seen as M x N: the last
dimension and the product of the others. FP8 data and E8M0 scales are uint8 arrays of codes.
ml_dtypes is used for bfloat16 and to round to FP8 and back, nothing else. Needs no CuTeDSL.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import ml_dtypes
import numpy as np

from cutedsl.config import QuantizeConfig

BLOCK = 32  # elements that share a scale
SWIZZLE_ROWS = 128  # a tile of swizzled scales: 128 rows (or columns) x 4 blocks
SWIZZLE_BLOCKS = 4

DTYPES = {
    "fp32": np.dtype(np.float32),
    "fp16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}
_FP8_DTYPES = {
    "fp8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
FP8_MAX = {"fp8_e4m3fn": np.float32(448), "fp8_e5m2": np.float32(57344)}
# float(1 / FP8_MAX), bit for bit.
_RECIPROCAL_MAX = {
    "fp8_e4m3fn": np.uint32(0x3B124925).view(np.float32),
    "fp8_e5m2": np.uint32(0x37924925).view(np.float32),
}
_FP8_NAN = 0x7F


@dataclasses.dataclass
class Quantized:
    """The buffers of a quantized tensor; None where an output is not wanted."""

    rowwise_data: np.ndarray | None = None  # uint8, M x N
    rowwise_scale_inv: np.ndarray | None = None  # uint8, see scale_shape
    columnwise_data: np.ndarray | None = None  # uint8, M x N
    columnwise_scale_inv: np.ndarray | None = None  # uint8, see scale_shape
    amax: np.ndarray | None = None  # float32, {1}
    dbias: np.ndarray | None = None  # the input's type, {N}


def _ceil_div(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _round_up(value: int, multiple: int) -> int:
    return _ceil_div(value, multiple) * multiple


def as_matrix(x: np.ndarray) -> np.ndarray:
    """A view of `x` as M x N."""
    return x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)


def scale_shape(m: int, n: int, *, columnwise: bool, exact: bool = False) -> tuple[int, int]:
    """Extents of a scale buffer: padded, or, for compact scales only, `exact`."""
    rows, columns = (_ceil_div(m, BLOCK), n) if columnwise else (m, _ceil_div(n, BLOCK))
    if exact:
        return rows, columns
    row_multiple, column_multiple = (4, 128) if columnwise else (128, 4)
    return _round_up(rows, row_multiple), _round_up(columns, column_multiple)


def allocate(
    config: QuantizeConfig, m: int, n: int, *, fill: int = 0, exact_scales: bool = False
) -> Quantized:
    """Buffers for the outputs of `config`, every byte `fill`; the amax starts at zero."""
    out = Quantized()
    if config.rowwise:
        shape = scale_shape(m, n, columnwise=False, exact=exact_scales)
        out.rowwise_data = np.full((m, n), fill, np.uint8)
        out.rowwise_scale_inv = np.full(shape, fill, np.uint8)
    if config.colwise:
        shape = scale_shape(m, n, columnwise=True, exact=exact_scales)
        out.columnwise_data = np.full((m, n), fill, np.uint8)
        out.columnwise_scale_inv = np.full(shape, fill, np.uint8)
    if config.with_amax:
        out.amax = np.zeros(1, np.float32)
    if config.with_dbias:
        out.dbias = np.frombuffer(bytes([fill]) * (n * DTYPES[config.dtype].itemsize), np.uint8)
        out.dbias = out.dbias.copy().view(DTYPES[config.dtype])
    return out


_QGELU_SCALE = np.float32(1.702)
# gelu is x * sigmoid(2u), 2u = x * (linear + cubic * x^2).
_GELU_LINEAR = np.float32(1.5957691216)
_GELU_CUBIC = np.float32(0.0713548163)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    """Zero where it would be subnormal, as everywhere."""
    s = np.float32(1) / (np.float32(1) + np.exp(-x))
    return np.where(s < np.finfo(np.float32).tiny, np.float32(0), s)


def _sigmoid_of_2u(x: np.ndarray) -> np.ndarray:
    return _sigmoid(x * (_GELU_LINEAR + _GELU_CUBIC * (x * x)))


def _gated_derivative(x: np.ndarray, s: np.ndarray, slope: np.ndarray | np.float32) -> np.ndarray:
    """Of x * s, where s is the sigmoid of something that rises with `slope`."""
    return x * s * (np.float32(1) - s) * slope + s


_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.where(x > 0, x, np.float32(0)),
    "gelu": lambda x: x * _sigmoid_of_2u(x),
    "silu": lambda x: x * _sigmoid(x),
    "qgelu": lambda x: x * _sigmoid(_QGELU_SCALE * x),
    "srelu": lambda x: np.where(x > 0, x * x, np.float32(0)),
    "drelu": lambda x: np.where(x > 0, np.float32(1), np.float32(0)),
    "dgelu": lambda x: _gated_derivative(
        x, _sigmoid_of_2u(x), _GELU_LINEAR + np.float32(3) * _GELU_CUBIC * (x * x)
    ),
    "dsilu": lambda x: _gated_derivative(x, _sigmoid(x), np.float32(1)),
    "dqgelu": lambda x: _gated_derivative(x, _sigmoid(_QGELU_SCALE * x), _QGELU_SCALE),
    "dsrelu": lambda x: np.where(x > 0, x + x, np.float32(0)),
}


def activate(token: str, x: np.ndarray) -> np.ndarray:
    """The activation or derivative `token` of float32 values, in float32.

    A NaN gives 0 in the relu family.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return _ACTIVATIONS[token](x)


def fused_values(
    x: np.ndarray, config: QuantizeConfig, act_input: np.ndarray | None = None
) -> np.ndarray:
    """What `config` sums up for dbias and, rounded to the input's type, quantizes: float32, M x N.

    act_input: the argument of the derivative, of the type and shape of `x`.
    """
    values = as_matrix(x).astype(np.float32)
    if config.with_act:
        return activate(config.activation, values)
    if config.with_dact:
        factors = activate(config.activation, as_matrix(act_input).astype(np.float32))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return values * factors
    return values


def dbias_partials(values: np.ndarray, chunk_rows: int) -> np.ndarray:
    """The dbias workspace: float32 sums over each `chunk_rows` rows of a float32 matrix."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.add.reduceat(values, np.arange(0, values.shape[0], chunk_rows), axis=0)


def block_amax(values: np.ndarray, axis: int) -> np.ndarray:
    """The largest |value| of each block of 32 along `axis` of a float32 matrix, NaN left out.

    A ragged last block counts what is there; a block of nothing but NaN has 0.
    """
    starts = np.arange(0, values.shape[axis], BLOCK)
    magnitudes = np.abs(values)
    magnitudes = np.where(np.isnan(magnitudes), np.float32(0), magnitudes)
    return np.maximum.reduceat(magnitudes, starts, axis=axis)


def e8m0_round_up(values: np.ndarray) -> np.ndarray:
    """E8M0 codes of float32 values >= 0 or NaN: the least power of two not below, from 2^-127 on.

    Infinity saturates to 0xFE, NaN is 0xFF.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    exponent = bits >> 23
    mantissa = bits & 0x7FFFFF
    goes_up = (mantissa > 0) & (exponent != 0xFE) & ~((exponent == 0) & (mantissa <= 0x400000))
    codes = np.where(goes_up, exponent + 1, exponent)
    codes = np.where(np.isposinf(values), 0xFE, codes)
    return np.where(np.isnan(values), 0xFF, codes).astype(np.uint8)


def inverse_scale(codes: np.ndarray) -> np.ndarray:
    """2^(127 - e) as float32, NaN for 0xFF."""
    bits = (254 - codes.astype(np.int64)) << 23
    bits = np.where(codes == 254, 0x00400000, bits)
    return np.where(codes == 255, 0x7FFFFFFF, bits).astype(np.uint32).view(np.float32)


def scale_value(codes: np.ndarray) -> np.ndarray:
    """2^(e - 127) as float32, NaN for 0xFF."""
    bits = codes.astype(np.uint32) << 23
    bits = np.where(codes == 0, 0x00400000, bits)
    return np.where(codes == 255, 0x7FFFFFFF, bits).astype(np.uint32).view(np.float32)


def to_fp8(values: np.ndarray, fp8_dtype: str) -> np.ndarray:
    """FP8 codes of float32 values: to nearest even, saturating, any NaN 0x7F."""
    is_nan = np.isnan(values)
    limit = FP8_MAX[fp8_dtype]
    clamped = np.clip(np.where(is_nan, np.float32(0), values), -limit, limit)
    codes = clamped.astype(_FP8_DTYPES[fp8_dtype]).view(np.uint8)
    return np.where(is_nan, np.uint8(_FP8_NAN), codes)


def from_fp8(codes: np.ndarray, fp8_dtype: str) -> np.ndarray:
    """FP8 codes as float32."""
    return codes.view(_FP8_DTYPES[fp8_dtype]).astype(np.float32)


def _spread(per_block: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Repeats each block's value for its elements along `axis`, `size` of them in all."""
    return np.take(per_block, np.arange(size) // BLOCK, axis=axis)


def quantize_blocks(
    values: np.ndarray, fp8_dtype: str, *, columnwise: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Codes (M x N) and compact scales of a float32 matrix, blocks along N or, columnwise, M."""
    axis = 0 if columnwise else 1
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scales = e8m0_round_up(block_amax(values, axis) * _RECIPROCAL_MAX[fp8_dtype])
        factors = _spread(inverse_scale(scales), values.shape[axis], axis)
        return to_fp8(values * factors, fp8_dtype), scales


def swizzled_index(i: np.ndarray, j: np.ndarray, tiles: int) -> np.ndarray:
    """Byte offset of the scale of row (or column) i and block j; `tiles` is ceil(blocks / 4)."""
    tile = (i // SWIZZLE_ROWS) * tiles + j // SWIZZLE_BLOCKS
    return tile * 512 + (i % 32) * 16 + (i % SWIZZLE_ROWS) // 32 * 4 + j % SWIZZLE_BLOCKS


def _swizzled_offsets(shape: tuple[int, int], columnwise: bool) -> np.ndarray:
    """Where in a swizzled buffer each scale of a compact matrix of `shape` lies."""
    row, column = np.indices(shape)
    i, j = (column, row) if columnwise else (row, column)
    blocks = shape[0] if columnwise else shape[1]
    return swizzled_index(i, j, _ceil_div(blocks, SWIZZLE_BLOCKS))


def write_scales(
    scales: np.ndarray, buffer: np.ndarray, *, columnwise: bool, swizzled: bool
) -> None:
    """Writes compact scales into `buffer`: its top left corner, or, swizzled, all of it."""
    if swizzled:
        flat = buffer.reshape(-1)
        flat[:] = 0
        flat[_swizzled_offsets(scales.shape, columnwise)] = scales
    else:
        buffer[: scales.shape[0], : scales.shape[1]] = scales


def read_scales(
    buffer: np.ndarray, m: int, n: int, *, columnwise: bool, swizzled: bool
) -> np.ndarray:
    """The compact scales of an M x N tensor out of `buffer`."""
    shape = scale_shape(m, n, columnwise=columnwise, exact=True)
    if swizzled:
        return buffer.reshape(-1)[_swizzled_offsets(shape, columnwise)]
    return buffer[: shape[0], : shape[1]]


def quantize(
    x: np.ndarray,
    config: QuantizeConfig,
    out: Quantized,
    *,
    act_input: np.ndarray | None = None,
    noop: float | None = None,
) -> None:
    """Quantizes `x` into the buffers of `out`, as a kernel of `config` does.

    act_input: for a derivative, its argument. noop: the value of the noop flag; exactly 1 means
    that a plain cast writes nothing, while fusions ignore it. The sums of dbias are added up in one
    of many orders. ValueError if a type or a shape is not what `config` takes.
    """
    if x.dtype != DTYPES[config.dtype]:
        raise ValueError(f"quantize: x is {x.dtype}, but {config.name} takes {config.dtype}")
    if (act_input is not None) != config.with_dact:
        raise ValueError(f"quantize: {config.name} and an act_input of {type(act_input)}")
    if config.with_dact and (act_input.dtype, act_input.shape) != (x.dtype, x.shape):
        raise ValueError(
            f"quantize: act_input is {act_input.dtype} {act_input.shape}, x {x.dtype} {x.shape}"
        )
    if x.size == 0:
        if config.with_dbias:
            out.dbias[:] = 0
        return
    if noop == 1.0 and config.is_cast:
        return
    values = fused_values(x, config, act_input)
    with np.errstate(over="ignore", invalid="ignore"):
        if config.with_dbias:
            partials = dbias_partials(values, config.dbias_chunk_rows)
            out.dbias[:] = partials.sum(axis=0).astype(x.dtype)
        values = values.astype(x.dtype).astype(np.float32)
    if config.rowwise:
        out.rowwise_data[:], scales = quantize_blocks(values, config.fp8_dtype, columnwise=False)
        write_scales(scales, out.rowwise_scale_inv, columnwise=False, swizzled=config.swizzled)
    if config.colwise:
        out.columnwise_data[:], scales = quantize_blocks(values, config.fp8_dtype, columnwise=True)
        write_scales(scales, out.columnwise_scale_inv, columnwise=True, swizzled=config.swizzled)
    if config.with_amax:
        # An atomic maximum of the bits as integers.
        largest = block_amax(values, 1).max(keepdims=True).reshape(1)
        bits = np.maximum(out.amax.view(np.int32), largest.view(np.int32))
        out.amax[:] = bits.view(np.float32)


def dequantize(
    data: np.ndarray,
    scale_inv: np.ndarray,
    fp8_dtype: str,
    dtype: str,
    *,
    columnwise: bool,
    swizzled: bool,
) -> np.ndarray:
    """Codes times scales, M x N of `dtype` ("fp32", "fp16", "bf16"); the product is fp32."""
    m, n = data.shape
    scales = read_scales(scale_inv, m, n, columnwise=columnwise, swizzled=swizzled)
    axis = 0 if columnwise else 1
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        factors = _spread(scale_value(scales), data.shape[axis], axis)
        return (from_fp8(data, fp8_dtype) * factors).astype(DTYPES[dtype])
