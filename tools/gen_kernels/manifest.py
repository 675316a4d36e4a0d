"""The manifest of a kernel package: what is inside, for whom, and from what it was built.

A JSON object, embedded in the library and, with one more key about the library's file, beside it as
<library stem>.json. The loader (ffi_bridge/kernel_package) reads the file before it opens the
library: the checksum is what keeps a damaged file away from dlopen.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cutedsl.architectures import Architecture
from cutedsl.config import QuantizeConfig
from cutedsl.digest import source_digest

SCHEMA = 1

_ABI_VERSION = re.compile(r"^#define CUTEDSL_QUANT_KERNEL_ABI_VERSION (\d+)$", re.MULTILINE)


def abi_version(header: Path) -> int:
    """The number that ffi_bridge/kernel_package_abi.h defines."""
    match = _ABI_VERSION.search(header.read_text(encoding="utf-8"))
    if match is None:
        raise ValueError(f"{header} does not define CUTEDSL_QUANT_KERNEL_ABI_VERSION")
    return int(match[1])


def describe(
    name: str, architecture: Architecture, configs: Sequence[QuantizeConfig], abi: int
) -> dict[str, Any]:
    """The embedded manifest of a package `name` with one kernel for each of `configs`."""
    return {
        "schema": SCHEMA,
        "abi_version": abi,
        "name": name,
        "architecture": architecture.name,
        "compute_capabilities": list(architecture.compute_capabilities),
        "cutlass_dsl": importlib.metadata.version("nvidia-cutlass-dsl"),
        "tvm_ffi": importlib.metadata.version("apache-tvm-ffi"),
        "source_digest": source_digest(),
        "kernels": [config.name for config in sorted(configs, key=lambda config: config.id)],
    }


def describe_library(manifest: dict[str, Any], library: Path) -> dict[str, Any]:
    """`manifest` with the facts about the finished library: what lies beside it."""
    content = library.read_bytes()
    facts = {"file": library.name, "size": len(content), "checksum": checksum(content)}
    return manifest | {"library": facts}


def checksum(content: bytes) -> str:
    """Sum of w[i] * (2 * i + 1) mod 2^64 over the little-endian 64-bit words, as 16 hex digits.

    The last word is padded with zeros. Odd factors keep every bit of every word in the sum, and a
    word's place counts.
    """
    words = np.frombuffer(content + bytes(-len(content) % 8), dtype="<u8")
    factors = 2 * np.arange(words.size, dtype=np.uint64) + np.uint64(1)
    return f"{int(np.sum(words * factors, dtype=np.uint64)):016x}"


def to_json(manifest: dict[str, Any]) -> str:
    """The text of a manifest file."""
    return json.dumps(manifest, indent=2) + "\n"
