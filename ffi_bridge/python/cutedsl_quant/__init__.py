"""MXFP8 quantization of arrays of any framework that speaks DLPack.

    import cutedsl_quant

    q = cutedsl_quant.quantize(x)            # both directions, e4m3, compact scales
    y = cutedsl_quant.dequantize(q, "bfloat16")
    cutedsl_quant.stats()                    # who served the calls, and why not somebody else

Host arrays are served by the CPU reference, CUDA arrays by packaged CuTeDSL kernels or, where there
are none, by CUDA kernels.
"""

from cutedsl_quant._backend import (
    backend_mode,
    packages,
    recent_errors,
    reset_stats,
    set_backend_mode,
    stats,
)
from cutedsl_quant._cast import Quantized, dequantize, quantize
from cutedsl_quant._jit import enable_jit, register_factory

register_factory()

__all__ = [
    "Quantized",
    "backend_mode",
    "dequantize",
    "enable_jit",
    "packages",
    "quantize",
    "recent_errors",
    "reset_stats",
    "set_backend_mode",
    "stats",
]
