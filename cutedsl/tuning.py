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
            shape, min_ctas_per_sm=_enough_ctas(shape.kernel_name(config), architecture)
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


# Kernels of which ptxas spills a register to fit in one CTA more, and how many CTAs are enough.
_ENOUGH_CTAS = {
    "sm_100f": {"*_fp16_fp8_e*_1_1_1_1_0_1_0_0_*u": 4},
    "sm_120f": {
        "*_fp32_fp8_e*_1_1_1_0_0_0_1_0_*relu": 4,
        "*_fp32_fp8_e*_1_0_1_1_1_0_0_0_none_small": 3,
    },
}


def _enough_ctas(kernel_name: str, architecture: Architecture) -> int:
    """How many CTAs an SM must hold; 0 leaves it to ptxas, which is best nearly everywhere."""
    for pattern, ctas in _ENOUGH_CTAS.get(architecture.name, {}).items():
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
    if rows_are_independent(config):
        return Tuning(
            columns=columns,
            rows=1 if config.with_dact else 2,
            lanes_along_n=WARP,
            warps_along_n=1,
            warps_along_m=4,
            max_elements=1 << 22,
        )
    if config.is_cast and not config.rowwise:
        return None  # the shape of large tensors is as fast
    elements = 16 if config.with_dact or not (config.colwise or config.with_dbias) else 32
    rows = elements // columns
    lanes_along_n = 64 // columns
    # These are the first that suffer from writing in many small pieces.
    writes_much = config.rowwise and config.swizzled and config.with_dact
    is_early = config.colwise and (config.with_dbias or writes_much)
    max_elements = 1 << (21 if is_early else 22)
    return _lowest_shape(config, columns, rows, lanes_along_n, max_elements=max_elements)


def _lowest_shape(
    config: QuantizeConfig, columns: int, rows: int, lanes_along_n: int, **others: Any
) -> Tuning:
    """One warp wide, and as few rows high as a CTA can be."""
    tile_rows = config.dbias_chunk_rows if config.with_dbias else BLOCK
    warps = tile_rows // (rows * WARP // lanes_along_n)
    return Tuning(columns, rows, lanes_along_n, 1, warps, **others)


def _choose_large(config: QuantizeConfig) -> Tuning:
    """The shape, the same on all architectures."""
    if rows_are_independent(config):
        # One load a row: eight columns of fp32 spill on sm_120.
        columns = _elements_of_a_load(config)
        rows, warps = (2, 4) if config.with_dact else (4, 8)
        return Tuning(
            columns=columns, rows=rows, lanes_along_n=WARP, warps_along_n=1, warps_along_m=warps
        )
    if config.with_dbias or (config.with_dact and DTYPE_BYTES[config.dtype] == 4):
        return _choose_narrow(config)
    shape = dict(columns=8, lanes_along_n=WARP)
    if not config.swizzled and config.with_dact:
        return Tuning(
            rows=4,
            warps_along_n=1,
            warps_along_m=8,
            gathers_row_scales=config.rowwise,
            **shape,
        )
    if config.rowwise and config.colwise and not config.swizzled and DTYPE_BYTES[config.dtype] == 2:
        # A fusion needs registers of its own, so that fewer rows are left for a thread.
        rows = 16 if config.is_cast else 8
        return Tuning(
            rows=rows,
            warps_along_n=1 if config.with_act else 2,
            warps_along_m=BLOCK // rows,
            gathers_row_scales=True,
            **shape,
        )
    if config.with_dact and not config.colwise:
        # Two inputs are as many loads as eight rows of one.
        return Tuning(rows=4, warps_along_n=1, warps_along_m=4, **shape)
    # Blocks spread over four warps: few registers a thread, whole cache lines a warp.
    return Tuning(
        rows=8,
        warps_along_n=1,
        warps_along_m=4,
        gathers_row_scales=config.rowwise and (config.colwise or config.is_cast),
        **shape,
    )


def _choose_narrow(config: QuantizeConfig) -> Tuning:
    """The shape where column sums or two fp32 inputs need registers besides the elements.

    One load a row; with two inputs, tiles of 128 columns.
    """
    columns = _elements_of_a_load(config)
    rows = 16
    lanes_along_n = WARP
    if config.with_dact:
        rows = 4 if config.with_dbias and not config.colwise and columns == 8 else 8
        lanes_along_n = min(WARP, 128 // columns)
    return _lowest_shape(config, columns, rows, lanes_along_n, gathers_row_scales=config.rowwise)
