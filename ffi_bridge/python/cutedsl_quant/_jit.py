"""Compilation of kernels on first use."""

from __future__ import annotations

import threading

import tvm_ffi

from cutedsl_quant._backend import set_backend_mode

_FACTORY = "cutedsl_quant.compile_kernel"


def enable_jit() -> None:
    """Compiles kernels that no package has when they are first needed (about a second each).

    Imports CuTeDSL, registers its compiler, and sets the backend mode to "jit". A compilation that
    fails is remembered until set_backend_mode is called; recent_errors says why. ImportError if the
    package cutedsl or nvidia-cutlass-dsl is not installed.
    """
    try:
        from cutedsl import compiler
        from cutedsl.config import QuantizeConfig
    except ImportError as error:
        raise ImportError(
            "enable_jit needs the Python packages cutedsl and nvidia-cutlass-dsl"
        ) from error

    one_at_a_time = threading.Lock()  # the compiler makes no promise about threads

    def compile_kernel(config_name: str, compute_capability: int) -> tvm_ffi.Function:
        config = QuantizeConfig.parse(str(config_name))
        with one_at_a_time:
            return compiler.compile_function(config, compute_capability)

    tvm_ffi.register_global_func(_FACTORY, compile_kernel, override=True)
    set_backend_mode("jit")
