"""quantize and dequantize."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from cutedsl_quant._frameworks import Framework, framework_of
from cutedsl_quant._library import library

Fp8 = Literal["e4m3", "e5m2"]
Activation = Literal["relu", "gelu", "silu", "qgelu", "srelu"]

_FP8_TYPES = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
_WIDE_TYPES = ("float32", "float16", "bfloat16")
_BLOCK = 32


@dataclass(frozen=True)
class Quantized:
    """An MXFP8 tensor of M x N elements; N is its last dimension, M the product of the others.

    rowwise_data, columnwise_data: FP8, the shape of what was quantized; the columnwise data is not
        transposed. None: this direction was not asked for.
    rowwise_scale_inv: E8M0, one scale for each 32 elements along N. Compact: (M, ceil(N/32)), the
        scale of elements [m, 32j..32j+31] at [m, j].
    columnwise_scale_inv: E8M0, one scale for each 32 elements along M. Compact: (ceil(M/32), N),
        the scale of elements [32i..32i+31, n] at [i, n].
    Swizzled scales lie in 128x4 tiles of 512 bytes, as block-scaled GEMMs read them, in arrays of
        (roundup(M, 128), roundup(ceil(N/32), 4)) and (roundup(ceil(M/32), 4), roundup(N, 128)).
    """

    rowwise_data: Any | None
    rowwise_scale_inv: Any | None
    columnwise_data: Any | None
    columnwise_scale_inv: Any | None
    fp8_dtype: Fp8 = "e4m3"
    swizzled: bool = False


def quantize(
    x: Any,
    rowwise: bool = True,
    columnwise: bool = True,
    fp8_dtype: Fp8 = "e4m3",
    swizzled: bool = False,
    amax: Any | None = None,
    noop: Any | None = None,
    out: Quantized | None = None,
    stream: int | None = None,
    *,
    activation: Activation | None = None,
    act_input: Any | None = None,
    dbias: Any | None = None,
) -> Quantized:
    """Casts `x` to MXFP8: FP8 elements and a power-of-two scale for each block of 32.

    x: float32, float16 or bfloat16, any shape, contiguous; numpy, torch, or anything with DLPack.
    activation: what is cast is activation(x); with act_input, an array like x, it is the gradient
        x * activation'(act_input). For 16-bit types it is rounded to the type of x first.
    dbias: the type of x, shape (N,): receives the sums over M of what is cast, added up in float32
        before any rounding. Not together with an activation unless act_input is given.
    amax: float32, shape (1,), on the device of x: raised to max |what is cast|, never lowered.
    noop: float32, shape (1,), on the device of x: when it is exactly 1 nothing is written. For
        plain casts: not together with activation or dbias.
    out: write here instead of into new arrays; then `rowwise`, `columnwise`, `fp8_dtype` and
        `swizzled` are `out`'s, and the scale arrays may be larger as in cutedsl_quant/quantize.h.
    stream: cudaStream_t as an integer; by default torch's current stream, or the default stream.

    The arrays of the result are numpy's (types of ml_dtypes) for numpy, torch's for torch, and
    TVM-FFI tensors for others. ValueError or TypeError for bad arguments, RuntimeError if CUDA
    fails.
    """
    framework = framework_of("quantize", "x", x)
    if out is None:
        out = _allocate(framework, x, rowwise, columnwise, fp8_dtype, swizzled)
    outputs = [
        _write("quantize", "out.rowwise_data", out.rowwise_data),
        _write("quantize", "out.rowwise_scale_inv", out.rowwise_scale_inv),
        _write("quantize", "out.columnwise_data", out.columnwise_data),
        _write("quantize", "out.columnwise_scale_inv", out.columnwise_scale_inv),
        _write("quantize", "amax", amax),
    ]
    options = (out.fp8_dtype, out.swizzled, framework.stream(x) if stream is None else stream)
    if activation is None and act_input is None and dbias is None:
        library.quantize(
            _read("quantize", "x", x), *outputs, _read("quantize", "noop", noop), *options
        )
        return out
    if noop is not None:
        raise ValueError("quantize: noop is given with activation or dbias; plain casts accept it")
    inputs = (
        _read("quantize", "x", x),
        _read("quantize", "act_input", act_input),
        activation if act_input is None or activation is None else "d" + activation,
    )
    outputs.append(_write("quantize", "dbias", dbias))
    shape = tuple(library.quantize_fused(*inputs, *outputs, None, *options))
    if math.prod(shape) and dbias is not None:
        workspace = framework.empty(shape, "float32", x)
        library.quantize_fused(*inputs, *outputs, framework.write(workspace), *options)
        framework.keep_until_done(workspace, stream)
    return out


def dequantize(
    q: Quantized,
    dtype: Literal["float32", "float16", "bfloat16"] = "float32",
    stream: int | None = None,
) -> Any:
    """Casts `q` back, from its rowwise data if there is any, else from its columnwise data.

    Returns an array of `dtype` with the shape of the data, from the framework of the data. `stream`
    and errors as for quantize.
    """
    if dtype not in _WIDE_TYPES:
        raise ValueError(f"dequantize: dtype is {dtype!r}; {', '.join(_WIDE_TYPES)} are accepted")
    data = q.columnwise_data if q.rowwise_data is None else q.rowwise_data
    if data is None:
        raise ValueError("dequantize: q has neither rowwise nor columnwise data")
    framework = framework_of("dequantize", "q's data", data)
    output = framework.empty(tuple(data.shape), dtype, data)
    rowwise = [
        _read("dequantize", "q.rowwise_data", q.rowwise_data),
        _read("dequantize", "q.rowwise_scale_inv", q.rowwise_scale_inv),
    ]
    columnwise = [
        _read("dequantize", "q.columnwise_data", q.columnwise_data),
        _read("dequantize", "q.columnwise_scale_inv", q.columnwise_scale_inv),
    ]
    library.dequantize(
        *(rowwise if q.rowwise_data is not None else (None, None)),
        *(columnwise if q.rowwise_data is None else (None, None)),
        q.fp8_dtype,
        q.swizzled,
        _write("dequantize", "output", output),
        framework.stream(data) if stream is None else stream,
    )
    return output


def _read(function: str, name: str, array: Any | None) -> Any | None:
    if array is None:
        return None
    framework = framework_of(function, name, array)
    try:
        return framework.read(array)
    except BufferError as error:
        raise ValueError(f"{function}: {name} cannot be read: {error}") from error


def _write(function: str, name: str, array: Any | None) -> Any | None:
    if array is None:
        return None
    framework = framework_of(function, name, array)
    try:
        return framework.write(array)
    except BufferError as error:
        raise ValueError(f"{function}: {name} cannot be written: {error}") from error


def _allocate(
    framework: Framework, x: Any, rowwise: bool, columnwise: bool, fp8_dtype: Fp8, swizzled: bool
) -> Quantized:
    if fp8_dtype not in _FP8_TYPES:
        raise ValueError(
            f"quantize: fp8_dtype is {fp8_dtype!r}; {', '.join(_FP8_TYPES)} are accepted"
        )
    shape = tuple(x.shape)
    rows, columns = math.prod(shape[:-1]), shape[-1] if shape else 1
    rowwise_scales = (rows, _blocks(columns))
    columnwise_scales = (_blocks(rows), columns)
    if swizzled:
        rowwise_scales = (_round_up(rows, 128), _round_up(_blocks(columns), 4))
        columnwise_scales = (_round_up(_blocks(rows), 4), _round_up(columns, 128))

    def data(present: bool) -> Any | None:
        return framework.empty(shape, _FP8_TYPES[fp8_dtype], x) if present else None

    def scales(present: bool, scale_shape: tuple[int, int]) -> Any | None:
        return framework.empty(scale_shape, "float8_e8m0fnu", x) if present else None

    return Quantized(
        data(rowwise),
        scales(rowwise, rowwise_scales),
        data(columnwise),
        scales(columnwise, columnwise_scales),
        fp8_dtype,
        swizzled,
    )


def _blocks(elements: int) -> int:
    return -(-elements // _BLOCK)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
