"""The CPU reference against the numpy oracle: two independent readings of the specification."""

from __future__ import annotations

import ctypes
import pathlib

import numpy as np
import pytest

from cutedsl import config as configs
from cutedsl import reference

POISON = 0xA5
SHAPES = ((1, 1), (33, 47), (128, 128), (130, 97), (1, 300), (300, 1), (257, 512))
CASTS = [config for config in configs.all_legal_configs() if config.is_cast]
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


@pytest.mark.parametrize("config", CASTS, ids=lambda config: config.name)
def test_quantize(library: ctypes.CDLL, config: configs.QuantizeConfig) -> None:
    """Catches any byte of data, scales, padding or amax on which the two readings differ."""
    rng = np.random.default_rng(config.id)
    for shape in SHAPES:
        for exact_scales in (False,) if config.swizzled else (False, True):
            x = random_input(config.dtype, shape, rng)
            expected = reference.allocate(config, *shape, fill=POISON, exact_scales=exact_scales)
            actual = reference.allocate(config, *shape, fill=POISON, exact_scales=exact_scales)
            reference.quantize(x, config, expected)
            message = library.TestQuantize(
                ctypes.c_uint32(config.id),
                matrix(x),
                matrix(actual.rowwise_data),
                matrix(actual.rowwise_scale_inv),
                matrix(actual.columnwise_data),
                matrix(actual.columnwise_scale_inv),
                pointer(actual.amax),
                pointer(None),
            )
            assert message is None
            for name, want in vars(expected).items():
                np.testing.assert_array_equal(
                    getattr(actual, name), want, err_msg=f"{name}, {shape}, {exact_scales=}"
                )


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
        ctypes.c_uint32(config.id), *[nothing] * 5, pointer(None), pointer(None)
    )
    assert b"input is not given" in message
