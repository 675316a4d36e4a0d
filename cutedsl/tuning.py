"""The shape of each kernel: how many elements a thread, a warp and a CTA take.

The only place where such numbers stand. Needs no CuTeDSL.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from typing import Any

from cutedsl.architectures import Architecture
from cutedsl.config import DTYPE_BYTES, QuantizeConfig

WARP = 32
BLOCK = 32  # elements that share a scale

_SMALL = "_small"  # ends the names of kernels for small tensors


def _elements_of_a_load(config: QuantizeConfig) -> int:
    return 16 // DTYPE_BYTES[config.dtype]


@dataclasses.dataclass(frozen=True)
class Tuning:
    """A strip kernel: each thread holds `columns` x `rows` elements in registers.

    A warp is `lanes_along_n` lanes wide and 32 / lanes_along_n high, a CTA `warps_along_n` warps
    wide and `warps_along_m` high. The rows of a block may be spread over lanes and over warps.
    """

    columns: int
    rows: int
    lanes_along_n: int
    warps_along_n: int
    warps_along_m: int
    min_ctas_per_sm: int = 0  # bounds the registers per thread; 0: no bound
    gathers_row_scales: bool = False  # in shared memory, to write them in longer pieces
    max_elements: int | None = None  # of the tensors it is for

    @property
    def lanes_along_m(self) -> int:
        return WARP // self.lanes_along_n

    @property
    def warps_per_block(self) -> int:
        """How many warps share the block of a column."""
        return max(1, BLOCK // (self.rows * self.lanes_along_m))

    @property
    def threads(self) -> int:
        return WARP * self.warps_along_n * self.warps_along_m

    @property
    def tile_rows(self) -> int:
        return self.rows * self.lanes_along_m * self.warps_along_m

    @property
    def tile_columns(self) -> int:
        return self.columns * self.lanes_along_n * self.warps_along_n

    def kernel_name(self, config: QuantizeConfig) -> str:
        """What profilers and the tools that read machine code show, and a number."""
        return config.name if self.max_elements is None else config.name + _SMALL

    def check(self, config: QuantizeConfig) -> None:
        """ValueError if a kernel of this shape cannot compute `config`."""
        load_elements = _elements_of_a_load(config)
        requirements = {
            "columns must be 4, 8 or 16 and a multiple of a 16-byte load": (
                self.columns in (4, 8, 16) and self.columns % load_elements == 0
            ),
            "rows must be a power of two up to 32": self.rows in (1, 2, 4, 8, 16, 32),
            "lanes_along_n must divide a warp and cover whole blocks": (
                WARP % self.lanes_along_n == 0 and self.lanes_along_n * self.columns % BLOCK == 0
            ),
            "for columnwise scales, a warp may be at most one block high, a CTA whole blocks": (
                not config.colwise
                or (self.rows * self.lanes_along_m <= BLOCK and self.tile_rows % BLOCK == 0)
            ),
            "for dbias, a CTA is as high as a chunk of rows": (
                not config.with_dbias or self.tile_rows == config.dbias_chunk_rows
            ),
            "gathered row scales must be a multiple of four in a row": (
                not self.gathers_row_scales or self.tile_columns % (4 * BLOCK) == 0
            ),
            "a CTA may have at most 1024 threads": self.threads <= 1024,
        }
        for requirement, holds in requirements.items():
            if not holds:
                raise ValueError(f"Tuning.check: {requirement}; {self} for {config.name}")


def choose(config: QuantizeConfig, architecture: Architecture) -> tuple[Tuning, ...]:
    """The shapes for `config` on `architecture`, the last for tensors too large for the others.

    The measurements are in docs/benchmarks.
    """
    large = _choose_large(config)
    if architecture.name == "sm_100f" and not (config.colwise or config.with_dbias):
        large = _widen(config, large)
    small = _choose_small(config)
    return tuple(
        dataclasses.replace(
            shape, min_ctas_per_sm=_ctas_per_sm(shape.kernel_name(config), architecture)
        )
        for shape in ([large] if small is None else [small, large])
    )


def _widen(config: QuantizeConfig, shape: Tuning) -> Tuning:
    """The same tile by loads of 32 bytes, which saves up to a tenth of the instructions.

    On sm_100 those of a fusion take nearly as long as memory does, on sm_120 a sixth of that.
    """
    if shape.columns != _elements_of_a_load(config):
        return shape
    return dataclasses.replace(
        shape,
        columns=2 * shape.columns,
        rows=shape.rows // 2,
        lanes_along_n=shape.lanes_along_n // 2,
    )


def find(kernel_name: str, architecture: Architecture) -> tuple[QuantizeConfig, Tuning]:
    """The configuration and the shape of the kernel called `kernel_name`; ValueError if none is."""
    config = QuantizeConfig.parse(kernel_name.removesuffix(_SMALL))
    for shape in choose(config, architecture):
        if shape.kernel_name(config) == kernel_name:
            return config, shape
    raise ValueError(f"tuning.find: no kernel is called {kernel_name}")


# Kernels for which ptxas chooses badly how many CTAs to make room for, and a better number: it uses
# a few registers too many on Hopper, and spills one to fit in one CTA more on Blackwell.
_BETTER_CTAS = {
    "sm_90a": {
        "*_bf16_fp8_e*_1_0_1_1_0_0_1_0_*lu": 8,
        "*_bf16_fp8_e*_1_0_1_0_0_0_1_0_srelu": 8,
    },
    "sm_100f": {"*_fp16_fp8_e*_1_1_1_1_0_1_0_0_*u": 4},
    "sm_120f": {
        "*_fp32_fp8_e*_1_1_1_0_0_0_1_0_*relu": 4,
        "*_fp32_fp8_e*_1_0_1_1_1_0_0_0_none_small": 3,
    },
}


def _ctas_per_sm(kernel_name: str, architecture: Architecture) -> int:
    """How many CTAs an SM must hold; 0 leaves it to ptxas, which is best nearly everywhere."""
    for pattern, ctas in _BETTER_CTAS.get(architecture.name, {}).items():
        if fnmatch.fnmatchcase(kernel_name, pattern):
            return ctas
    return 0


def rows_are_independent(config: QuantizeConfig) -> bool:
    """Whether no scale, sum or tile of scales is of several rows.

    The tile of a CTA may be contiguous memory then.
    """
    return not (config.colwise or config.swizzled or config.with_dbias)


def _choose_small(config: QuantizeConfig) -> Tuning | None:
    """For tensors that do not fill the GPU several times: more threads, each with less to do."""
    columns = _elements_of_a_load(config)
    limit = dict(max_elements=1 << 22)
    if rows_are_independent(config):
        rows, warps = (1, 8) if config.with_dact else (2, 4)
        return Tuning(columns, rows, WARP, warps_along_n=1, warps_along_m=warps, **limit)
    if config.is_cast and not config.rowwise:
        return None  # the shape of large tensors is as fast
    elements, lanes_along_n = _small_strip(config, columns)
    gathers = config.rowwise and not config.swizzled and lanes_along_n * columns > 64
    return _lowest_shape(
        config, columns, elements // columns, lanes_along_n, gathers_row_scales=gathers, **limit
    )


def _small_strip(config: QuantizeConfig, columns: int) -> tuple[int, int]:
    """How many elements a thread holds, and how many lanes lie side by side."""
    narrow = 64 // columns
    if config.with_dbias:
        return 32 if config.with_dact else 64, narrow
    if config.with_dact:
        is_wide = config.in_both_directions and config.swizzled and columns == 8
        return (32, WARP) if is_wide else (16, narrow)
    if config.in_both_directions:
        return (64, 16) if config.is_cast and columns == 8 else (32, narrow)
    if config.rowwise:
        return 16, narrow
    if config.swizzled:
        return 32 if config.has_exponentials or columns == 4 else 64, 16
    return 16 if config.has_exponentials else 32, narrow


def _lowest_shape(
    config: QuantizeConfig, columns: int, rows: int, lanes_along_n: int, **others: Any
) -> Tuning:
    """One warp wide, and as few rows high as a CTA can be."""
    tile_rows = config.dbias_chunk_rows if config.with_dbias else BLOCK
    warps = tile_rows // (rows * WARP // lanes_along_n)
    return Tuning(columns, rows, lanes_along_n, 1, warps, **others)


def _choose_large(config: QuantizeConfig) -> Tuning:
    """The shape, the same on all architectures."""
    columns = _elements_of_a_load(config)
    if rows_are_independent(config):
        # One load a row: eight columns of fp32 spill on sm_120.
        rows = 2 if config.with_dact else 4
        return Tuning(columns, rows, WARP, warps_along_n=1, warps_along_m=4)
    if config.with_dbias:
        rows, lanes_along_n = _strip_with_sums(config, columns)
        return _lowest_shape(
            config, columns, rows, lanes_along_n, gathers_row_scales=config.rowwise
        )
    if config.with_dact and (columns == 4 or not (config.swizzled and config.colwise)):
        # Two inputs are as many loads as eight rows of one.
        gathers = config.rowwise and not config.swizzled
        return _lowest_shape(config, columns, 4, WARP, gathers_row_scales=gathers)
    shape = dict(columns=8, lanes_along_n=WARP, gathers_row_scales=config.rowwise)
    if config.in_both_directions and not config.with_dact and columns == 8:
        # An exponential needs registers of its own, so that fewer rows are left for a thread.
        rows = 8 if config.has_exponentials else 16
        warps_along_n = 1 if config.swizzled else 2
        return Tuning(rows=rows, warps_along_n=warps_along_n, warps_along_m=BLOCK // rows, **shape)
    # Blocks spread over four warps: few registers a thread, whole cache lines a warp.
    return Tuning(rows=8, warps_along_n=1, warps_along_m=4, **shape)


def _strip_with_sums(config: QuantizeConfig, columns: int) -> tuple[int, int]:
    """Rows of a thread, and lanes side by side, where sums need registers besides the elements."""
    if not config.with_dact:
        return 16, WARP
    if columns == 4 or (config.in_both_directions and not config.has_exponentials):
        return 8, WARP
    return 8 if config.colwise else 4, 16
