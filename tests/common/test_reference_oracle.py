"""The CPU reference against the numpy oracle: two independent readings of the specification."""

from __future__ import annotations

import ctypes
import pathlib

import ml_dtypes
import numpy as np
import pytest

from cutedsl import config as configs
from cutedsl import reference

POISON = 0xA5
SHAPES = ((1, 1), (33, 47), (128, 128), (130, 97), (1, 300), (300, 1), (257, 512))
CASTS = [config for config in configs.all_legal_configs() if config.is_cast]
# The element-wise functions that have one right result in fp32.
EXACT_FUNCTIONS = ("none", "relu", "srelu", "drelu", "dsrelu")
FUSIONS = [config for config in configs.all_legal_configs() if not config.is_cast]
EXACT_FUSIONS = [config for config in FUSIONS if config.activation in EXACT_FUNCTIONS]
SMOOTH_FUSIONS = [config for config in FUSIONS if config.activation not in EXACT_FUNCTIONS]
# Of elements and scales where an exponential is involved; all the others are the same.
SHARE_OF_DIFFERENCES = 1e-4
ONE_DIRECTION = [c for c in CASTS if c.rowwise != c.colwise and not c.with_amax]


class Matrix(ctypes.Structure):
    """Matrix of quantize_c.cc."""

    _fields_ = (("data", ctypes.c_void_p), ("rows", ctypes.c_int64), ("cols", ctypes.c_int64))


def matrix(array: np.ndarray | None) -> Matrix:
    if array is None:
        return Matrix(None, 0, 0)
    return Matrix(array.ctypes.data, *array.shape)


def pointer(array: np.ndarray | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(pathlib.Path(__file__).parent / "libquantize_c.so"))
    loaded.TestQuantize.restype = loaded.TestDequantize.restype = ctypes.c_char_p
    return loaded


def random_input(dtype: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Any bit pattern may come: infinities, NaN with payloads and subnormals among them."""
    numpy_dtype = reference.DTYPES[dtype]
    raw = rng.integers(0, 256, (*shape, numpy_dtype.itemsize), np.uint8)
    wild = raw.view(numpy_dtype)[..., 0]
    with np.errstate(over="ignore"):
        scale = np.exp2(rng.integers(-20, 20, (shape[0], 1)))
        tame = (rng.standard_normal(shape) * scale).astype(numpy_dtype)
    return np.where(rng.random(shape) < 0.05, wild, tame)


def quantize_with_both(
    library: ctypes.CDLL,
    config: configs.QuantizeConfig,
    x: np.ndarray,
    act_input: np.ndarray | None = None,
    *,
    exact_scales: bool = False,
) -> tuple[reference.Quantized, reference.Quantized]:
    """What the CPU reference and the oracle leave in poisoned buffers."""
    actual = reference.allocate(config, *x.shape, fill=POISON, exact_scales=exact_scales)
    expected = reference.allocate(config, *x.shape, fill=POISON, exact_scales=exact_scales)
    message = library.TestQuantize(
        ctypes.c_uint32(config.id),
        matrix(x),
        matrix(act_input),
        matrix(actual.rowwise_data),
        matrix(actual.rowwise_scale_inv),
        matrix(actual.columnwise_data),
        matrix(actual.columnwise_scale_inv),
        pointer(actual.amax),
        matrix(None if actual.dbias is None else actual.dbias.reshape(1, -1)),
        pointer(None),
    )
    assert message is None
    reference.quantize(x, config, expected, act_input=act_input)
    return actual, expected


def assert_same(actual: reference.Quantized, expected: reference.Quantized) -> None:
    for name, want in vars(expected).items():
        np.testing.assert_array_equal(getattr(actual, name), want, err_msg=name)


@pytest.mark.parametrize("config", CASTS, ids=lambda config: config.name)
def test_quantize(library: ctypes.CDLL, config: configs.QuantizeConfig) -> None:
    """Catches any byte of data, scales, padding or amax on which the two readings differ."""
    rng = np.random.default_rng(config.id)
    for shape in SHAPES:
        for exact_scales in (False,) if config.swizzled else (False, True):
            x = random_input(config.dtype, shape, rng)
            assert_same(*quantize_with_both(library, config, x, exact_scales=exact_scales))


@pytest.mark.parametrize("config", EXACT_FUSIONS, ids=lambda config: config.name)
def test_exact_fusions(library: ctypes.CDLL, config: configs.QuantizeConfig) -> None:
    """Catches a fusion of which any byte is not what the steps of the specification give."""
    rng = np.random.default_rng(config.id)
    for shape in ((1, 1), (33, 47), (300, 97)):
        x = random_input(config.dtype, shape, rng)
        act_input = random_input(config.dtype, shape, rng) if config.with_dact else None
        actual, expected = quantize_with_both(library, config, x, act_input)
        actual.dbias = expected.dbias = None  # sums of anything depend on the order of additions
        assert_same(actual, expected)

        # These do not: sums of small multiples of one number are exact.
        numpy_dtype = reference.DTYPES[config.dtype]
        x = (rng.integers(-64, 64, shape) / 16).astype(numpy_dtype)
        if config.with_dact:
            act_input = (rng.integers(-64, 64, shape) / 16).astype(numpy_dtype)
        assert_same(*quantize_with_both(library, config, x, act_input))


def assert_close(
    actual: reference.Quantized, expected: reference.Quantized, *, columnwise: bool, swizzled: bool
) -> None:
    """One direction: few scales and elements differ, and by one code."""
    direction = "columnwise" if columnwise else "rowwise"
    codes, scales = [], []
    for quantized in (actual, expected):
        data = getattr(quantized, direction + "_data")
        buffer = getattr(quantized, direction + "_scale_inv")
        codes.append(data.astype(np.int16))
        scales.append(
            reference.read_scales(
                buffer, *data.shape, columnwise=columnwise, swizzled=swizzled
            ).astype(np.int16)
        )
    scale_steps = np.abs(scales[0] - scales[1])
    assert scale_steps.max() <= 1
    assert np.count_nonzero(scale_steps) <= SHARE_OF_DIFFERENCES * scale_steps.size + 1
    # Codes of one sign are ordered as their values are. Elements of a block with another scale are
    # other codes altogether.
    axis = 0 if columnwise else 1
    comparable = np.repeat(scale_steps == 0, reference.BLOCK, axis)
    comparable = comparable[: codes[0].shape[0], : codes[0].shape[1]]
    steps = np.where(comparable, np.abs(codes[0] - codes[1]), 0)
    assert steps.max() <= 1
    assert np.count_nonzero(steps) <= SHARE_OF_DIFFERENCES * steps.size + 1


@pytest.mark.parametrize("config", SMOOTH_FUSIONS, ids=lambda config: config.name)
def test_smooth_fusions(library: ctypes.CDLL, config: configs.QuantizeConfig) -> None:
    """Catches a function that is not the one asked for, or off by more than its last bits."""
    rng = np.random.default_rng(config.id)
    numpy_dtype = reference.DTYPES[config.dtype]
    for shape in ((33, 47), (130, 193)):
        x = rng.normal(0, 3, shape).astype(numpy_dtype)
        act_input = rng.normal(0, 3, shape).astype(numpy_dtype) if config.with_dact else None
        actual, expected = quantize_with_both(library, config, x, act_input)
        if config.rowwise:
            assert_close(actual, expected, columnwise=False, swizzled=config.swizzled)
        if config.colwise:
            assert_close(actual, expected, columnwise=True, swizzled=config.swizzled)
        unit = np.float32(ml_dtypes.finfo(numpy_dtype).eps)
        if config.with_amax:
            np.testing.assert_allclose(actual.amax, expected.amax, rtol=2 * unit)
        if config.with_dbias:
            magnitudes = np.abs(reference.fused_values(x, config, act_input)).sum(axis=0)
            difference = actual.dbias.astype(np.float32) - expected.dbias.astype(np.float32)
            # Rounded sums of so many terms, rounded to the type.
            bound = 1e-5 * magnitudes + unit * np.abs(expected.dbias.astype(np.float32))
            assert np.all(np.abs(difference) <= bound)


@pytest.mark.parametrize("token", configs.ACTIVATIONS + configs.DERIVATIVES)
@pytest.mark.parametrize("dtype", configs.DTYPE_CODES)
def test_special_values(library: ctypes.CDLL, token: str, dtype: str) -> None:
    """Catches a NaN, an infinity or a zero that a function turns into something else."""
    is_derivative = token in configs.DERIVATIVES
    config = configs.QuantizeConfig(
        dtype,
        rowwise=True,
        with_act=not is_derivative,
        with_dact=is_derivative,
        activation=token,
    )
    specials = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e4, -1e4], np.float32)
    # Alone in its block each, so that none hides the others; gradients of all kinds.
    act_input = np.zeros((specials.size**2, 32), reference.DTYPES[dtype])
    act_input[:, 0] = np.tile(specials, specials.size)
    if not is_derivative:
        assert_same(*quantize_with_both(library, config, act_input))
        return
    grad = np.ones_like(act_input)
    grad[:, 0] = np.repeat(specials, specials.size)
    assert_same(*quantize_with_both(library, config, grad, act_input))


@pytest.mark.parametrize("config", ONE_DIRECTION, ids=lambda config: config.name)
def test_dequantize(library: ctypes.CDLL, config: configs.QuantizeConfig) -> None:
    """Catches a wrong scale, product or rounding for any pair of element and scale bytes."""
    rng = np.random.default_rng(config.id)
    for shape in SHAPES:
        data = rng.integers(0, 256, shape, np.uint8)
        scale_shape = reference.scale_shape(*shape, columnwise=config.colwise)
        scales = rng.integers(0, 256, scale_shape, np.uint8)
        expected = reference.dequantize(
            data,
            scales,
            config.fp8_dtype,
            config.dtype,
            columnwise=config.colwise,
            swizzled=config.swizzled,
        )
        actual = np.zeros(shape, reference.DTYPES[config.dtype])
        message = library.TestDequantize(
            ctypes.c_uint32(config.id), matrix(data), matrix(scales), matrix(actual)
        )
        assert message is None
        # As fp32, in which NaN equals NaN whatever its bits.
        np.testing.assert_array_equal(actual.astype(np.float32), expected.astype(np.float32))


def test_errors_reach_the_caller(library: ctypes.CDLL) -> None:
    """Catches a harness that compares buffers which no call has written."""
    config = CASTS[0]
    nothing = matrix(None)
    message = library.TestQuantize(
        ctypes.c_uint32(config.id), *[nothing] * 6, pointer(None), nothing, pointer(None)
    )
    assert b"input is not given" in message
