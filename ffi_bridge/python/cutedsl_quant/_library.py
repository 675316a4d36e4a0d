"""The shared library behind this package, as a TVM-FFI module."""

from __future__ import annotations

from pathlib import Path

import tvm_ffi

_NAME = "libcutedsl_quant_ffi.so"


def _find() -> Path:
    here = Path(__file__).absolute().parent
    # Beside this file where the package is installed; in Bazel's tree, where it is built.
    candidates = [here / _NAME, here.parent.parent / _NAME]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise ImportError(f"cutedsl_quant: there is no {' or '.join(map(str, candidates))}")


def _load() -> tvm_ffi.Module:
    module = tvm_ffi.load_module(_find())
    # A call may wait for a kernel that another thread compiles in Python: never with the GIL held.
    module.quantize.release_gil = True
    module.quantize_fused.release_gil = True
    return module


library = _load()
