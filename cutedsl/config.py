"""Kernel configurations: which of the quantization kernels a call needs.

The same encoding as QuantizeConfig in common/include/cutedsl_quant/config.h: a 32-bit id (the key
of every kernel table) and a name (the TVM-FFI function of the kernel). Needs no CuTeDSL.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import itertools
from collections.abc import Iterable

# Values of the C++ enumeration DType.
DTYPE_CODES = {"fp32": 4, "fp16": 5, "bf16": 6}
FP8_DTYPE_CODES = {"fp8_e4m3fn": 7, "fp8_e5m2": 8}
DTYPE_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}

ACTIVATIONS = ("relu", "gelu", "silu", "qgelu", "srelu")
DERIVATIVES = tuple("d" + activation for activation in ACTIVATIONS)
# Values of the C++ enumeration Activation.
ACTIVATION_CODES = {token: code for code, token in enumerate(("none", *ACTIVATIONS, *DERIVATIVES))}

NAME_PREFIX = "cutedsl_mxfp8_"

# Rows of the input that go into one row of the dbias workspace, without and with a derivative: the
# same numbers as DbiasChunkRows in common/numerics.h.
_DBIAS_CHUNK_ROWS = 128
_DBIAS_CHUNK_ROWS_WITH_DACT = 64

# Boolean fields in the order of the id's bits and of the name.
_FLAGS = (
    "rowwise",
    "colwise",
    "swizzled",
    "with_amax",
    "with_dbias",
    "with_dact",
    "with_act",
    "use_2d_quantization",
)
_FIRST_FLAG_BIT = 16
_ACTIVATION_BIT = 24


@dataclasses.dataclass(frozen=True)
class QuantizeConfig:
    """One kernel. Any combination can be written down; `is_legal` says whether a kernel exists."""

    dtype: str = "bf16"  # of the input: fp32, fp16, bf16
    fp8_dtype: str = "fp8_e4m3fn"  # of the output: fp8_e4m3fn, fp8_e5m2
    rowwise: bool = False  # 1x32 blocks along N
    colwise: bool = False  # 32x1 blocks along M
    swizzled: bool = False  # scales in the GEMM's 128x4 tiles instead of compact
    with_amax: bool = False  # global amax
    with_dbias: bool = False  # column sums
    with_dact: bool = False  # the input is a gradient, multiplied by activation'(act_input)
    with_act: bool = False  # output = quantize(activation(input))
    use_2d_quantization: bool = False  # 32x32 blocks: the CUDA fallback's alone
    activation: str = "none"

    def __post_init__(self) -> None:
        for field, accepted in (
            ("dtype", DTYPE_CODES),
            ("fp8_dtype", FP8_DTYPE_CODES),
            ("activation", ACTIVATION_CODES),
        ):
            value = getattr(self, field)
            if value not in accepted:
                raise ValueError(
                    f"QuantizeConfig: {field} is {value!r}, accepted: {', '.join(accepted)}"
                )

    @property
    def id(self) -> int:
        """bits 0-7 dtype, 8-15 fp8_dtype, 16-23 the flags in order, 24-31 activation."""
        value = DTYPE_CODES[self.dtype] | FP8_DTYPE_CODES[self.fp8_dtype] << 8
        for bit, flag in enumerate(_FLAGS, _FIRST_FLAG_BIT):
            value |= int(getattr(self, flag)) << bit
        return value | ACTIVATION_CODES[self.activation] << _ACTIVATION_BIT

    @property
    def name(self) -> str:
        """cutedsl_mxfp8_<dtype>_<fp8>_<the flags in order as 0 or 1>_<activation>."""
        flags = "_".join(str(int(getattr(self, flag))) for flag in _FLAGS)
        return f"{NAME_PREFIX}{self.dtype}_{self.fp8_dtype}_{flags}_{self.activation}"

    @property
    def is_legal(self) -> bool:
        """Whether a CuTeDSL kernel exists for it."""
        if not (self.rowwise or self.colwise) or self.use_2d_quantization:
            return False
        if self.with_act:
            return self.activation in ACTIVATIONS and not (self.with_dact or self.with_dbias)
        if self.with_dact:
            return self.activation in DERIVATIVES
        return self.activation == "none"

    @property
    def is_cast(self) -> bool:
        """Whether nothing is fused with the cast (but for the global amax)."""
        return not (self.with_dbias or self.with_dact or self.with_act)

    @property
    def in_both_directions(self) -> bool:
        return self.rowwise and self.colwise

    @property
    def has_exponentials(self) -> bool:
        """Whether the activation, or the derivative, takes an exponential of each element."""
        return self.activation.endswith(("gelu", "silu"))

    @property
    def dbias_chunk_rows(self) -> int:
        """How many rows of the input are summed up in one row of the dbias workspace."""
        return _DBIAS_CHUNK_ROWS_WITH_DACT if self.with_dact else _DBIAS_CHUNK_ROWS

    @classmethod
    def parse(cls, name: str) -> QuantizeConfig:
        """Inverse of `name`; ValueError if `name` is not the name of a legal configuration."""
        try:
            return _configs_by_name()[name]
        except KeyError:
            raise ValueError(
                f"QuantizeConfig.parse: {name!r} is not the name of a legal configuration, "
                f"which looks like {all_legal_configs()[0].name!r}"
            ) from None

    @classmethod
    def from_id(cls, config_id: int) -> QuantizeConfig:
        """Inverse of `id`; ValueError if `config_id` is not the id of a legal configuration."""
        for config in all_legal_configs():
            if config.id == config_id:
                return config
        raise ValueError(
            f"QuantizeConfig.from_id: {config_id!r} is not the id of a legal configuration"
        )


@functools.cache
def all_legal_configs() -> tuple[QuantizeConfig, ...]:
    """All configurations that have a kernel, in ascending order of id."""
    fusions = [{}, {"with_dbias": True}]
    fusions += [{"with_act": True, "activation": token} for token in ACTIVATIONS]
    fusions += [
        {"with_dact": True, "with_dbias": with_dbias, "activation": token}
        for with_dbias in (False, True)
        for token in DERIVATIVES
    ]
    configs = (
        QuantizeConfig(dtype, fp8_dtype, rowwise, colwise, swizzled, with_amax, **fusion)
        for dtype, fp8_dtype, (rowwise, colwise), swizzled, with_amax, fusion in itertools.product(
            DTYPE_CODES,
            FP8_DTYPE_CODES,
            ((True, False), (False, True), (True, True)),
            (False, True),
            (False, True),
            fusions,
        )
    )
    return tuple(sorted(configs, key=lambda config: config.id))


@functools.cache
def _configs_by_name() -> dict[str, QuantizeConfig]:
    return {config.name: config for config in all_legal_configs()}


@functools.cache
def config_sets() -> dict[str, tuple[QuantizeConfig, ...]]:
    """The named sets, each in ascending order of id.

    cast: the plain casts (72).
    training: what training in bf16 asks for (204): both FP8 types, every direction, layout and
    fusion, without the global amax, which belongs to recipes with one scale for a whole tensor.
    full: every legal configuration (1224).
    """
    return {
        "cast": tuple(config for config in all_legal_configs() if config.is_cast),
        "training": tuple(
            config
            for config in all_legal_configs()
            if config.dtype == "bf16" and not config.with_amax
        ),
        "full": all_legal_configs(),
    }


def select(patterns: Iterable[str]) -> tuple[QuantizeConfig, ...]:
    """The union of named sets, names and globs over names, in ascending order of id.

    ValueError for a pattern that selects nothing, since that is a typing error.
    """
    selected: dict[int, QuantizeConfig] = {}
    for pattern in patterns:
        matches = config_sets().get(pattern)
        if matches is None:
            matches = [c for c in all_legal_configs() if fnmatch.fnmatchcase(c.name, pattern)]
        if not matches:
            raise ValueError(
                f"select: {pattern!r} is neither a set ({', '.join(config_sets())}) nor a name or "
                f"glob that matches a legal configuration such as {all_legal_configs()[0].name!r}"
            )
        selected.update((config.id, config) for config in matches)
    return tuple(selected[config_id] for config_id in sorted(selected))
