"""What the compiler makes of the fusions: the machine code of some of each family."""

from __future__ import annotations

import itertools
import os
import re
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from cutedsl import architectures, compiler, tuning
from cutedsl.config import DTYPE_BYTES, QuantizeConfig
from tests.cutedsl import cubin

CUOBJDUMP = os.environ["CUOBJDUMP"]
NVDISASM = os.environ["NVDISASM"]

FUSIONS = (
    {"with_dbias": True},
    {"with_act": True, "activation": "gelu"},
    {"with_act": True, "activation": "srelu"},
    {"with_dact": True, "activation": "dgelu"},
    {"with_dact": True, "with_dbias": True, "activation": "dgelu"},
)
CONFIGS = [
    QuantizeConfig(dtype, "fp8_e4m3fn", rowwise, colwise, swizzled, with_amax=True, **fusion)
    for dtype, (rowwise, colwise, swizzled), fusion in itertools.product(
        ("bf16", "fp32"),
        ((True, False, False), (False, True, True), (True, True, False)),
        FUSIONS,
    )
    if dtype == "bf16" or "with_act" not in fusion  # to save time
]


def compile_to_cubin(config: QuantizeConfig, architecture: str, folder: Path) -> Path:
    path = folder / f"{config.name}.o"
    compiler.compile_to_object(config, architecture, path)
    (image,) = cubin.find_cubins(path.read_bytes())
    path = path.with_suffix(".cubin")
    path.write_bytes(image)
    return path


@pytest.fixture(scope="module", params=architectures.ARCHITECTURES)
def cubins(request, tmp_path_factory) -> tuple[str, list[tuple[QuantizeConfig, Path]]]:
    """An architecture and the configurations with their machine code for it."""
    folder = tmp_path_factory.mktemp(request.param)
    # Not forked: compiling starts threads.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        paths = pool.map(
            compile_to_cubin, CONFIGS, [request.param] * len(CONFIGS), [folder] * len(CONFIGS)
        )
        return request.param, list(zip(CONFIGS, paths, strict=True))


def test_no_spills(cubins):
    """Would catch a fused kernel whose registers do not suffice and go through memory instead."""
    for config, path in cubins[1]:
        usage = cubin.resource_usage(CUOBJDUMP, path)
        assert (usage["STACK"], usage["LOCAL"]) == (0, 0), (config.name, usage)


def test_loads_come_first(cubins):
    """Would catch loads that wait for arithmetic, and inputs that are read more than once.

    Each kernel has two copies of its loads, one with predicates.
    """
    architecture, kernels = cubins
    with ThreadPoolExecutor() as pool:
        codes = list(pool.map(lambda kernel: cubin.disassemble(NVDISASM, kernel[1]), kernels))
    for (config, _), code in zip(kernels, codes, strict=True):
        assert not re.search(r"\b(LDL|STL)\b", code), config.name
        operations = re.findall(r"LDG\.\S*128|MUFU|[HF]MNMX|F2FP", code)
        loads = sum(op.startswith("LDG") for op in operations)
        shape = tuning.choose(config, architectures.get(architecture))
        words = shape.columns * shape.rows * DTYPE_BYTES[config.dtype] // 4
        assert loads == 2 * (1 + config.with_dact) * words // 4, config.name
        assert all(op.startswith("LDG") for op in operations[:loads]), config.name
