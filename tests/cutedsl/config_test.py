"""Kernel configurations, named sets and architectures."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from cutedsl import architectures, config
from cutedsl.config import QuantizeConfig

# (configuration, id, name), written out by hand from the definition of the encoding.
ENCODINGS = [
    (
        QuantizeConfig("bf16", "fp8_e4m3fn", rowwise=True),
        0x00010706,
        "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none",
    ),
    (
        QuantizeConfig("fp32", "fp8_e5m2", True, True, True, True),
        0x000F0804,
        "cutedsl_mxfp8_fp32_fp8_e5m2_1_1_1_1_0_0_0_0_none",
    ),
    (
        QuantizeConfig(
            "fp16", "fp8_e4m3fn", colwise=True, with_dbias=True, with_dact=True, activation="dgelu"
        ),
        0x07320705,
        "cutedsl_mxfp8_fp16_fp8_e4m3fn_0_1_0_0_1_1_0_0_dgelu",
    ),
    (
        QuantizeConfig("bf16", "fp8_e5m2", rowwise=True, with_act=True, activation="srelu"),
        0x05410806,
        "cutedsl_mxfp8_bf16_fp8_e5m2_1_0_0_0_0_0_1_0_srelu",
    ),
]

# Values a field can take, for perturbing it.
DOMAINS = {
    "dtype": config.DTYPE_CODES,
    "fp8_dtype": config.FP8_DTYPE_CODES,
    "activation": config.ACTIVATION_CODES,
}


@pytest.mark.parametrize("case", ENCODINGS, ids=lambda case: case[2])
def test_encoding(case):
    """Would catch an id or a name that differs from what packages and C++ use."""
    configuration, config_id, name = case
    assert configuration.id == config_id
    assert configuration.name == name
    assert QuantizeConfig.from_id(config_id) == configuration
    assert QuantizeConfig.parse(name) == configuration


def test_every_field_counts():
    """Would catch a field that the id or the name leaves out: two kernels under one key."""
    base = QuantizeConfig()
    for field in dataclasses.fields(QuantizeConfig):
        for value in DOMAINS.get(field.name, (False, True)):
            changed = dataclasses.replace(base, **{field.name: value})
            same = value == getattr(base, field.name)
            assert (changed.id == base.id) == same, field.name
            assert (changed.name == base.name) == same, field.name


def test_all_legal_configs():
    """Would catch a fusion that is lost, doubled or out of order."""
    configs = config.all_legal_configs()
    assert len(configs) == 3 * 2 * 3 * 2 * 2 * 17 == 1224
    ids = [c.id for c in configs]
    assert ids == sorted(set(ids))
    assert len({c.name for c in configs}) == len(configs)
    assert all(c.is_legal for c in configs)
    for c in configs:
        assert QuantizeConfig.from_id(c.id) == QuantizeConfig.parse(c.name) == c


def test_legality_is_what_is_listed():
    """Would catch is_legal accepting a combination that no list contains, or refusing one."""
    legal = set(config.all_legal_configs())
    flags = [f.name for f in dataclasses.fields(QuantizeConfig) if f.name not in DOMAINS]
    for values in itertools.product((False, True), repeat=len(flags)):
        for activation in config.ACTIVATION_CODES:
            c = QuantizeConfig(activation=activation, **dict(zip(flags, values, strict=True)))
            assert c.is_legal == (c in legal), c


@pytest.mark.parametrize(
    "name",
    [
        "",
        "cutedsl_mxfp8_bf16_fp8_e4m3fn_0_0_0_0_0_0_0_0_none",  # no direction
        "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_1_none",  # two-dimensional blocks
        "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_1_0_dgelu",  # derivative as activation
        "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none_",
        "cutedsl_mxfp8_fp64_fp8_e4m3fn_1_0_0_0_0_0_0_0_none",
    ],
)
def test_parse_refuses(name):
    """Would catch a name that is taken for a configuration which has no kernel."""
    with pytest.raises(ValueError, match=r"QuantizeConfig.parse"):
        QuantizeConfig.parse(name)


@pytest.mark.parametrize("config_id", [0, 0x00000706, 0x00810706, 0x01010706, 0xFFFFFFFF])
def test_from_id_refuses(config_id):
    """As above, by id."""
    with pytest.raises(ValueError, match=r"QuantizeConfig.from_id"):
        QuantizeConfig.from_id(config_id)


def test_unknown_values_are_refused():
    """Would catch a typing error in a field that travels on until a dictionary lookup fails."""
    for field in DOMAINS:
        with pytest.raises(ValueError, match=f"{field} is 'nonsense'"):
            QuantizeConfig(**{field: "nonsense"})


def test_sets():
    """Would catch a set that grows or shrinks unnoticed."""
    sets = config.config_sets()
    sizes = {name: len(configs) for name, configs in sets.items()}
    assert sizes == {"cast": 72, "training": 204, "full": 1224}
    assert {(c.dtype, c.with_amax) for c in sets["training"]} == {("bf16", False)}
    assert {(c.with_dbias, c.activation) for c in sets["cast"]} == {(False, "none")}


def test_dbias_chunk_rows():
    """Would catch a workspace that is not the one the C++ side allocates."""
    for c in config.all_legal_configs():
        assert c.dbias_chunk_rows == (64 if c.with_dact else 128)


def test_select():
    """Would catch a union that repeats or reorders kernels, or a glob that matches too little."""
    one = "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_1_0_0_0_0_0_0_none"
    assert [c.name for c in config.select([one])] == [one]
    assert config.select(["cast"]) == config.config_sets()["cast"]
    assert len(config.select(["*_fp32_*"])) == 1224 // 3
    assert config.select(["*_none", "cast", one]) == config.select(["*_none"])
    with pytest.raises(ValueError, match="'casts'"):
        config.select(["cast", "casts"])


def test_architectures():
    """Would catch two architectures claiming a device, which makes the choice ambiguous."""
    served = [cc for a in architectures.ARCHITECTURES.values() for cc in a.compute_capabilities]
    assert sorted(served) == [90, 100, 103, 120, 121]
    for name, architecture in architectures.ARCHITECTURES.items():
        assert architectures.get(name) is architecture
        for compute_capability in architecture.compute_capabilities:
            assert architectures.for_compute_capability(compute_capability) is architecture
    assert architectures.for_compute_capability(89) is None
    with pytest.raises(ValueError, match=r"sm_80.*sm_90a, sm_100f, sm_120f"):
        architectures.get("sm_80")
