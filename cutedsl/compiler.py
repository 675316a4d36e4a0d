"""Compiles a configuration for an architecture: the only place that calls `cute.compile`.

Needs no GPU. Importing this module imports CuTeDSL (0.6 to 0.9 s).
"""

from __future__ import annotations

import os

import cutlass
import cutlass.cute as cute
import tvm_ffi
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream, make_ptr

from cutedsl import architectures, tuning
from cutedsl.config import QuantizeConfig
from cutedsl.kernels.quantize import Quantize

# Kernels ask for rows of a multiple of this many elements and for data aligned to 16 bytes.
COLUMN_MULTIPLE = 16
DATA_ALIGNMENT = 16

_DTYPES = {
    "fp32": cutlass.Float32,
    "fp16": cutlass.Float16,
    "bf16": cutlass.BFloat16,
    "fp8_e4m3fn": cutlass.Float8E4M3FN,
    "fp8_e5m2": cutlass.Float8E5M2,
}


def _arguments(config: QuantizeConfig) -> list[object]:
    """Stand-ins for the arguments of ffi_bridge/kernel_package_abi.h, in that order."""
    rows = cute.sym_int64()
    columns = cute.sym_int64(divisibility=COLUMN_MULTIPLE)

    def matrix(present: bool, dtype: str) -> object:
        if not present:
            return None
        return make_fake_compact_tensor(
            _DTYPES[dtype], (rows, columns), stride_order=(1, 0), assumed_align=DATA_ALIGNMENT
        )

    def scales(present: bool) -> object:
        if not present:
            return None
        shape = (cute.sym_int64(), cute.sym_int64())
        return make_fake_compact_tensor(cutlass.Uint8, shape, stride_order=(1, 0), assumed_align=1)

    amax = make_fake_compact_tensor(cutlass.Float32, (1,), assumed_align=4)
    dbias_workspace = make_fake_compact_tensor(
        cutlass.Float32, (cute.sym_int64(), columns), stride_order=(1, 0), assumed_align=4
    )
    return [
        matrix(True, config.dtype),
        matrix(config.with_dact, config.dtype),
        matrix(config.rowwise, config.fp8_dtype),
        scales(config.rowwise),
        matrix(config.colwise, config.fp8_dtype),
        scales(config.colwise),
        amax if config.with_amax else None,
        dbias_workspace if config.with_dbias else None,
        make_ptr(cutlass.Float32, 0, cute.AddressSpace.gmem, assumed_align=4),
        make_fake_stream(),
    ]


def compile_kernel(
    config: QuantizeConfig, architecture: str, variant: tuning.Tuning | None = None
) -> object:
    """Compiles `config` for `architecture` ("sm_90a", ...) and returns what `cute.compile` returns.

    `variant` replaces the shapes that the tuning table chooses. ValueError for an unknown
    architecture or a configuration without a kernel.
    """
    target = architectures.get(architecture)
    if not config.is_legal:
        raise ValueError(f"compile_kernel: no kernel exists for {config.name}")
    shapes = (variant,) if variant else tuning.choose(config, target)
    return cute.compile(
        Quantize(config, target, shapes),
        *_arguments(config),
        options=f"--enable-tvm-ffi --gpu-arch {target.name}",
    )


def compile_to_object(
    config: QuantizeConfig,
    architecture: str,
    path: str | os.PathLike[str],
    variant: tuning.Tuning | None = None,
) -> None:
    """Writes `config` compiled for `architecture` to the object file `path` (ending in ".o").

    Its one global symbol of interest is `__tvm_ffi_<config.name>`, a TVMFFISafeCallType. The same
    arguments give the same bytes in every process. Errors as for `compile_kernel`.
    """
    compiled = compile_kernel(config, architecture, variant)
    compiled.export_to_c(os.fspath(path), function_name=config.name)


def compile_function(config: QuantizeConfig, compute_capability: int) -> tvm_ffi.Function:
    """Compiles `config` for the devices of `compute_capability` (10 * major + minor), to be called
    in this process.

    Returns a plain TVM-FFI function: calling it from C++ does not enter Python. ValueError if there
    is no architecture for such devices or no kernel for `config`; RuntimeError if CuTeDSL sees no
    such device.
    """
    target = architectures.for_compute_capability(compute_capability)
    if target is None:
        raise ValueError(
            f"compile_function: no kernels exist for compute capability {compute_capability}, "
            f"only for {', '.join(architectures.ARCHITECTURES)}"
        )
    compiled = compile_kernel(config, target.name)
    # Some releases return a Python wrapper for keyword arguments around the function itself.
    unwrap = getattr(compiled, "__tvm_ffi_object__", None)
    function = compiled if unwrap is None else unwrap()
    if function is None:
        raise RuntimeError(
            f"compile_function: CuTeDSL compiled {config.name} for {target.name} but sees no device"
            " here that could run it"
        )
    return function
