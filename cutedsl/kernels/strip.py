"""The strip kernel: every thread keeps a few neighbouring columns of some rows in registers.

A warp is `lanes_along_n` lanes wide, so that it reads and writes whole contiguous pieces of rows,
and as many rows high as the tuning says. The maximum of a row's block is reduced among the 32 /
columns neighbouring lanes that share it, the maximum of a column's block within a thread and, if
the block's rows are spread over several lanes or warps, among those. One code path serves rowwise,
columnwise and both; every element is read once and kept until it is written.

What is fused with the cast is one stage between the loads and the maxima: it replaces the elements
in the registers by those to quantize, rounded to the type of the input, and adds up the columns of
dbias. A CTA is then as high as the chunk of rows that gives one row of the dbias workspace.

Where several CTAs fill one cache line with scales, the L2 cache is told to keep it until then,
which makes up for most of what such lines cost (docs/benchmarks).

What lies outside the tensor reads as zero, which changes no maximum and no sum (activations are 0
at 0) and gives the scale 0 that the padding of swizzled scales must hold: the grid covers the
padding, and no code is needed for it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Float32, Int32, Int64, Uint32

from cutedsl import activations, numerics, pairs
from cutedsl.architectures import Architecture
from cutedsl.config import DTYPE_BYTES, QuantizeConfig
from cutedsl.pairs import Floats
from cutedsl.tuning import BLOCK, WARP, Tuning, rows_are_independent

# Swizzled scales come in tiles of 128 rows (or columns) x 4 blocks, that is 128 x 128 elements.
_SWIZZLE_ELEMENTS = 128
_SWIZZLE_BLOCKS = 4
_SWIZZLE_BYTES = 512

_ONE_BITS = 0x3F800000

# In a load: every tensor is aligned for one, most are for a wide one.
_LOAD_WORDS = 4
_WIDE_WORDS = 8


def extents(tensor: cute.Tensor) -> tuple[Int64, Int64]:
    """Rows and columns; `tensor.shape` would cut them to 32 bits."""
    return cute.size(tensor, mode=[0]), cute.size(tensor, mode=[1])


def _round_up(value: Int64, multiple: int) -> Int64:
    return (value + (multiple - 1)) // multiple * multiple


def _swizzled_offset(i: Int64, j: Int64, tiles: Int64) -> Int64:
    """Where the scale of row (or column) i and block j lies; `tiles` is ceil(blocks / 4)."""
    tile = (i // _SWIZZLE_ELEMENTS) * tiles + j // _SWIZZLE_BLOCKS
    return (
        tile * _SWIZZLE_BYTES
        + (i % 32) * 16
        + (i % _SWIZZLE_ELEMENTS) // 32 * 4
        + j % _SWIZZLE_BLOCKS
    )


@dataclasses.dataclass(frozen=True)
class _Strip:
    """What one thread owns of a tensor of `m` x `n` elements."""

    m: Int64
    n: Int64
    row: Int64  # its first row
    column: Int64  # its first column
    is_whole: Boolean  # whether the tile of its CTA lies inside the tensor
    rows_inside: Int32  # how many of its rows lie inside the tensor; 0 if its columns do not
    local_row: Int32  # its first row within the tile of its CTA
    local_column: Int32  # its first column within the tile


class StripKernel:
    """The kernel of one configuration in one shape."""

    def __init__(self, config: QuantizeConfig, architecture: Architecture, tuning: Tuning) -> None:
        tuning.check(config)
        self.config = config
        self.architecture = architecture
        self.tuning = tuning
        self.element_bytes = DTYPE_BYTES[config.dtype]
        self.words_per_row = tuning.columns * self.element_bytes // 4
        self.lanes_per_block = BLOCK // tuning.columns
        self.loads_wide = architecture.has_32_byte_loads and self.words_per_row % _WIDE_WORDS == 0

    @cute.jit
    def __call__(
        self,
        input: cute.Tensor,
        act_input: cute.Tensor | None,
        rowwise_data: cute.Tensor | None,
        rowwise_scale_inv: cute.Tensor | None,
        columnwise_data: cute.Tensor | None,
        columnwise_scale_inv: cute.Tensor | None,
        amax: cute.Tensor | None,
        dbias_workspace: cute.Tensor | None,
        noop: cute.Pointer,
        stream,
    ):
        """Launches the kernel; the arguments are those of ffi_bridge/kernel_package_abi.h."""
        StripKernel.quantize.set_name_prefix(
            self.tuning.kernel_name(self.config),
            remove_cutlass_symbol=True,
            keep_mangled_name=False,
        )
        m, n = extents(input)
        covered_m, covered_n = m, n
        row_scale_stride = None
        if cutlass.const_expr(self.config.rowwise):
            row_scale_stride = extents(rowwise_scale_inv)[1]
        if cutlass.const_expr(self.config.swizzled):
            covered_m = _round_up(m, _SWIZZLE_ELEMENTS)
            covered_n = _round_up(n, _SWIZZLE_ELEMENTS)
        elif cutlass.const_expr(rows_are_independent(self.config)):
            m, n, row_scale_stride = self._flatten(m, n, row_scale_stride)
            covered_m, covered_n = m, n
        tiles_m = _round_up(covered_m, self.tuning.tile_rows) // self.tuning.tile_rows
        tiles_n = _round_up(covered_n, self.tuning.tile_columns) // self.tuning.tile_columns
        # One dimension, columns fastest: the other dimensions of a grid end at 65535.
        self.quantize(
            m,
            n,
            input,
            act_input,
            rowwise_data,
            rowwise_scale_inv,
            row_scale_stride,
            columnwise_data,
            columnwise_scale_inv,
            amax,
            dbias_workspace,
            noop,
            cute.fast_divmod_create_divisor_v2(Int32(tiles_n)),
        ).launch(
            grid=[Int32(tiles_m * tiles_n), 1, 1],
            block=[self.tuning.threads, 1, 1],
            min_blocks_per_mp=self.tuning.min_ctas_per_sm,
            preferred_smem_carveout=-1,  # the driver's choice; else the DSL asks a GPU
            stream=stream,
            use_pdl=True,
        )

    @cute.kernel
    def quantize(
        self,
        m: Int64,
        n: Int64,
        input: cute.Tensor,
        act_input: cute.Tensor | None,
        rowwise_data: cute.Tensor | None,
        rowwise_scale_inv: cute.Tensor | None,
        row_scale_stride: Int64 | None,
        columnwise_data: cute.Tensor | None,
        columnwise_scale_inv: cute.Tensor | None,
        amax: cute.Tensor | None,
        dbias_workspace: cute.Tensor | None,
        noop: cute.Pointer,
        tiles_n: cute.FastDivmodDivisorV2,
    ):
        # Launched while the kernel before it in the stream still runs: from here on it is done.
        cute.arch.griddepcontrol_wait()
        if self._is_wanted(noop):
            strip = self._place(m, n, tiles_n)
            fragment = cute.make_rmem_tensor((self.words_per_row, self.tuning.rows), Uint32)
            act_fragment = None
            if cutlass.const_expr(self.config.with_dact):
                act_fragment = cute.make_rmem_tensor((self.words_per_row, self.tuning.rows), Uint32)
            # Two ways to load, because a branch keeps all loads ahead of the first use, and whole
            # tiles, nearly all of them, need no predicates.
            if strip.is_whole & self._is_aligned(input, act_input):
                self._load(input, strip, fragment, predicated=False)
                if cutlass.const_expr(self.config.with_dact):
                    self._load(act_input, strip, act_fragment, predicated=False)
            else:
                self._load(input, strip, fragment, predicated=True)
                if cutlass.const_expr(self.config.with_dact):
                    self._load(act_input, strip, act_fragment, predicated=True)
            # The same favour for the kernel after this one, which waits for all that is written.
            cute.arch.griddepcontrol_launch_dependents()
            if cutlass.const_expr(self.config.with_amax):
                amax_so_far = numerics.load_contended(amax.iterator.toint())
            words = self._words(fragment)
            if cutlass.const_expr(not self.config.is_cast):
                act_words = None
                if cutlass.const_expr(self.config.with_dact):
                    act_words = self._words(act_fragment)
                words, column_sums = self._fuse(words, act_words)
            magnitudes = []
            row_scales = None
            column_scales = None
            # What others need goes first, so that one barrier serves all.
            if cutlass.const_expr(self.config.with_dbias):
                shared_sums = self._share(numerics.to_words("fp32", column_sums))
            if cutlass.const_expr(self.config.colwise):
                column_maxima = self._column_maxima(words)
                if cutlass.const_expr(self.tuning.warps_per_block > 1):
                    shared_maxima = self._share(column_maxima)
            if cutlass.const_expr(self.config.rowwise):
                magnitudes = self._row_magnitudes(words)
                row_scales = self._scales(magnitudes)
                if cutlass.const_expr(self.tuning.gathers_row_scales):
                    shared_scales = self._gather_row_scales(strip, row_scales)
                else:
                    self._store_row_scales(rowwise_scale_inv, row_scale_stride, strip, row_scales)
            if cutlass.const_expr(self._needs_barrier):
                cute.arch.sync_threads()
            if cutlass.const_expr(self.config.with_dbias):
                self._store_column_sums(dbias_workspace, strip, shared_sums)
            if cutlass.const_expr(self.config.rowwise and self.tuning.gathers_row_scales):
                self._store_gathered_row_scales(
                    rowwise_scale_inv, row_scale_stride, strip, shared_scales
                )
            if cutlass.const_expr(self.config.colwise):
                if cutlass.const_expr(self.tuning.warps_per_block > 1):
                    column_maxima = self._merge_column_maxima(column_maxima, shared_maxima)
                magnitudes = self._magnitudes(column_maxima)
                column_scales = self._scales(magnitudes)
                self._store_column_scales(columnwise_scale_inv, strip, column_scales)
            self._store_data(rowwise_data, row_scales, columnwise_data, column_scales, strip, words)
            if cutlass.const_expr(self.config.with_amax):
                self._raise_amax(amax, amax_so_far, magnitudes)

    @property
    def _needs_barrier(self) -> bool:
        return (
            self.config.with_dbias
            or (self.config.colwise and self.tuning.warps_per_block > 1)
            or (self.config.rowwise and self.tuning.gathers_row_scales)
        )

    def _is_wanted(self, noop: cute.Pointer) -> Boolean:
        """Whether the kernel is to do anything; the flag is for plain casts."""
        if not self.config.is_cast:
            return Boolean(True)
        return numerics.load_flag(noop.toint()) != Uint32(_ONE_BITS)

    def _flatten(self, m: Int64, n: Int64, scale_stride: Int64) -> tuple[Int64, Int64, Int64]:
        """Rows as wide as a tile, where rowwise data and scales are blocks without gaps anyway.

        Every tile is then contiguous memory, whatever the shape of the tensor.
        """
        width = self.tuning.tile_columns
        is_gapless = (n % BLOCK == 0) & (scale_stride == n // BLOCK) & (m * n % width == 0)
        return (
            numerics.select(is_gapless, m * n // width, m),
            numerics.select(is_gapless, Int64(width), n),
            numerics.select(is_gapless, Int64(width // BLOCK), scale_stride),
        )

    def _place(self, m: Int64, n: Int64, tiles_n: cute.FastDivmodDivisorV2) -> _Strip:
        tuning = self.tuning
        thread = cute.arch.thread_idx()[0]
        tile_m, tile_n = divmod(cute.arch.block_idx()[0], tiles_n)
        lane, warp = thread % WARP, thread // WARP
        lane_n, lane_m = lane % tuning.lanes_along_n, lane // tuning.lanes_along_n
        warp_n, warp_m = warp % tuning.warps_along_n, warp // tuning.warps_along_n
        tile_row = Int64(tile_m) * tuning.tile_rows
        tile_column = Int64(tile_n) * tuning.tile_columns
        is_whole = (tile_row + tuning.tile_rows <= m) & (tile_column + tuning.tile_columns <= n)
        local_row = (warp_m * tuning.lanes_along_m + lane_m) * tuning.rows
        local_column = (warp_n * tuning.lanes_along_n + lane_n) * tuning.columns
        row, column = tile_row + local_row, tile_column + local_column
        rows_inside = self._rows_below(row, m, column < n)
        return _Strip(m, n, row, column, is_whole, rows_inside, local_row, local_column)

    def _rows_below(self, row: Int64, limit: Int64, condition: Boolean) -> Int32:
        """How many of a thread's rows, the first of which is `row`, lie below `limit`."""
        rows = Int32(cutlass.max(cutlass.min(limit - row, Int64(self.tuning.rows)), Int64(0)))
        return numerics.select(condition, rows, Int32(0))

    def _is_aligned(self, input: cute.Tensor, act_input: cute.Tensor | None) -> Boolean:
        """Whether whole tiles can be loaded the way they are; rows are multiples of any load."""
        if not self.loads_wide:
            return Boolean(True)
        addresses = input.iterator.toint()
        if act_input is not None:
            addresses = addresses | act_input.iterator.toint()
        return addresses % (4 * _WIDE_WORDS) == 0

    def _load(
        self, input: cute.Tensor, strip: _Strip, fragment: cute.Tensor, predicated: bool
    ) -> None:
        """Fills `fragment` with the words of each row, zeros outside the tensor."""
        row_bytes = strip.n * self.element_bytes
        address = input.iterator.toint() + strip.row * row_bytes + strip.column * self.element_bytes
        count = _WIDE_WORDS if self.loads_wide and not predicated else _LOAD_WORDS
        for r in range(self.tuning.rows):
            for first in range(0, self.words_per_row, count):
                words = numerics.load_words(
                    address + (row_bytes * r + first * 4),
                    count,
                    r < strip.rows_inside if predicated else None,
                )
                for i, word in enumerate(words):
                    fragment[first + i, r] = word

    def _words(self, fragment: cute.Tensor) -> list[list[Uint32]]:
        """The words of each row."""
        return [
            [fragment[word, row] for word in range(self.words_per_row)]
            for row in range(self.tuning.rows)
        ]

    def _floats(self, row: list[Uint32]) -> list[Float32]:
        return [value for word in row for value in numerics.to_floats(self.config.dtype, word)]

    def _floats_anew(self, row: list[Uint32]) -> list[Float32]:
        return [value for word in row for value in numerics.to_floats_anew(self.config.dtype, word)]

    def _join(self, values: list[Float32]) -> Sequence[Floats]:
        return pairs.join(self.architecture, values)

    def _fuse(
        self, words: list[list[Uint32]], act_words: list[list[Uint32]] | None
    ) -> tuple[list[list[Uint32]], list[Float32]]:
        """The words to quantize and the sums, before rounding, of a thread's columns.

        `act_words`: the argument of the derivative that `words` are multiplied by, if any.
        """
        token = self.config.activation
        fused = []
        sums: list[Floats] = []
        for r, row in enumerate(words):
            # Without a function the same words are converted again for the cast.
            values = self._join(self._floats_anew(row) if token == "none" else self._floats(row))
            if self.config.with_act:
                values = [activations.apply(token, value) for value in values]
            if act_words is not None:
                arguments = self._join(self._floats(act_words[r]))
                factors = [activations.apply(token, x) for x in arguments]
                values = [value * factor for value, factor in zip(values, factors, strict=True)]
            if self.config.with_dbias:
                sums = [a + b for a, b in zip(sums, values, strict=True)] if sums else values
            if token != "none":
                row = numerics.to_words(self.config.dtype, pairs.split(values))
            fused.append(row)
        return fused, pairs.split(sums)

    def _row_magnitudes(self, words: list[list[Uint32]]) -> list[Float32]:
        """The absolute maximum of the block of each row."""
        dtype = self.config.dtype
        maxima = [numerics.reduce_magnitude(dtype, row) for row in words]
        if dtype != "fp32":  # two rows share a word from here on, a last one both halves
            maxima = [
                numerics.pair_magnitude(dtype, a, b)
                for a, b in itertools.zip_longest(maxima[::2], maxima[1::2], fillvalue=maxima[-1])
            ]
        maxima = self._reduce_lanes(maxima, 1, self.lanes_per_block)
        return self._magnitudes(maxima)[: self.tuning.rows]

    def _column_maxima(self, words: list[list[Uint32]]) -> list[Uint32]:
        """The absolute maximum of each column, over the rows of the warp."""
        maxima = [
            numerics.reduce_magnitude(self.config.dtype, [row[word] for row in words])
            for word in range(self.words_per_row)
        ]
        return self._reduce_lanes(maxima, self.tuning.lanes_along_n, WARP)

    def _reduce_lanes(self, maxima: list[Uint32], first: int, end: int) -> list[Uint32]:
        """Reduces over the lanes that differ in their number's bits from `first` up to `end`."""
        offsets = [1 << bit for bit in range(first.bit_length() - 1, end.bit_length() - 1)]
        return [numerics.shuffle_magnitude(self.config.dtype, word, offsets) for word in maxima]

    def _magnitudes(self, maxima: list[Uint32]) -> list[Float32]:
        dtype = self.config.dtype
        return [
            value
            for word in maxima
            for value in numerics.to_floats(dtype, numerics.clean_magnitude(dtype, word))
        ]

    def _share(self, words: list[Uint32]) -> Int32:
        """Writes words to shared memory, 16 bytes a thread at a time; returns the address."""
        threads = self.tuning.threads
        shared = cute.arch.alloc_smem(Uint32, threads * len(words), alignment=16).toint()
        thread = cute.arch.thread_idx()[0]
        for first in range(0, len(words), 4):
            address = shared + (threads * first * 4 + thread * 16)
            numerics.store_shared(address, words[first : first + 4])
        return shared

    def _store_column_sums(self, workspace: cute.Tensor, strip: _Strip, shared: Int32) -> None:
        """Writes the tile's row of the dbias workspace: the threads' sums, added in order."""
        tuning = self.tuning
        first_row = strip.row - strip.local_row
        first_column = strip.column - strip.local_column
        offset = first_row // tuning.tile_rows * strip.n + first_column
        base = workspace.iterator.toint() + offset * 4
        for first in range(0, tuning.tile_columns, tuning.threads):
            column = cute.arch.thread_idx()[0] + first
            exists = (
                (column < tuning.tile_columns)
                & (first_row < strip.m)
                & (first_column + column < strip.n)
            )
            column = cutlass.min(column, Int32(tuning.tile_columns - 1))
            owner, index = column // tuning.columns, column % tuning.columns
            owner = owner // tuning.lanes_along_n * WARP + owner % tuning.lanes_along_n
            address = shared + (index // 4 * (tuning.threads * 16) + owner * 16 + index % 4 * 4)
            sums = [
                numerics.load_shared(address + thread * 16, 1)[0]
                for warp in range(0, tuning.threads, WARP * tuning.warps_along_n)
                for thread in range(warp, warp + WARP, tuning.lanes_along_n)
            ]
            total, *others = [numerics.to_floats("fp32", word)[0] for word in sums]
            for other in others:
                total = total + other
            numerics.store_words(
                base + Int64(column) * 4,
                numerics.to_words("fp32", [total]),
                exists,
                numerics.retention_policy(),  # the next kernel reads them
            )

    def _merge_column_maxima(self, maxima: list[Uint32], shared: Int32) -> list[Uint32]:
        """With those of the other warps that share the blocks."""
        threads = self.tuning.threads
        warps = self.tuning.warps_per_block
        distance = WARP * self.tuning.warps_along_n  # from a warp to the next along a column
        thread = cute.arch.thread_idx()[0]
        place = thread // distance % warps
        first_thread = thread - place * distance
        for step in range(1, warps):
            other = first_thread + (place + step) % warps * distance
            merged = []
            for first in range(0, self.words_per_row, 4):
                address = shared + (threads * first * 4 + other * 16)
                merged += [
                    numerics.max_magnitude(self.config.dtype, mine, theirs)
                    for mine, theirs in zip(
                        maxima[first : first + 4], numerics.load_shared(address, 4), strict=True
                    )
                ]
            maxima = merged
        return maxima

    def _scales(self, magnitudes: list[Float32]) -> list[Uint32]:
        """Scale bytes, four to a word, zeros where there are no four."""
        padding = [Float32(0.0)] * (-len(magnitudes) % 4)
        return numerics.block_scales(
            self.architecture, self.config.fp8_dtype, [*magnitudes, *padding]
        )

    def _row_scale_bytes(
        self, strip: _Strip, packed: list[Uint32]
    ) -> list[tuple[Int32, Uint32, Boolean]]:
        """A thread's share of its rows' scales: row of the strip, byte, whether the row exists.

        Each of the lanes that share a block takes every lanes_per_block-th row.
        """
        lanes = self.lanes_per_block
        member = strip.local_column // self.tuning.columns % lanes
        share = []
        for first in range(0, self.tuning.rows, lanes):
            word = packed[first // 4]
            if lanes == 8 and first + 4 < self.tuning.rows:
                word = numerics.select(member < 4, word, packed[first // 4 + 1])
            row = member + first
            share.append((row, word >> Uint32(row % 4 * 8), row < self.tuning.rows))
        return share

    def _row_scale_extents(self, strip: _Strip) -> tuple[Int64, Int64]:
        """Rows and blocks for which scales are written."""
        m, n = strip.m, strip.n
        if self.config.swizzled:
            m, n = _round_up(m, _SWIZZLE_ELEMENTS), _round_up(n, _SWIZZLE_ELEMENTS)
        return m, (n + (BLOCK - 1)) // BLOCK

    def _row_scale_policy(self) -> Int64 | None:
        """Rows of scales are narrower than a cache line where tiles are not flattened."""
        return None if rows_are_independent(self.config) else numerics.retention_policy()

    def _row_scale_offset(self, row: Int64, block: Int64, stride: Int64, blocks: Int64) -> Int64:
        if self.config.swizzled:
            return _swizzled_offset(row, block, blocks // _SWIZZLE_BLOCKS)
        return row * stride + block

    def _store_row_scales(
        self, scales: cute.Tensor, stride: Int64, strip: _Strip, packed: list[Uint32]
    ) -> None:
        """Writes the scales byte by byte."""
        rows, blocks = self._row_scale_extents(strip)
        block = strip.column // BLOCK
        base = scales.iterator.toint()
        policy = self._row_scale_policy()
        for local_row, byte, exists in self._row_scale_bytes(strip, packed):
            row = strip.row + local_row
            offset = self._row_scale_offset(row, block, stride, blocks)
            numerics.store_byte(
                base + offset, byte, exists & (row < rows) & (block < blocks), policy
            )

    def _gather_row_scales(self, strip: _Strip, packed: list[Uint32]) -> Int32:
        """Writes the scales to shared memory, row by row; returns the address."""
        blocks = self.tuning.tile_columns // BLOCK
        size = self.tuning.tile_rows * blocks
        shared = cute.arch.alloc_smem(cutlass.Uint8, size, alignment=16).toint()
        for row, byte, exists in self._row_scale_bytes(strip, packed):
            offset = (strip.local_row + row) * blocks + strip.local_column // BLOCK
            numerics.store_shared_byte(shared + offset, byte, exists)
        return shared

    def _store_gathered_row_scales(
        self, scales: cute.Tensor, stride: Int64, strip: _Strip, shared: Int32
    ) -> None:
        """Writes the CTA's scales in pieces of four, in which they lie together in both layouts."""
        rows, blocks = self._row_scale_extents(strip)
        base = scales.iterator.toint()
        policy = self._row_scale_policy()
        pieces_per_row = self.tuning.tile_columns // BLOCK // _SWIZZLE_BLOCKS
        pieces = self.tuning.tile_rows * pieces_per_row
        first_row = strip.row - strip.local_row
        first_block = (strip.column - strip.local_column) // BLOCK
        is_aligned = (base | (0 if self.config.swizzled else stride)) % _SWIZZLE_BLOCKS == 0
        for first in range(0, pieces, self.tuning.threads):
            piece = cute.arch.thread_idx()[0] + first
            row = first_row + piece // pieces_per_row
            block = first_block + piece % pieces_per_row * _SWIZZLE_BLOCKS
            exists = (piece < pieces) & (row < rows)
            address = base + self._row_scale_offset(row, block, stride, blocks)
            word = numerics.load_shared(
                shared + cutlass.min(piece, Int32(pieces - 1)) * _SWIZZLE_BLOCKS, 1
            )[0]
            as_word = is_aligned & (block + _SWIZZLE_BLOCKS <= blocks)
            numerics.store_words(address, [word], exists & as_word, policy)
            for i in range(_SWIZZLE_BLOCKS):
                as_byte = (as_word == Boolean(False)) & (block + i < blocks)
                numerics.store_byte(address + i, word >> Uint32(8 * i), exists & as_byte, policy)

    def _store_column_scales(
        self, scales: cute.Tensor, strip: _Strip, packed: list[Uint32]
    ) -> None:
        columns = self.tuning.columns
        block = strip.row // BLOCK
        base = scales.iterator.toint()
        has_first_row = strip.row % BLOCK == 0
        if self.config.swizzled:
            m = _round_up(strip.m, _SWIZZLE_ELEMENTS)
            n = _round_up(strip.n, _SWIZZLE_ELEMENTS)
            inside = has_first_row & (strip.row < m) & (strip.column < n)
            address = base + _swizzled_offset(strip.column, block, m // _SWIZZLE_ELEMENTS)
            policy = None
            if self.tuning.tile_rows < _SWIZZLE_ELEMENTS:
                policy = numerics.retention_policy()
            self._store_bytes(address, packed, inside, distance=16, policy=policy)
            return
        inside = has_first_row & (strip.row < strip.m) & (strip.column < strip.n)
        address = base + block * extents(scales)[1] + strip.column
        aligned = (base | extents(scales)[1]) % columns == 0
        numerics.store_words(address, packed, inside & aligned)
        unaligned = inside & (aligned == Boolean(False))
        self._store_bytes(address, packed, unaligned, distance=1, policy=None)

    def _store_bytes(
        self,
        address: Int64,
        packed: Sequence[Uint32],
        predicate: Boolean,
        distance: int,
        policy: Int64 | None,
    ) -> None:
        for i in range(4 * len(packed)):
            byte = packed[i // 4] >> (i % 4 * 8)
            numerics.store_byte(address + i * distance, byte, predicate, policy)

    def _store_data(
        self,
        rowwise_data: cute.Tensor | None,
        row_scales: list[Uint32] | None,
        columnwise_data: cute.Tensor | None,
        column_scales: list[Uint32] | None,
        strip: _Strip,
        words: list[list[Uint32]],
    ) -> None:
        """Scales, converts and writes the elements, row by row, so that few floats live at once."""
        columns = self.tuning.columns
        offset = strip.row * strip.n + strip.column
        column_factors = None
        if column_scales is not None:
            column_factors = [
                numerics.inverse_scale(column_scales[i // 4], i % 4) for i in range(columns)
            ]
        for r, row in enumerate(words):
            inside = r < strip.rows_inside
            values = self._floats(row)
            if row_scales is not None:
                factor = numerics.inverse_scale(row_scales[r // 4], r % 4)
                address = rowwise_data.iterator.toint() + (offset + strip.n * r)
                self._store_fp8(address, values, [factor] * columns, inside)
            if column_factors is not None:
                address = columnwise_data.iterator.toint() + (offset + strip.n * r)
                self._store_fp8(address, values, column_factors, inside)

    def _store_fp8(
        self, address: Int64, values: list[Float32], factors: list[Float32], predicate: Boolean
    ) -> None:
        scaled = numerics.scale(self.architecture, values, factors)
        words = numerics.to_fp8(self.config.fp8_dtype, scaled)
        numerics.store_words(address, words, predicate)

    def _raise_amax(
        self, amax: cute.Tensor, amax_so_far: Uint32, magnitudes: list[Float32]
    ) -> None:
        """At most one atomic maximum per CTA: they all go to one address."""
        thread = cute.arch.thread_idx()[0]
        largest = numerics.warp_max(numerics.largest_bits(magnitudes))
        warps = self.tuning.threads // WARP
        if warps > 1:
            shared = cute.arch.alloc_smem(Uint32, warps).toint()
            numerics.store_shared(shared + thread // WARP * 4, [largest])
            cute.arch.sync_threads()
            address = shared + cutlass.min(thread, Int32(warps - 1)) * 4
            largest = numerics.warp_max(numerics.load_shared(address, 1)[0])
        # Signed: a negative start value lies below.
        raises = Int32(largest) > Int32(amax_so_far)
        numerics.atomic_max_nonnegative(amax.iterator.toint(), largest, (thread == 0) & raises)
