"""The source of the kernels, executed on the host for every architecture: also for those whose GPUs
are at hand nowhere. What compilers make of it is machine_code_test's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from cutedsl import architectures, reference, tuning
from cutedsl.architectures import Architecture
from cutedsl.config import ACTIVATION_CODES, QuantizeConfig
from cutedsl.tuning import Tuning
from tests.cutedsl import emulator

emulator.install()

from cutedsl import activations, pairs  # noqa: E402
from cutedsl.kernels.quantize import Quantize  # noqa: E402
from cutedsl.kernels.strip import StripKernel  # noqa: E402

_FILL = 0xAA
_DIRECTIONS = {"rowwise": (True, False), "columnwise": (False, True), "both": (True, True)}
_FUSIONS = {
    "cast": {},
    "dbias": {"with_dbias": True},
    "gelu": {"with_act": True, "activation": "gelu"},
    "srelu": {"with_act": True, "activation": "srelu"},
    "dgelu": {"with_dact": True, "activation": "dgelu"},
    "dbias_dgelu": {"with_dbias": True, "with_dact": True, "activation": "dgelu"},
    "dbias_dsrelu": {"with_dbias": True, "with_dact": True, "activation": "dsrelu"},
}


@dataclasses.dataclass(frozen=True)
class Case:
    architecture: str
    fusion: str
    dtype: str
    directions: str
    swizzled: bool
    shape: Tuning
    fp8_dtype: str = "fp8_e4m3fn"

    @property
    def config(self) -> QuantizeConfig:
        rowwise, colwise = _DIRECTIONS[self.directions]
        return QuantizeConfig(
            self.dtype,
            self.fp8_dtype,
            rowwise,
            colwise,
            self.swizzled,
            with_amax=True,
            **_FUSIONS[self.fusion],
        )

    def __str__(self) -> str:
        layout = "swizzled" if self.swizzled else "compact"
        size = "large" if self.shape.max_elements is None else "small"
        return "-".join((self.architecture, self.fusion, self.dtype, self.directions, layout, size))


def _cases() -> list[Case]:
    cases = []
    for name, architecture in architectures.ARCHITECTURES.items():
        for fusion in _FUSIONS:
            for dtype in ("fp32", "bf16", "fp16"):
                for directions in _DIRECTIONS:
                    for swizzled in (False, True):
                        case = Case(name, fusion, dtype, directions, swizzled, None)
                        cases += [
                            dataclasses.replace(case, shape=shape)
                            for shape in tuning.choose(case.config, architecture)
                        ]
    return cases


def _values(case: Case, m: int, n: int, seed: int) -> np.ndarray:
    """Many magnitudes, with special values among them; for dbias, whose sums are to be exact, whole
    numbers."""
    random = np.random.default_rng(seed)
    dtype = reference.DTYPES[case.dtype]
    if case.config.with_dbias:
        return random.integers(-8, 8, (m, n)).astype(dtype)
    x = random.normal(size=(m, n)) * np.exp2(random.integers(-20, 12, (m, n)))
    specials = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40)
    places = random.choice(x.size, len(specials) * (1 + x.size // 400), replace=False)
    x.reshape(-1)[places] = np.resize(specials, places.size)
    with np.errstate(over="ignore"):
        return x.astype(dtype)


def _activate(token: str, x: np.ndarray, architecture: Architecture) -> np.ndarray:
    """The kernels' function of fp32 values, whose last bits the oracle does not know."""
    columns = [emulator.Float32(column) for column in np.ascontiguousarray(x.T)]
    values = [activations.apply(token, value) for value in pairs.join(architecture, columns)]
    return np.stack([value.raw for value in pairs.split(values)], axis=1)


def _expect(case: Case, x: np.ndarray, act_input: np.ndarray | None) -> np.ndarray:
    """What is summed up and, rounded, cast."""
    architecture = architectures.get(case.architecture)
    values = x.astype(np.float32)
    with np.errstate(all="ignore"):
        if case.config.with_act:
            return _activate(case.config.activation, values, architecture)
        if case.config.with_dact:
            factors = act_input.astype(np.float32)
            return values * _activate(case.config.activation, factors, architecture)
    return values


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the tensors of a call lie: bytes off an aligned address, and what is there of them."""

    data: int = 0
    scales: int = 0
    exact_scales: bool = True  # for compact ones: not padded
    noop: float | None = None
    rows_before: int = 0  # that the tensors have besides, but are neither there nor computed


class _Tensors:
    """The memory of one call, by the names of its arguments."""

    def __init__(self, case: Case, where: Layout) -> None:
        self._case = case
        self._where = where
        self.memory = emulator.GlobalMemory()
        self._tensors: dict[str, emulator.Tensor] = {}

    def _parts(self, name: str, array: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """The bytes before a part, and the part, for what `array` has of the whole."""
        rows = self._where.rows_before
        if name == "columnwise_scale_inv" and self._case.swizzled:
            # Tiles of 128 columns, each with one of 512 bytes for every 128 rows.
            columns = array.reshape(array.shape[1] // 128, -1)
            tiles_before = rows // 128
            stride = tiles_before * 512 + columns.shape[1]
            return [(i * stride + tiles_before * 512, part) for i, part in enumerate(columns)]
        if name == "columnwise_scale_inv":
            rows //= 32
        if name == "dbias_workspace":
            rows //= self._case.config.dbias_chunk_rows
        if name in ("amax", "noop"):
            rows = 0
        return [(rows * array[:1].nbytes, array)]

    def put(
        self, name: str, array: np.ndarray | None, *, output: bool = True
    ) -> emulator.Tensor | None:
        if array is None:
            return None
        parts = self._parts(name, array)
        size = parts[-1][0] + parts[-1][1].nbytes
        shape = array.shape
        if name in ("input", "act_input"):
            shape = (self._where.rows_before + array.shape[0], array.shape[1])
        offset = 0
        if name.endswith("scale_inv"):
            offset = self._where.scales
        elif name.endswith(("data", "input")):
            offset = self._where.data
        tensor = self.memory.reserve(shape, size, offset)
        for at, part in parts:
            self.memory.put(tensor, at, part, output=output)
        self._tensors[name] = tensor
        return tensor

    def get(self, name: str, like: np.ndarray) -> np.ndarray:
        parts = [
            self.memory.get(self._tensors[name], at, part) for at, part in self._parts(name, like)
        ]
        return np.concatenate(parts).reshape(like.shape)


def _count_blocks(case: Case, m: int, n: int) -> int:
    """How many CTAs the last m rows take, behind others that take whole ones."""
    tile = case.shape
    if tuning.rows_are_independent(case.config) and n % 32 == 0:  # without gaps
        return -(-m * n // (tile.tile_rows * tile.tile_columns))
    if case.swizzled:
        m, n = -(-m // 128) * 128, -(-n // 128) * 128
    return -(-m // tile.tile_rows) * -(-n // tile.tile_columns)


def _compare(case: Case, m: int, n: int, where: Layout) -> None:
    """Runs a kernel, and compares all that it may write."""
    config = case.config
    x = _values(case, m, n, seed=1)
    act_input = _values(case, m, n, seed=2) if config.with_dact else None
    exact_scales = where.exact_scales and not case.swizzled
    expected = reference.allocate(config, m, n, fill=_FILL, exact_scales=exact_scales)
    chunks = -(-m // config.dbias_chunk_rows) if config.with_dbias else 0
    sums = np.full((chunks, n), np.nan, np.float32)
    noop = np.array([where.noop], np.float32)
    tensors = _Tensors(case, where)
    arguments = [
        tensors.put("input", x, output=False),
        tensors.put("act_input", act_input, output=False),
        tensors.put("rowwise_data", expected.rowwise_data),
        tensors.put("rowwise_scale_inv", expected.rowwise_scale_inv),
        tensors.put("columnwise_data", expected.columnwise_data),
        tensors.put("columnwise_scale_inv", expected.columnwise_scale_inv),
        tensors.put("amax", expected.amax, output=False),
        tensors.put("dbias_workspace", sums if config.with_dbias else None),
        emulator.NULL if where.noop is None else tensors.put("noop", noop, output=False),
    ]

    def blocks(count: int) -> range:
        return range(count - _count_blocks(case, m, n) if where.rows_before else 0, count)

    kernel = StripKernel(config, architectures.get(case.architecture), case.shape)
    emulator.run(kernel, tensors.memory, *arguments, blocks=blocks)

    values = _expect(case, x, act_input)
    is_wanted = where.noop != 1.0 or not config.is_cast
    if config.with_dbias:
        # Those of whole numbers are exact, in whatever order.
        rtol, atol = (1e-5, 1e-4) if config.with_dact else (0, 0)
        np.testing.assert_allclose(
            tensors.get("dbias_workspace", sums),
            reference.dbias_partials(values, config.dbias_chunk_rows),
            rtol=rtol,
            atol=atol,
        )
    with np.errstate(all="ignore"):
        values = values.astype(x.dtype).astype(np.float32)
    for direction, columnwise in (("rowwise", False), ("columnwise", True)):
        want_data = getattr(expected, f"{direction}_data")
        if want_data is None:
            continue
        want_scales = getattr(expected, f"{direction}_scale_inv")
        if is_wanted:
            data, scales = reference.quantize_blocks(
                values, config.fp8_dtype, columnwise=columnwise
            )
            want_data[:] = data
            reference.write_scales(
                scales, want_scales, columnwise=columnwise, swizzled=case.swizzled
            )
        for name, want in (("scale_inv", want_scales), ("data", want_data)):
            name = f"{direction}_{name}"
            np.testing.assert_array_equal(tensors.get(name, want), want, err_msg=name)
    largest = reference.block_amax(values, 1).max() if is_wanted else 0
    np.testing.assert_array_equal(tensors.get("amax", expected.amax), [largest], err_msg="amax")


@pytest.mark.parametrize("case", _cases(), ids=str)
def test_kernels(case: Case) -> None:
    """Would catch an element, a scale or a sum that is left out, taken twice, or written where it
    does not belong, and an access that only some GPU would not forgive.
    """
    # A whole tile, and ragged ones beside and below it, with blocks that end early.
    _compare(case, case.shape.tile_rows + 5, case.shape.tile_columns + 48, Layout())


_BF16 = [case for case in _cases() if case.dtype == "bf16"]


@pytest.mark.parametrize("case", _BF16, ids=str)
def test_alignment(case: Case) -> None:
    """Would catch wide accesses to inputs of 16 bytes' alignment and to scales of none, padding of
    compact scales that is written, and constants of the other FP8 type.
    """
    case = dataclasses.replace(case, fp8_dtype="fp8_e5m2")
    where = Layout(data=16, scales=1, exact_scales=False)
    _compare(case, case.shape.tile_rows + 5, case.shape.tile_columns + 48, where)


@pytest.mark.parametrize(
    "case", [case for case in _BF16 if tuning.rows_are_independent(case.config)], ids=str
)
@pytest.mark.parametrize("exact_scales", [True, False])
def test_rows_without_gaps(case: Case, exact_scales: bool) -> None:
    """Would catch rows that are taken for one with gaps between them, or scales that are."""
    rows = 5 * case.shape.tile_columns // 32
    _compare(case, rows, 96, Layout(exact_scales=exact_scales))


_LARGE = [case for case in _BF16 if case.shape.max_elements is None]
_ROWS_BEFORE = 1 << 31


@pytest.mark.parametrize("case", _LARGE, ids=str)
def test_offsets_beyond_32_bits(case: Case) -> None:
    """Would catch an offset of elements, bytes, scales or sums that is computed in 32 bits."""
    where = Layout(rows_before=_ROWS_BEFORE)
    columns = case.shape.tile_columns + 48
    assert _ROWS_BEFORE // case.config.dbias_chunk_rows * columns > 1 << 32
    _compare(case, case.shape.tile_rows + 5, columns, where)
    if tuning.rows_are_independent(case.config):
        _compare(case, 5 * case.shape.tile_columns // 32, 160, where)


@pytest.mark.parametrize("noop", [0.0, 0.5, 1.0, np.nan])
@pytest.mark.parametrize(
    "case", [case for case in _BF16 if case.directions == "both" and not case.swizzled], ids=str
)
def test_noop(case: Case, noop: float) -> None:
    """Would catch a flag that is taken for true when it is not 1, and one that fusions obey."""
    _compare(case, 32, 96, Layout(noop=noop))


_TOKENS = [token for token in ACTIVATION_CODES if token != "none"]


@pytest.mark.parametrize("token", _TOKENS)
@pytest.mark.parametrize("architecture", architectures.ARCHITECTURES)
def test_functions(architecture: str, token: str) -> None:
    """Would catch a formula that differs from the oracle's, on pairs of numbers or single ones."""
    specials = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 100.0, -100.0]
    x = np.append(np.linspace(-12, 12, 2001), specials).astype(np.float32).reshape(-1, 4)
    got = _activate(token, x, architectures.get(architecture))
    want = reference.activate(token, x)
    if "relu" in token:
        np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
    else:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("m", "n", "chosen"),
    [(32, 96, "small"), (33, 96, "large"), (1 << 17, 1 << 16, "large")],
)
def test_size_decides(m: int, n: int, chosen: str) -> None:
    """Would catch a product that is cut to 32 bits, and a limit that is off by one."""
    calls = []

    class Recorder(StripKernel):
        def __call__(self, *arguments: object) -> None:
            calls.append("large" if self.tuning.max_elements is None else "small")

    config = QuantizeConfig("bf16", rowwise=True, colwise=True)
    architecture = architectures.get("sm_100f")
    small, large = tuning.choose(config, architecture)
    small = dataclasses.replace(small, max_elements=32 * 96)
    function = Quantize(config, architecture, (small, large))
    function.kernels = [Recorder(config, architecture, shape) for shape in (small, large)]
    function(emulator.Tensor(0, (m, n)), *[None] * 7, emulator.NULL, None)
    assert calls == [chosen]
