"""The Python face, on host arrays: bit for bit the oracle's, and clear about what it refuses."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import types
from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi

import cutedsl_quant
from cutedsl import reference
from cutedsl.config import QuantizeConfig

_DTYPES = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}
_FP8 = {"e4m3": "fp8_e4m3fn", "e5m2": "fp8_e5m2"}


def _values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Elements of many magnitudes, some of them special."""
    random = np.random.default_rng(7)
    x = np.asarray(random.normal(size=shape) * np.exp2(random.integers(-20, 12, size=shape)))
    flat = x.reshape(-1)
    for i, special in enumerate((0.0, -0.0, np.inf, -np.inf, np.nan)):
        if flat.size > 41 * i:
            flat[41 * i] = special
    with np.errstate(over="ignore"):
        return x.astype(_DTYPES[dtype])


def _codes(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8)


def _expected(x: np.ndarray, dtype: str, fp8_dtype: str, swizzled: bool) -> reference.Quantized:
    config = QuantizeConfig(
        dtype=dtype,
        fp8_dtype=_FP8[fp8_dtype],
        rowwise=True,
        colwise=True,
        swizzled=swizzled,
        with_amax=True,
    )
    m, n = reference.as_matrix(x).shape
    out = reference.allocate(config, m, n, exact_scales=not swizzled)
    reference.quantize(x, config, out)
    return out


@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize("fp8_dtype", ["e4m3", "e5m2"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("shape", [(64, 128), (33, 70), (2, 3, 45), (7,), ()])
def test_quantize_is_the_oracle(
    shape: tuple[int, ...], dtype: str, fp8_dtype: str, swizzled: bool
) -> None:
    """A type, an extent or an argument mixed up on the way from numpy to C++ and back."""
    x = _values(shape, dtype)
    expected = _expected(x, dtype, fp8_dtype, swizzled)
    amax = np.zeros(1, np.float32)
    q = cutedsl_quant.quantize(x, fp8_dtype=fp8_dtype, swizzled=swizzled, amax=amax)
    element = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[fp8_dtype]
    assert q.rowwise_data.shape == q.columnwise_data.shape == shape
    assert q.rowwise_data.dtype == q.columnwise_data.dtype == element
    assert q.rowwise_scale_inv.dtype == q.columnwise_scale_inv.dtype == ml_dtypes.float8_e8m0fnu
    m, n = reference.as_matrix(x).shape
    np.testing.assert_array_equal(_codes(q.rowwise_data).reshape(m, n), expected.rowwise_data)
    np.testing.assert_array_equal(_codes(q.columnwise_data).reshape(m, n), expected.columnwise_data)
    np.testing.assert_array_equal(_codes(q.rowwise_scale_inv), expected.rowwise_scale_inv)
    np.testing.assert_array_equal(_codes(q.columnwise_scale_inv), expected.columnwise_scale_inv)
    np.testing.assert_array_equal(amax, expected.amax)


@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_dequantize_is_the_oracle(dtype: str, swizzled: bool, rowwise: bool) -> None:
    """Either direction, into every type."""
    x = _values((33, 70), "fp32")
    q = cutedsl_quant.quantize(x, rowwise=rowwise, columnwise=not rowwise, swizzled=swizzled)
    data = q.rowwise_data if rowwise else q.columnwise_data
    scales = q.rowwise_scale_inv if rowwise else q.columnwise_scale_inv
    expected = reference.dequantize(
        _codes(data),
        _codes(scales),
        "fp8_e4m3fn",
        dtype,
        columnwise=not rowwise,
        swizzled=swizzled,
    )
    y = cutedsl_quant.dequantize(q, np.dtype(_DTYPES[dtype]).name)
    assert y.dtype == _DTYPES[dtype]
    # Which NaN comes out is not specified.
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(y), ~numbers)
    np.testing.assert_array_equal(_codes(y[numbers]), _codes(expected[numbers]))


_EXACT = ("relu", "srelu")
# activation, whether its derivative, whether with dbias
_FUSIONS = [(None, False, True)] + [
    (activation, derivative, with_dbias)
    for activation in ("relu", "gelu", "silu", "qgelu", "srelu")
    for derivative, with_dbias in ((False, False), (True, False), (True, True))
]


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize(("activation", "derivative", "with_dbias"), _FUSIONS)
def test_fusions_are_the_oracle(
    activation: str | None, derivative: bool, with_dbias: bool, dtype: str
) -> None:
    """An argument mixed up, a derivative for a function, or a workspace too small or not used."""
    random = np.random.default_rng(3)
    # Integers, whose sums are exact in any order; more rows than a row of the workspace holds.
    x, act_input = random.integers(-8, 8, (2, 2, 100, 48)).astype(_DTYPES[dtype])
    config = QuantizeConfig(
        dtype,
        rowwise=True,
        colwise=True,
        with_amax=True,
        with_dbias=with_dbias,
        with_dact=derivative,
        with_act=activation is not None and not derivative,
        activation=("d" if derivative else "") + (activation or "none"),
    )
    expected = reference.allocate(config, 200, 48, exact_scales=True)
    reference.quantize(x, config, expected, act_input=act_input if derivative else None)
    amax = np.zeros(1, np.float32)
    dbias = np.full(48, 77, _DTYPES[dtype]) if with_dbias else None
    q = cutedsl_quant.quantize(
        x,
        activation=activation,
        act_input=act_input if derivative else None,
        dbias=dbias,
        amax=amax,
    )
    assert q.rowwise_data.shape == x.shape
    exact = activation is None or activation in _EXACT
    for name in ("rowwise_data", "columnwise_data", "rowwise_scale_inv", "columnwise_scale_inv"):
        want, got = getattr(expected, name), _codes(getattr(q, name))
        differing = np.mean(got.reshape(want.shape) != want)
        assert differing <= (0 if exact else 1e-3), name
    np.testing.assert_allclose(amax, expected.amax, rtol=0 if exact else 1e-6)
    if with_dbias:
        wide = (np.float32(dbias), np.float32(expected.dbias))
        np.testing.assert_allclose(*wide, rtol=0 if exact else 1e-2, atol=0 if exact else 1e-5)


def test_dbias_of_nothing_is_zero() -> None:
    """Sums over no rows that keep what was in memory."""
    dbias = np.full(32, 7, np.float32)
    cutedsl_quant.quantize(np.zeros((0, 32), np.float32), dbias=dbias)
    np.testing.assert_array_equal(dbias, np.zeros(32, np.float32))


def test_directions_not_asked_for_are_none() -> None:
    """Nothing is computed or allocated for them."""
    x = np.ones((32, 32), np.float32)
    q = cutedsl_quant.quantize(x, columnwise=False)
    assert q.rowwise_data is not None
    assert q.columnwise_data is None and q.columnwise_scale_inv is None
    q = cutedsl_quant.quantize(x, rowwise=False)
    assert q.columnwise_data is not None
    assert q.rowwise_data is None and q.rowwise_scale_inv is None


def test_writes_into_out_and_honours_noop() -> None:
    """The arrays given are the ones written, all of them and, with noop, none."""
    x = _values((64, 64), "bf16")
    expected = cutedsl_quant.quantize(x)
    names = ("rowwise_data", "rowwise_scale_inv", "columnwise_data", "columnwise_scale_inv")
    arrays = {name: np.full_like(_codes(getattr(expected, name)), 0xAA) for name in names}
    out = cutedsl_quant.Quantized(**arrays)
    for noop, written in ((1.0, False), (0.0, True)):
        flag = np.array([noop], np.float32)
        assert cutedsl_quant.quantize(x, out=out, noop=flag) is out
        for name in names:
            want = _codes(getattr(expected, name)) if written else np.uint8(0xAA)
            assert (arrays[name] == want).all(), (noop, name)


def test_reads_what_is_read_only() -> None:
    """Arrays mapped from files are; DLPack before 1.0 refuses to export them."""
    x = _values((32, 64), "bf16")
    expected = cutedsl_quant.quantize(x)
    x.flags.writeable = False
    q = cutedsl_quant.quantize(x)
    np.testing.assert_array_equal(_codes(q.rowwise_data), _codes(expected.rowwise_data))


class DlpackArray:
    """Nothing but the protocol."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape = array.shape

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_other_dlpack_arrays_get_tensors_of_tvm_ffi() -> None:
    """Frameworks that this package does not know."""
    x = _values((33, 70), "fp16")
    expected = cutedsl_quant.quantize(x)
    q = cutedsl_quant.quantize(DlpackArray(x))
    assert isinstance(q.rowwise_data, tvm_ffi.Tensor)
    assert str(q.rowwise_data.dtype) == "float8_e4m3fn"
    assert str(q.rowwise_scale_inv.dtype) == "float8_e8m0fnu"
    y = np.from_dlpack(cutedsl_quant.dequantize(q))
    np.testing.assert_array_equal(y, cutedsl_quant.dequantize(expected))


def test_empty_arrays() -> None:
    """Zero elements are a success that writes nothing."""
    for shape in ((0, 64), (64, 0), (0,)):
        q = cutedsl_quant.quantize(np.zeros(shape, np.float32))
        assert q.rowwise_data.shape == shape
        assert cutedsl_quant.dequantize(q).shape == shape


def _ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


_READ_ONLY = _ones(1)
_READ_ONLY.flags.writeable = False

_REFUSALS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a strided array": (
        lambda: cutedsl_quant.quantize(_ones(64, 64)[:, ::2]),
        ValueError,
        r"input of shape \(64, 32\) has strides \(64, 2\)",
    ),
    "a transposed array": (
        lambda: cutedsl_quant.quantize(_ones(32, 64).T),
        ValueError,
        r"input of shape \(64, 32\) has strides \(1, 64\)",
    ),
    "a list": (lambda: cutedsl_quant.quantize([1.0]), TypeError, "x is a list"),
    **{
        f"elements of {np.dtype(dtype)}": (
            lambda dtype=dtype: cutedsl_quant.quantize(np.ones((4, 4), dtype)),
            ValueError,
            f"quantize: x has dtype {np.dtype(dtype)}; float32, float16, bfloat16 are accepted",
        )
        # uint16 is what bfloat16 is handed over as.
        for dtype in (np.float64, np.int32, np.uint16, np.complex64, ml_dtypes.float8_e4m3fn)
    },
    "complex numbers from another framework": (
        lambda: cutedsl_quant.quantize(DlpackArray(np.ones(4, np.complex64))),
        ValueError,
        "x has dtype unknown",
    ),
    "an array of another framework that cannot be read": (
        lambda: cutedsl_quant.quantize(DlpackArray(_READ_ONLY)),
        ValueError,
        "x cannot be read",
    ),
    "an unknown activation": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), activation="tanh"),
        ValueError,
        "activation is 'tanh'; relu, gelu",
    ),
    "a derivative": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), activation="dgelu", act_input=_ones(4, 4)),
        ValueError,
        "activation is 'dgelu'; relu, gelu",
    ),
    "act_input without an activation": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), act_input=_ones(4, 4)),
        ValueError,
        "activation is None",
    ),
    "dbias with an activation": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), activation="gelu", dbias=_ones(4)),
        ValueError,
        "derivative is gelu",
    ),
    "act_input of another shape": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), activation="gelu", act_input=_ones(4, 8)),
        ValueError,
        r"act_input has shape \(4, 8\); the shape of grad is \(4, 4\)",
    ),
    "dbias of another type": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), dbias=np.ones(4, np.float16)),
        ValueError,
        "dbias has dtype float16",
    ),
    "noop with an activation": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), activation="gelu", noop=_ones(1)),
        ValueError,
        "noop is given",
    ),
    "objects": (
        lambda: cutedsl_quant.quantize(np.array([None])),
        ValueError,
        "quantize: x has dtype object",
    ),
    "the other byte order": (
        lambda: cutedsl_quant.quantize(np.ones(4, ">f4")),
        ValueError,
        "quantize: x cannot be read",
    ),
    "another FP8 type": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), fp8_dtype="e3m4"),
        ValueError,
        "fp8_dtype is 'e3m4'",
    ),
    "no direction": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), rowwise=False, columnwise=False),
        ValueError,
        "neither rowwise_data nor columnwise_data",
    ),
    "an amax of another shape": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), amax=_ones(2)),
        ValueError,
        "amax",
    ),
    "an amax of another type": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), amax=np.ones(1, ml_dtypes.bfloat16)),
        ValueError,
        "amax has dtype bfloat16; float32 is accepted",
    ),
    "an amax that cannot be written": (
        lambda: cutedsl_quant.quantize(_ones(4, 4), amax=_READ_ONLY),
        ValueError,
        "amax cannot be written",
    ),
    "an output of another shape": (
        lambda: cutedsl_quant.quantize(
            _ones(4, 64), out=cutedsl_quant.quantize(_ones(4, 32), columnwise=False)
        ),
        ValueError,
        "rowwise_data has shape",
    ),
    "an output of another FP8 type": (
        lambda: cutedsl_quant.quantize(
            _ones(4, 32),
            out=dataclasses.replace(
                cutedsl_quant.quantize(_ones(4, 32), fp8_dtype="e5m2"), fp8_dtype="e4m3"
            ),
        ),
        ValueError,
        "out.rowwise_data has dtype float8_e5m2; float8_e4m3fn, uint8 are accepted",
    ),
    "FP8 data of another type": (
        lambda: cutedsl_quant.dequantize(
            dataclasses.replace(
                cutedsl_quant.quantize(_ones(4, 32), fp8_dtype="e5m2"), fp8_dtype="e4m3"
            )
        ),
        ValueError,
        "q.rowwise_data has dtype float8_e5m2; float8_e4m3fn, uint8 are accepted",
    ),
    "data for scales": (
        lambda: cutedsl_quant.dequantize(
            cutedsl_quant.Quantized(*[np.ones((4, 32), ml_dtypes.float8_e4m3fn)] * 2, None, None)
        ),
        ValueError,
        "q.rowwise_scale_inv has dtype float8_e4m3fn",
    ),
    "nothing to dequantize": (
        lambda: cutedsl_quant.dequantize(cutedsl_quant.Quantized(None, None, None, None)),
        ValueError,
        "neither rowwise nor columnwise data",
    ),
    "dequantize into integers": (
        lambda: cutedsl_quant.dequantize(cutedsl_quant.quantize(_ones(4, 4)), "int8"),
        ValueError,
        "dtype is 'int8'",
    ),
    "another mode": (lambda: cutedsl_quant.set_backend_mode("fast"), ValueError, '"fast"'),
}


@pytest.mark.parametrize("name", _REFUSALS)
def test_refuses(name: str) -> None:
    """Each with a message that names the argument; a wrong kind of error would not be caught."""
    call, error, message = _REFUSALS[name]
    with pytest.raises(error, match=message):
        call()


def test_statistics() -> None:
    """Calls are counted by backend, and misses by reason."""
    cutedsl_quant.reset_stats()
    assert set(cutedsl_quant.stats().values()) == {0}
    cutedsl_quant.quantize(_ones(32, 64))
    nonzero = {name: count for name, count in cutedsl_quant.stats().items() if count}
    assert nonzero == {"calls.reference": 1, "misses.host_tensor": 1}


def test_no_packages_here() -> None:
    """The list is empty where there are none, not an error."""
    assert cutedsl_quant.packages() == []


@pytest.fixture
def restored_mode() -> Iterator[None]:
    mode = cutedsl_quant.backend_mode()
    yield
    cutedsl_quant.set_backend_mode(mode)


@pytest.mark.usefixtures("restored_mode")
def test_modes() -> None:
    """What is set is what is told."""
    for mode in ("off", "jit", "packaged"):
        cutedsl_quant.set_backend_mode(mode)
        assert cutedsl_quant.backend_mode() == mode


Compile = Callable[[QuantizeConfig, int], tvm_ffi.Function]


def _use_compiler(monkeypatch: pytest.MonkeyPatch, compile_function: Compile) -> None:
    """Puts another in CuTeDSL's place."""
    compiler = types.ModuleType("cutedsl.compiler")
    compiler.compile_function = compile_function
    monkeypatch.setitem(sys.modules, "cutedsl.compiler", compiler)
    monkeypatch.setattr("cutedsl.compiler", compiler, raising=False)


_FACTORY = "cutedsl_quant.compile_kernel"
_CONFIG = QuantizeConfig(dtype="bf16", fp8_dtype="fp8_e4m3fn", rowwise=True)


def test_the_compiler_is_there_where_the_environment_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A variable that says to compile, and nobody who does: the factory is there from the import
    on, passes on the configuration, and gives back the plain function."""
    made = tvm_ffi.convert(lambda *args: None)
    asked = []

    def compile_function(config: QuantizeConfig, capability: int) -> tvm_ffi.Function:
        asked.append((config, capability))
        return made

    _use_compiler(monkeypatch, compile_function)
    assert tvm_ffi.get_global_func(_FACTORY)(_CONFIG.name, 90).same_as(made)
    assert asked == [(_CONFIG, 90)]


def test_an_interrupted_compilation_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """KeyboardInterrupt has no text, which would leave an empty line in recent_errors."""

    def compile_function(config: QuantizeConfig, capability: int) -> tvm_ffi.Function:
        raise KeyboardInterrupt

    _use_compiler(monkeypatch, compile_function)
    with pytest.raises(RuntimeError, match="interrupted"):
        tvm_ffi.get_global_func(_FACTORY)(_CONFIG.name, 90)


def test_another_compiler_is_left_in_place() -> None:
    """A process that brought its own before the import keeps it."""
    code = f"""
import tvm_ffi
tvm_ffi.register_global_func({_FACTORY!r}, lambda name, capability: 'mine')
import cutedsl_quant
assert tvm_ffi.get_global_func({_FACTORY!r})('', 90) == 'mine'
"""
    _run_python(code)


@pytest.mark.usefixtures("restored_mode")
def test_enable_jit_sets_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch that switches nothing."""
    _use_compiler(monkeypatch, lambda config, capability: None)
    cutedsl_quant.enable_jit()
    assert cutedsl_quant.backend_mode() == "jit"


@pytest.mark.usefixtures("restored_mode")
def test_enable_jit_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing compiler is one clear line, and the mode stays."""
    monkeypatch.setitem(sys.modules, "cutedsl.compiler", None)
    monkeypatch.delattr("cutedsl.compiler", raising=False)
    mode = cutedsl_quant.backend_mode()
    with pytest.raises(ImportError, match=r"enable_jit needs .* nvidia-cutlass-dsl"):
        cutedsl_quant.enable_jit()
    assert cutedsl_quant.backend_mode() == mode


def _run_python(code: str, **environment: str) -> None:
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)} | environment,
    )


def test_importing_the_face_does_not_import_the_compiler() -> None:
    """CuTeDSL takes most of a second to import, and need not be installed."""
    _run_python(
        "import cutedsl_quant, sys; sys.exit('cutlass' in sys.modules or 'cutedsl' in sys.modules)"
    )


def test_calls_let_go_of_the_interpreter() -> None:
    """A call that waits for another thread's compilation with the GIL held waits for ever."""
    _run_python(
        "from cutedsl_quant._library import library\n"
        "assert library.quantize.release_gil and library.quantize_fused.release_gil",
        TVM_FFI_RELEASE_GIL_BY_DEFAULT="0",
    )
