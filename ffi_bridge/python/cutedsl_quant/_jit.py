"""Compilation of kernels on first use."""

from __future__ import annotations

import threading

import tvm_ffi

from cutedsl_quant._backend import set_backend_mode

_FACTORY = "cutedsl_quant.compile_kernel"

_one_at_a_time = threading.Lock()  # the compiler makes no promise about threads


def _compile_kernel(config_name: str, compute_capability: int) -> tvm_ffi.Function:
    """What the bridge calls for a kernel that no package has, in the mode "jit" alone."""
    try:
        with _one_at_a_time:
            from cutedsl import compiler
            from cutedsl.config import QuantizeConfig

            return compiler.compile_function(
                QuantizeConfig.parse(str(config_name)), compute_capability
            )
    except KeyboardInterrupt:
        # No exception gets past the bridge, which falls back. This one has no text of its own.
        raise RuntimeError("interrupted from the keyboard") from None


def register_factory() -> None:
    """Offers the compiler to the bridge, unless the process has another; imports nothing of it."""
    if tvm_ffi.get_global_func(_FACTORY, allow_missing=True) is None:
        tvm_ffi.register_global_func(_FACTORY, _compile_kernel)


def enable_jit() -> None:
    """Compiles kernels that no package has when they are first needed.

    Imports CuTeDSL, which otherwise waits for the first compilation, and sets the backend mode to
    "jit", as NVTE_ENABLE_CUTEDSL_QUANT_BACKEND=1 does. A compilation that fails is remembered until
    set_backend_mode is called; recent_errors says why. ImportError if the package cutedsl or
    nvidia-cutlass-dsl is not installed.
    """
    try:
        from cutedsl import compiler  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "enable_jit needs the Python packages cutedsl and nvidia-cutlass-dsl"
        ) from error
    set_backend_mode("jit")
