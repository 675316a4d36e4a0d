"""quantize and dequantize."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from cutedsl_quant._frameworks import Framework, framework_of
from cutedsl_quant._library import library

Fp8 = Literal["e4m3", "e5m2"]
Activation = Literal["relu", "gelu", "silu", "qgelu", "srelu"]

_ACTIVATIONS = get_args(Activation)
_FP8_TYPES = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
_WIDE_TYPES = ("float32", "float16", "bfloat16")
_SCALE_TYPES = ("float8_e8m0fnu", "uint8")
_FLOAT_TYPES = ("float32",)
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
        Bytes (uint8) are accepted in place of FP8 and E8M0.
    stream: cudaStream_t as an integer; by default torch's current stream, or the default stream.
        Another one must be ordered after torch's current stream, which new arrays are made on.

    The arrays of the result are numpy's (types of ml_dtypes) for numpy, torch's for torch, and
    TVM-FFI tensors for others. ValueError or TypeError for bad arguments, RuntimeError if CUDA
    fails.
    """
    framework = framework_of("quantize", "x", x)
    source = _tensor("quantize", "x", x, _WIDE_TYPES)
    if activation is not None and activation not in _ACTIVATIONS:
        raise ValueError(
            f"quantize: activation is {activation!r}; {', '.join(_ACTIVATIONS)} are accepted"
        )
    if out is None:
        out = _allocate(framework, source, rowwise, columnwise, fp8_dtype, swizzled)
    data_types = _data_types("quantize", out.fp8_dtype)
    outputs = [
        _output("quantize", "out.rowwise_data", out.rowwise_data, data_types),
        _output("quantize", "out.rowwise_scale_inv", out.rowwise_scale_inv, _SCALE_TYPES),
        _output("quantize", "out.columnwise_data", out.columnwise_data, data_types),
        _output("quantize", "out.columnwise_scale_inv", out.columnwise_scale_inv, _SCALE_TYPES),
        _output("quantize", "amax", amax, _FLOAT_TYPES),
    ]
    options = (out.fp8_dtype, out.swizzled, framework.stream(x) if stream is None else stream)
    if activation is None and act_input is None and dbias is None:
        library.quantize(
            source, *outputs, _tensor("quantize", "noop", noop, _FLOAT_TYPES), *options
        )
        return out
    if noop is not None:
        raise ValueError("quantize: noop is given with activation or dbias; plain casts accept it")
    inputs = (
        source,
        _tensor("quantize", "act_input", act_input, _WIDE_TYPES),
        activation if act_input is None or activation is None else "d" + activation,
    )
    outputs.append(_output("quantize", "dbias", dbias, _WIDE_TYPES))
    shape = tuple(library.quantize_fused(*inputs, *outputs, None, *options))
    if math.prod(shape) and dbias is not None:
        workspace = framework.empty(shape, "float32", source)
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
    if q.rowwise_data is not None:
        direction, data, scales = "rowwise", q.rowwise_data, q.rowwise_scale_inv
    else:
        direction, data, scales = "columnwise", q.columnwise_data, q.columnwise_scale_inv
    if data is None:
        raise ValueError("dequantize: q has neither rowwise nor columnwise data")
    framework = framework_of("dequantize", "q's data", data)
    data_types = _data_types("dequantize", q.fp8_dtype)
    given = [
        _tensor("dequantize", f"q.{direction}_data", data, data_types),
        _tensor("dequantize", f"q.{direction}_scale_inv", scales, _SCALE_TYPES),
    ]
    absent = [None, None]
    output = framework.empty(tuple(data.shape), dtype, given[0])
    library.dequantize(
        *(given + absent if direction == "rowwise" else absent + given),
        q.fp8_dtype,
        q.swizzled,
        framework.write(output),
        framework.stream(data) if stream is None else stream,
    )
    return output


def _tensor(
    function: str,
    name: str,
    array: Any | None,
    accepted: tuple[str, ...],
    *,
    output: bool = False,
) -> Any | None:
    """`array` as TVM-FFI takes it, if its type is one of those `accepted`."""
    if array is None:
        return None
    framework = framework_of(function, name, array)
    try:
        array = framework.adopt(array)
        _check_type(function, name, framework.dtype(array), accepted)
        return framework.write(array) if output else framework.read(array)
    except BufferError as error:
        what = "written" if output else "read"
        raise ValueError(f"{function}: {name} cannot be {what}: {error}") from error


def _output(function: str, name: str, array: Any | None, accepted: tuple[str, ...]) -> Any | None:
    return _tensor(function, name, array, accepted, output=True)


# Here, since the library sees unsigned integers in place of the types that few frameworks export.
def _check_type(function: str, name: str, dtype: str, accepted: tuple[str, ...]) -> None:
    if dtype not in accepted:
        raise ValueError(
            f"{function}: {name} has dtype {dtype}; {', '.join(accepted)} "
            f"{'is' if len(accepted) == 1 else 'are'} accepted"
        )


def _data_types(function: str, fp8_dtype: Fp8) -> tuple[str, ...]:
    if fp8_dtype not in _FP8_TYPES:
        raise ValueError(
            f"{function}: fp8_dtype is {fp8_dtype!r}; {', '.join(_FP8_TYPES)} are accepted"
        )
    return (_FP8_TYPES[fp8_dtype], "uint8")


def _allocate(
    framework: Framework, x: Any, rowwise: bool, columnwise: bool, fp8_dtype: Fp8, swizzled: bool
) -> Quantized:
    data_type, _ = _data_types("quantize", fp8_dtype)
    shape = tuple(x.shape)
    rows, columns = math.prod(shape[:-1]), shape[-1] if shape else 1
    rowwise_scales = (rows, _blocks(columns))
    columnwise_scales = (_blocks(rows), columns)
    if swizzled:
        rowwise_scales = (_round_up(rows, 128), _round_up(_blocks(columns), 4))
        columnwise_scales = (_round_up(_blocks(rows), 4), _round_up(columns, 128))

    def data(present: bool) -> Any | None:
        return framework.empty(shape, data_type, x) if present else None

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
