"""The numpy oracle against golden values and against an independent scalar one."""

from __future__ import annotations

import dataclasses
import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from cutedsl import reference
from cutedsl.config import (
    ACTIVATIONS,
    DERIVATIVES,
    DTYPE_CODES,
    FP8_DTYPE_CODES,
    QuantizeConfig,
    all_legal_configs,
    config_sets,
)
from tests.cutedsl import scalar_oracle

FP8_DTYPES = tuple(FP8_DTYPE_CODES)
SHAPES = [(1, 16), (1, 32), (31, 48), (32, 32), (33, 96), (64, 16), (130, 272), (5, 7), (129, 1)]

INF = math.inf
# (format, first elements of the block, scale, first codes); the rest of the block is zero.
GOLDEN = [
    ("fp8_e4m3fn", [0.0, -0.0], 0x00, "00 80"),
    ("fp8_e4m3fn", [448, 1, -448], 0x7F, "7e 38 fe"),
    ("fp8_e4m3fn", [450, 448, 1], 0x80, "76 76 30"),
    ("fp8_e4m3fn", [448, 17, 19, -18], 0x7F, "7e 58 5a d9"),
    ("fp8_e4m3fn", [INF, -INF, 1, 3e38], 0xFE, "7e fe 00 3e"),
    ("fp8_e5m2", [448, 1, -448], 0x78, "7b 58 fb"),
    ("fp8_e5m2", [INF, -INF], 0xFE, "7b fb"),
    ("fp8_e4m3fn", [math.nan, 448, -1], 0x7F, "7f 7e b8"),
    ("fp8_e4m3fn", [math.nan] * 32, 0x00, " ".join(["7f"] * 32)),
]
BF16_GOLDEN = [
    ([2.6331e-36], 0x00, "7e"),
    ([2.6449e-36, 1e-37], 0x01, "76 50"),
    ([9.18e-41], 0x00, "08"),
    ([3.3895e38, 1], 0xF7, "78 00"),
]


def one_block(elements, dtype=np.float32) -> np.ndarray:
    block = np.zeros((1, 32), dtype)
    block[0, : len(elements)] = np.array(elements, np.float32).astype(dtype)
    return block


def all_bf16() -> np.ndarray:
    """All 65,536 bit patterns as float32."""
    return np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)


def assert_matches_scalar_oracle(values: np.ndarray, fp8_dtype: str) -> None:
    codes, scales = reference.quantize_blocks(values, fp8_dtype, columnwise=False)
    for row in range(values.shape[0]):
        for block, start in enumerate(range(0, values.shape[1], 32)):
            elements = values[row, start : start + 32].tolist()
            scale, expected = scalar_oracle.quantize_block(elements, fp8_dtype)
            assert scales[row, block] == scale, elements
            assert codes[row, start : start + 32].tolist() == expected, elements


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_golden_values(case):
    """Would catch any change of the numerics that both oracles share."""
    fp8_dtype, elements, scale, codes = case
    data, scales = reference.quantize_blocks(one_block(elements), fp8_dtype, columnwise=False)
    assert scales.tolist() == [[scale]]
    assert data[0, : len(elements)].tobytes().hex(" ") == codes
    assert not data[0, len(elements) :].any()


@pytest.mark.parametrize("case", BF16_GOLDEN, ids=str)
def test_golden_values_of_bf16(case):
    """Would catch flushed subnormals, and scales wrong at both ends of the exponents."""
    elements, scale, codes = case
    config = QuantizeConfig("bf16", "fp8_e4m3fn", rowwise=True)
    out = reference.allocate(config, 1, 32, exact_scales=True)
    reference.quantize(one_block(elements, reference.DTYPES["bf16"]), config, out)
    assert out.rowwise_scale_inv.tolist() == [[scale]]
    assert out.rowwise_data[0, : len(elements)].tobytes().hex(" ") == codes


@pytest.mark.parametrize("fp8_dtype", FP8_DTYPES)
def test_every_bf16_as_maximum(fp8_dtype):
    """Would catch a scale that is off anywhere between zero, subnormals, NaN and infinity."""
    values = np.zeros((1 << 16, 2), np.float32)
    values[:, 0] = all_bf16()
    values[:, 1] = np.roll(values[:, 0], 1 << 14)
    assert_matches_scalar_oracle(values, fp8_dtype)


@pytest.mark.parametrize("fp8_dtype", FP8_DTYPES)
@pytest.mark.parametrize("maximum", [448.0, 449.0, 1e-38, 3e38])
def test_every_bf16_as_element(fp8_dtype, maximum):
    """Would catch wrong rounding, saturation, signed zeros or NaN codes."""
    values = np.full((2048, 33), maximum, np.float32)
    values[:, :32] = all_bf16().reshape(-1, 32)
    # Neighbours in a block are mostly of like size; what is larger than the maximum is cut off.
    values[:, :32] = np.where(np.abs(values[:, :32]) > maximum, -0.0, values[:, :32])
    values[:, 31] = maximum
    assert_matches_scalar_oracle(values, fp8_dtype)


@pytest.mark.parametrize("fp8_dtype", FP8_DTYPES)
def test_fp32_round_up_edges(fp8_dtype):
    """Would catch a scale rounded at the wrong last bit: quotients around every power of two."""
    limit = np.float32(reference.FP8_MAX[fp8_dtype])
    with np.errstate(over="ignore", under="ignore"):
        powers = np.ldexp(limit, np.arange(-160, 121)).astype(np.float32)
    bits = powers[np.isfinite(powers)].view(np.int32)
    around = np.maximum(bits[:, None] + np.arange(-3, 4), 0).astype(np.int32).view(np.float32)
    assert_matches_scalar_oracle(around.reshape(-1, 1), fp8_dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("fp8_dtype", FP8_DTYPES)
def test_blocks_of_both_directions(shape, fp8_dtype):
    """Would catch blocks that reach over an edge or lie along the wrong axis."""
    m, n = shape
    values = np.random.default_rng(m * 1000 + n).normal(0, 30, shape).astype(np.float32)
    rows, row_scales = reference.quantize_blocks(values, fp8_dtype, columnwise=False)
    columns, column_scales = reference.quantize_blocks(values, fp8_dtype, columnwise=True)
    for i, j in itertools.product(range(m), range(0, n, 32)):
        scale, codes = scalar_oracle.quantize_block(values[i, j : j + 32].tolist(), fp8_dtype)
        assert (row_scales[i, j // 32], rows[i, j : j + 32].tolist()) == (scale, codes)
    for i, j in itertools.product(range(0, m, 32), range(n)):
        scale, codes = scalar_oracle.quantize_block(values[i : i + 32, j].tolist(), fp8_dtype)
        assert (column_scales[i // 32, j], columns[i : i + 32, j].tolist()) == (scale, codes)


def test_swizzled_order():
    """Would catch an error in the formula: here the order is spelled out as nested loops."""
    row_tiles, block_tiles = 3, 2
    offset = 0
    for row_tile, block_tile in itertools.product(range(row_tiles), range(block_tiles)):
        for row, quarter, block in itertools.product(range(32), range(4), range(4)):
            i = row_tile * 128 + quarter * 32 + row
            j = block_tile * 4 + block
            assert reference.swizzled_index(i, j, block_tiles) == offset
            offset += 1


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("columnwise", [False, True])
def test_scale_buffers(shape, columnwise):
    """Would catch lost or misplaced scales, padding that is not zero, or touched bytes outside."""
    m, n = shape
    exact = reference.scale_shape(m, n, columnwise=columnwise, exact=True)
    padded = reference.scale_shape(m, n, columnwise=columnwise)
    scales = np.random.default_rng(0).integers(1, 255, exact).astype(np.uint8)
    for swizzled, buffer_shape in ((False, exact), (False, padded), (True, padded)):
        buffer = np.full(buffer_shape, 0xAA, np.uint8)
        reference.write_scales(scales, buffer, columnwise=columnwise, swizzled=swizzled)
        read = reference.read_scales(buffer, m, n, columnwise=columnwise, swizzled=swizzled)
        assert (read == scales).all()
        outside = buffer.size - scales.size
        assert (buffer == (0 if swizzled else 0xAA)).sum() == outside + (
            0 if swizzled else (scales == 0xAA).sum()
        )


@pytest.mark.parametrize("config", config_sets()["cast"], ids=lambda config: config.name)
def test_quantize(config):
    """Would catch a direction, layout or amax that a configuration asks for and does not get."""
    m, n = 70, 144
    values = np.random.default_rng(1).normal(0, 3, (2, m // 2, n))
    x = values.astype(np.float32).astype(reference.DTYPES[config.dtype])
    out = reference.allocate(config, m, n, fill=0xAA)
    reference.quantize(x, config, out)
    wide = reference.as_matrix(x).astype(np.float32)
    for wanted, columnwise, data, scale_inv in (
        (config.rowwise, False, out.rowwise_data, out.rowwise_scale_inv),
        (config.colwise, True, out.columnwise_data, out.columnwise_scale_inv),
    ):
        if not wanted:
            assert data is None and scale_inv is None
            continue
        codes, scales = reference.quantize_blocks(wide, config.fp8_dtype, columnwise=columnwise)
        layout = {"columnwise": columnwise, "swizzled": config.swizzled}
        assert (data == codes).all()
        assert (reference.read_scales(scale_inv, m, n, **layout) == scales).all()
        back = reference.dequantize(data, scale_inv, config.fp8_dtype, "fp32", **layout)
        # Half a step of the largest binade: 2^-4 and 2^-3 of the block's maximum.
        bound = np.abs(wide).max() * (2.0**-4 if config.fp8_dtype == "fp8_e4m3fn" else 2.0**-3)
        assert np.abs(back - wide).max() <= bound
    assert (out.amax is not None) == config.with_amax
    if config.with_amax:
        assert out.amax[0] == np.abs(wide).max()


def test_amax_only_rises():
    """Would catch an amax that is overwritten, or poisoned by NaN."""
    config = QuantizeConfig("fp32", "fp8_e4m3fn", rowwise=True, with_amax=True)
    for start, block, expected in (
        (5.0, [3.0, -4.0], 5.0),
        (5.0, [3.0, -6.0], 6.0),
        (0.0, [math.nan, 2.0], 2.0),
        (0.0, [math.nan] * 32, 0.0),
        (1.0, [-INF], INF),
    ):
        out = reference.allocate(config, 1, 32)
        out.amax[0] = start
        reference.quantize(one_block(block), config, out)
        assert out.amax[0] == expected


@pytest.mark.parametrize("noop, written", [(None, True), (0.0, True), (2.0, True), (1.0, False)])
def test_noop(noop, written):
    """Would catch a flag that is ignored, or taken for set when it is only not zero."""
    config = QuantizeConfig(
        "fp32", "fp8_e4m3fn", rowwise=True, colwise=True, swizzled=True, with_amax=True
    )
    out = reference.allocate(config, 1, 32, fill=0xAA)
    reference.quantize(one_block([1.0]), config, out, noop=noop)
    for buffer in (
        out.rowwise_data,
        out.rowwise_scale_inv,
        out.columnwise_data,
        out.columnwise_scale_inv,
    ):
        assert (buffer != 0xAA).any() == written
    assert out.amax[0] == (1.0 if written else 0.0)


def test_nothing_to_do():
    """Would catch an error for tensors without elements."""
    config = QuantizeConfig("fp32", "fp8_e4m3fn", rowwise=True, colwise=True, with_amax=True)
    for m, n in ((0, 32), (32, 0)):
        out = reference.allocate(config, m, n)
        reference.quantize(np.zeros((m, n), np.float32), config, out)
        assert out.amax[0] == 0


def test_dequantize_special_scales():
    """Would catch NaN scales, 2^-127 or 2^127 decoded wrongly."""
    data = np.array([[0x38, 0xB8, 0x7F, 0x80]], np.uint8)  # 1, -1, NaN, -0
    for code, one in ((0xFF, math.nan), (0x00, 2.0**-127), (0xFE, 2.0**127), (0x7F, 1.0)):
        out = reference.dequantize(
            data,
            np.array([[code]], np.uint8),
            "fp8_e4m3fn",
            "fp32",
            columnwise=False,
            swizzled=False,
        )
        np.testing.assert_array_equal(out, np.array([[one, -one, math.nan, -0.0 * one]], "f"))


def test_quantize_refuses():
    """Would catch an input of another type that is cast silently, or a fusion left out."""
    config = QuantizeConfig("bf16", "fp8_e4m3fn", rowwise=True)
    with pytest.raises(ValueError, match=r"float32.*bf16"):
        reference.quantize(one_block([1.0]), config, reference.allocate(config, 1, 32))
    dact = QuantizeConfig("fp32", "fp8_e4m3fn", rowwise=True, with_dact=True, activation="drelu")
    block = one_block([1.0])
    for config, act_input in (
        (dact, None),
        (dataclasses.replace(dact, with_dact=False, activation="none"), block),
        (dact, block.astype(np.float16)),
        (dact, block[:, :16]),
    ):
        with pytest.raises(ValueError, match="act_input"):
            reference.quantize(
                block, config, reference.allocate(config, 1, 32), act_input=act_input
            )


@pytest.mark.parametrize("token", [*ACTIVATIONS, *DERIVATIVES])
def test_activations(token):
    """Would catch a wrong constant, sign or factor; the oracle has other forms of the formulas."""
    x = np.concatenate(
        [np.linspace(-12, 12, 4001), np.geomspace(1e-30, 1e15, 400), -np.geomspace(1e-30, 80, 400)]
    ).astype(np.float32)
    expected = np.array([scalar_oracle.ACTIVATIONS[token](value) for value in x.tolist()])
    actual = reference.activate(token, x)
    assert actual.dtype == np.float32
    if token.endswith("relu"):
        np.testing.assert_array_equal(actual, expected.astype(np.float32))
    else:
        np.testing.assert_allclose(actual, expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("token", [*ACTIVATIONS, *DERIVATIVES])
def test_activations_of_special_values(token):
    """Would catch a NaN that a rectifier lets through, and a zero or infinity gone wrong."""
    x = np.array([0.0, -0.0, math.nan, INF, -INF], np.float32)
    rectified_infinity = {"relu": INF, "srelu": INF, "drelu": 1.0, "dsrelu": INF}
    if token in rectified_infinity:
        expected = [0.0, 0.0, 0.0, rectified_infinity[token], 0.0]
    elif token in ACTIVATIONS:
        expected = [0.0, -0.0, math.nan, INF, math.nan]
    else:
        expected = [0.5, 0.5, math.nan, math.nan, math.nan]
    actual = reference.activate(token, x)
    np.testing.assert_array_equal(actual, np.array(expected, np.float32))
    np.testing.assert_array_equal(np.signbit(actual[:2]), np.signbit(expected[:2]))


FUSED = [
    config
    for config in all_legal_configs()
    if not config.is_cast and config.fp8_dtype == "fp8_e4m3fn" and config.colwise
]


@pytest.mark.parametrize("config", FUSED, ids=lambda config: config.name)
def test_fusions(config):
    """Would catch a step left out or done in another order: the cast of rounded values is exact.

    The fusion is done here step by step.
    """
    m, n = 150, 48
    rng = np.random.default_rng(2)
    dtype = reference.DTYPES[config.dtype]
    x, act_input = (rng.normal(0, 2, (m, n)).astype(np.float32).astype(dtype) for _ in range(2))
    values = x.astype(np.float32)
    if config.with_act:
        values = reference.activate(config.activation, values)
    if config.with_dact:
        values = values * reference.activate(config.activation, act_input.astype(np.float32))
    rounded = values.astype(dtype).astype(np.float32)

    cast = dataclasses.replace(
        config, with_act=False, with_dact=False, with_dbias=False, activation="none"
    )
    out = reference.allocate(config, m, n, fill=0xAA)
    expected = reference.allocate(cast, m, n, fill=0xAA)
    # Fusions ignore the flag.
    extra = {"act_input": act_input} if config.with_dact else {}
    reference.quantize(x, config, out, noop=1.0, **extra)
    reference.quantize(rounded.astype(dtype), cast, expected)
    for field in dataclasses.fields(reference.Quantized):
        if field.name != "dbias":
            actual = getattr(out, field.name)
            np.testing.assert_array_equal(actual, getattr(expected, field.name), field.name)
    assert (out.dbias is not None) == config.with_dbias
    if config.with_dbias:
        exact = values.astype(np.float64).sum(axis=0)
        unit = {"fp32": 2.0**-20, "fp16": 2.0**-11, "bf16": 2.0**-8}[config.dtype]
        assert out.dbias.dtype == dtype
        np.testing.assert_allclose(out.dbias.astype(np.float64), exact, rtol=unit, atol=1e-3)


def test_dbias_partials():
    """Would catch sums over chunks of another height, or a ragged last chunk left out."""
    values = np.arange(150 * 3, dtype=np.float32).reshape(150, 3)
    for chunk in (64, 128):
        partials = reference.dbias_partials(values, chunk)
        assert partials.dtype == np.float32
        expected = [values[i : i + chunk].sum(axis=0) for i in range(0, 150, chunk)]
        np.testing.assert_array_equal(partials, expected)


@pytest.mark.parametrize("dtype", DTYPE_CODES)
def test_dbias_of_nothing(dtype):
    """Would catch a dbias left as it was where there is nothing to add up."""
    config = QuantizeConfig(dtype, "fp8_e4m3fn", rowwise=True, with_dbias=True)
    out = reference.allocate(config, 0, 32, fill=0xAA)
    reference.quantize(np.zeros((0, 32), reference.DTYPES[dtype]), config, out)
    assert not out.dbias.astype(np.float32).any()
