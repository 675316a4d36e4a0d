"""A package that Bazel built: what it says about itself, exports, needs, and refuses."""

from __future__ import annotations

import ctypes
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi

from cutedsl import architectures
from cutedsl.config import QuantizeConfig, select
from cutedsl.digest import source_digest
from tests.tools import elf
from tools.gen_kernels import manifest as manifests

LIBRARY, MANIFEST = (
    Path(path) for path in sorted(os.environ["PACKAGE"].split(), key=lambda p: p.endswith(".json"))
)
CONFIGS = select(os.environ["CONFIGS"].split())
GETTERS = {"cutedsl_quant_kernel_package", "cutedsl_quant_kernel_package_tests_tools_package"}


class PackagedKernel(ctypes.Structure):
    _fields_ = [("config_id", ctypes.c_uint32), ("call", ctypes.c_void_p)]


class KernelPackage(ctypes.Structure):
    _fields_ = [
        ("abi_version", ctypes.c_uint32),
        ("manifest", ctypes.c_char_p),
        ("num_kernels", ctypes.c_size_t),
        ("kernels", ctypes.POINTER(PackagedKernel)),
    ]


def test_manifest_file():
    """Guards every key that the loader goes by, and the names' order (ascending id)."""
    content = LIBRARY.read_bytes()
    assert json.loads(MANIFEST.read_text()) == {
        "schema": 1,
        "abi_version": 1,
        "name": "tests_tools_package",
        "architecture": "sm_90a",
        "compute_capabilities": [90],
        "cutlass_dsl": "4.8.1",
        "tvm_ffi": "0.1.15.post2",
        "source_digest": source_digest(),
        "kernels": [config.name for config in CONFIGS],
        "library": {
            "file": LIBRARY.name,
            "size": len(content),
            "checksum": manifests.checksum(content),
        },
    }


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", 0),
        (b"\x01", 1),
        (b"\x01" + bytes(7) + b"\x01", 1 + 3),
        (struct.pack("<3Q", 2**63, 2**63, 2**64 - 1), (2**63 * 4 - 5) % 2**64),
    ],
)
def test_checksum(content: bytes, expected: int):
    """Guards the formula shared with the C++ loader: padding, odd factors, arithmetic mod 2^64."""
    assert manifests.checksum(content) == f"{expected:016x}"


def test_checksum_sees_every_change():
    """A checksum blind to a place would let a damaged library through to dlopen."""
    content = np.random.default_rng(0).integers(0, 256, 4096, dtype=np.uint8)
    reference = manifests.checksum(content.tobytes())
    for place in (0, 7, 8, 1000, 4095):
        for bit in range(8):
            damaged = content.copy()
            damaged[place] ^= 1 << bit
            assert manifests.checksum(damaged.tobytes()) != reference
    swapped = np.concatenate([content[8:16], content[:8], content[16:]])
    assert manifests.checksum(swapped.tobytes()) != reference


def test_table():
    """Guards the C table against the manifest: the loader finds kernels by id and trusts order."""
    library = ctypes.CDLL(str(LIBRARY.absolute()))
    addresses = set()
    for name in GETTERS:
        getter = getattr(library, name)
        getter.restype = ctypes.c_void_p
        addresses.add(getter())
    assert len(addresses) == 1
    package = KernelPackage.from_address(addresses.pop())
    assert package.abi_version == 1
    kernels = package.kernels[: package.num_kernels]
    assert [kernel.config_id for kernel in kernels] == [config.id for config in CONFIGS]
    assert [kernel.config_id for kernel in kernels] == sorted({c.id for c in CONFIGS})
    for config, kernel in zip(CONFIGS, kernels, strict=True):
        symbol = getattr(library, f"__tvm_ffi_{config.name}")
        assert ctypes.cast(symbol, ctypes.c_void_p).value == kernel.call
    embedded = json.loads(package.manifest)
    beside = json.loads(MANIFEST.read_text())
    del beside["library"]
    assert embedded == beside


def test_exports_nothing_else():
    """Guards the version script: leaked symbols would bind across packages in one process."""
    assert elf.read(LIBRARY).exported == GETTERS | {f"__tvm_ffi_{c.name}" for c in CONFIGS}


def test_needs_only_tvm_ffi_and_libc():
    """Guards the link: a CUDA or CuTe runtime left dynamic is missing on a user's machine."""
    library = elf.read(LIBRARY)
    libc = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6"}
    assert set(library.needed) - libc - {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"} == {
        "libtvm_ffi.so"
    }
    unexpected = re.compile(r"^_?(cuda|cu[A-Z]|CuteDSL|cute|_Z)")
    assert not [symbol for symbol in library.imported if unexpected.match(symbol)]
    assert library.search_path is None
    assert library.soname == LIBRARY.name


def test_holds_no_trace_of_the_build():
    """Guards the bytes against paths of the machine: they would differ elsewhere."""
    content = LIBRARY.read_bytes()
    traces = (b"execroot", b"sandbox", b"bazel-out", b"/kernel_package_", b"/home/", b"/root/")
    assert not [trace for trace in traces if trace in content]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "[Ee]xpects? 10"),
        ((np.zeros((32, 32), np.float32),) * 10, "argument|mismatch|Mismatch"),
        ((None,) * 10, "argument|mismatch|Mismatch"),
    ],
    ids=["none", "wrong types", "all None"],
)
def test_refuses_wrong_arguments(config: QuantizeConfig, arguments: tuple, message: str):
    """A kernel must answer a wrong call with a readable error, also where there is no GPU."""
    function = tvm_ffi.load_module(str(LIBRARY.absolute())).get_function(config.name)
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        function(*arguments)


def test_loads_without_the_compiler():
    """Guards the promise that packaged kernels need neither CuTeDSL nor its 43 MB runtime."""
    program = f"""
import sys, tvm_ffi
function = tvm_ffi.load_module({str(LIBRARY.absolute())!r}).get_function({CONFIGS[0].name!r})
assert function is not None
assert not [name for name in sys.modules if name.startswith("cutlass")]
assert "cute_dsl" not in open("/proc/self/maps").read()
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_architecture_facts():
    """Guards the capabilities of ready packages: a wrong one launches kernels on the wrong GPU."""
    for name, capabilities in {
        "sm_90a": [90],
        "sm_100f": [100, 103],
        "sm_120f": [120, 121],
    }.items():
        described = manifests.describe("x", architectures.get(name), CONFIGS, 1)
        assert described["compute_capabilities"] == capabilities
