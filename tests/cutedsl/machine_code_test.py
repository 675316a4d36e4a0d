"""What the compiler made of the plain casts: the machine code in the packages of //kernels."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cutedsl import architectures
from cutedsl.config import config_sets
from tests.cutedsl import cubin

CUOBJDUMP = os.environ["CUOBJDUMP"]
NVDISASM = os.environ["NVDISASM"]
LIBRARIES = {
    path.stem.removeprefix("libkernels_"): path
    for path in map(Path, os.environ["PACKAGES"].split())
    if path.suffix == ".so"
}


@pytest.fixture(scope="module", params=architectures.ARCHITECTURES)
def package(request, tmp_path_factory) -> tuple[str, list[Path]]:
    """An architecture and a file for each cubin of its package."""
    architecture = request.param
    folder = tmp_path_factory.mktemp(architecture)
    cubins = []
    for index, image in enumerate(cubin.find_cubins(LIBRARIES[architecture].read_bytes())):
        cubins.append(folder / f"{index}.cubin")
        cubins[-1].write_bytes(image)
    return architecture, cubins


def test_every_kernel_is_there(package):
    """Would catch the tests below passing because they found nothing to look at."""
    _, cubins = package
    assert len(cubins) == len(config_sets()["cast"])


def test_no_spills(package):
    """Would catch a kernel whose registers do not suffice and go through memory instead."""
    _, cubins = package
    with ThreadPoolExecutor() as pool:
        usages = list(pool.map(lambda path: cubin.resource_usage(CUOBJDUMP, path), cubins))
    for path, usage in zip(cubins, usages, strict=True):
        assert (usage["STACK"], usage["LOCAL"]) == (0, 0), (path, usage)
        assert usage["REG"] <= 255, (path, usage)


def test_instructions(package):
    """Would catch a hardware conversion that is not used, and loads that wait for one another.

    Per kernel: the E8M0 conversion where the architecture has it, and all 16-byte loads before the
    first maximum is taken. To save time, only those from bf16 and fp32 to e4m3 are read.
    """
    architecture, cubins = package
    cubins = [path for path in cubins if re.search(rb"_(bf16|fp32)_fp8_e4m3fn_", path.read_bytes())]
    assert len(cubins) == len(config_sets()["cast"]) / 3
    has_e8m0 = architectures.get(architecture).has_e8m0_conversion
    with ThreadPoolExecutor() as pool:
        codes = list(pool.map(lambda path: cubin.disassemble(NVDISASM, path), cubins))
    for path, code in zip(cubins, codes, strict=True):
        assert bool(re.search(r"F2FP\S*\.E8\.", code)) == has_e8m0, path
        assert not re.search(r"\b(LDL|STL)\b", code), path
        operations = re.findall(r"LDG\.\S*128|[HF]MNMX", code)
        first_maximum = next(i for i, op in enumerate(operations) if not op.startswith("LDG"))
        assert first_maximum >= 4
        assert not any(op.startswith("LDG") for op in operations[first_maximum:]), path
