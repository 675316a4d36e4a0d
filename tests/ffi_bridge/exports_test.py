"""The shared library as other languages see it: its functions, and nothing else."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi

_FOLDER = Path("tests/ffi_bridge")
_LIBRARY = Path("ffi_bridge/libcutedsl_quant_ffi.so")
_FACTORY = "cutedsl_quant.compile_kernel"
_MARK = 0x44

Factory = Callable[[str, int], tvm_ffi.Function]


@pytest.fixture
def bridge() -> Iterator[tvm_ffi.Module]:
    """The exports with kernels for host tensors, no packages, and compilation on first use."""
    module = tvm_ffi.load_module(_FOLDER / "libhost_bridge.so")
    module.serve_host_tensors([])
    module.set_backend_mode("jit")
    module.reset_stats()
    yield module
    tvm_ffi.remove_global_func(_FACTORY)


def _register(factory: Factory) -> None:
    tvm_ffi.register_global_func(_FACTORY, factory, override=True)


def _quantize(module: tvm_ffi.Module) -> np.ndarray:
    """A rowwise cast of 32 x 64 zeros; its data tell who served it (0: the reference)."""
    data = np.full((32, 64), 0xAA, np.uint8)
    scales = np.full((32, 2), 0xAA, np.uint8)
    x = np.zeros((32, 64), np.float32)
    module.quantize(x, data, scales, None, None, None, None, "e4m3", False, None)
    return data


def test_a_factory_in_python_compiles_once_for_many_threads(bridge: tvm_ffi.Module) -> None:
    """Threads that wait for a compilation while they hold the interpreter would never end."""
    compiled: list[tuple[str, int]] = []

    def factory(name: str, compute_capability: int) -> tvm_ffi.Function:
        compiled.append((str(name), compute_capability))
        time.sleep(0.1)  # lets the other threads run, as a compiler in C++ does
        return bridge.marking_kernel(_MARK)

    _register(factory)
    barrier = threading.Barrier(8)
    served: list[bool] = []

    def call() -> None:
        barrier.wait()
        served.append(bool((_quantize(bridge) == _MARK).all()))

    threads = [threading.Thread(target=call, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert served == [True] * 8
    assert compiled == [("cutedsl_mxfp8_fp32_fp8_e4m3fn_1_0_0_0_0_0_0_0_none", 0)]
    assert bridge.stats()["calls.cutedsl"] == 8


def test_an_exception_in_the_factory_falls_back_until_the_mode_is_set(
    bridge: tvm_ffi.Module,
) -> None:
    """A Python exception must not cross the call, nor be asked for again by every call."""
    broken = True
    asked = 0

    def factory(name: str, compute_capability: int) -> tvm_ffi.Function:
        nonlocal asked
        asked += 1
        if broken:
            raise ValueError("not today")
        return bridge.marking_kernel(_MARK)

    _register(factory)
    assert (_quantize(bridge) == 0).all()
    assert (_quantize(bridge) == 0).all()
    assert asked == 1
    assert bridge.stats()["misses.compile_failed"] == 2
    assert any("ValueError: not today" in str(error) for error in bridge.recent_errors())
    broken = False
    bridge.set_backend_mode("jit")
    assert (_quantize(bridge) == _MARK).all()
    assert asked == 2


def test_no_factory(bridge: tvm_ffi.Module) -> None:
    """Compilation that is on but impossible is its own reason."""
    _register(lambda name, compute_capability: bridge.marking_kernel(_MARK))
    tvm_ffi.remove_global_func(_FACTORY)
    assert (_quantize(bridge) == 0).all()
    assert bridge.stats()["misses.no_factory"] == 1
    _register(lambda name, compute_capability: bridge.marking_kernel(_MARK))


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(_LIBRARY.absolute()), mode=ctypes.RTLD_LOCAL)


@pytest.mark.parametrize(
    "function",
    [
        "__tvm_ffi_quantize",
        "__tvm_ffi_quantize_fused",
        "__tvm_ffi_dequantize",
        "__tvm_ffi_empty",
        "__tvm_ffi_stats",
        "__tvm_ffi_reset_stats",
        "__tvm_ffi_set_backend_mode",
        "__tvm_ffi_backend_mode",
        "__tvm_ffi_packages",
        "__tvm_ffi_recent_errors",
        "cutedsl_quant_stats",
        "cutedsl_quant_reset_stats",
    ],
)
def test_exports(library: ctypes.CDLL, function: str) -> None:
    """A function that vanishes breaks bindings that cannot be compiled here."""
    assert getattr(library, function)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((4, 4), np.complex64), "Quantize: input has type .*; float32, float16"),
        (np.zeros((4, 4), np.float64), "Quantize: input has type float64; float32, float16"),
    ],
)
def test_other_types_are_errors(x: np.ndarray, message: str) -> None:
    """A type that TVM-FFI has no name for used to end the process."""
    module = tvm_ffi.load_module(_LIBRARY.absolute())
    with pytest.raises(ValueError, match=message):
        module.quantize(x, None, None, None, None, None, None, "e4m3", False, None)


def test_empty() -> None:
    """Memory for arrays in pinned memory is ordinary, and a negative size is not a huge one."""
    module = tvm_ffi.load_module(_LIBRARY.absolute())
    cuda_host = tvm_ffi.device(tvm_ffi.DLDeviceType.kDLCUDAHost, 0)
    tensor = module.empty(tvm_ffi.Shape((2, 3)), tvm_ffi.dtype("float32"), cuda_host)
    assert (tuple(tensor.shape), tensor.device.type) == ((2, 3), "cpu")
    with pytest.raises(ValueError, match="empty: shape has the dimension -2"):
        module.empty(tvm_ffi.Shape((-2, 3)), tvm_ffi.dtype("float32"), cuda_host)


@pytest.mark.parametrize(
    "function",
    [
        "nvte_quantize",
        "nvte_create_tensor",
        "nvte_set_cutedsl_quant_backend",
        "_ZN13cutedsl_quant14SetBackendModeENS_11BackendModeE",
        "cudaGetDevice",
    ],
)
def test_does_not_export(library: ctypes.CDLL, function: str) -> None:
    """Names that would be mixed up with TransformerEngine's, or with another copy of this library
    in the same process."""
    assert not hasattr(library, function)


def test_a_c_program_reads_the_counters(library: ctypes.CDLL) -> None:
    """The C function and the TVM-FFI function of one library show the same counters."""

    class Counter(ctypes.Structure):
        _fields_ = (("name", ctypes.c_char_p), ("count", ctypes.c_uint64))

    library.cutedsl_quant_stats.restype = ctypes.c_size_t
    library.cutedsl_quant_stats.argtypes = [ctypes.POINTER(Counter), ctypes.c_size_t]
    module = tvm_ffi.load_module(_LIBRARY.absolute())
    module.reset_stats()
    _quantize(module)
    counters = (Counter * library.cutedsl_quant_stats(None, 0))()
    library.cutedsl_quant_stats(counters, len(counters))
    by_name = {counter.name.decode(): counter.count for counter in counters}
    assert by_name == dict(module.stats())
    assert by_name["calls.reference"] == 1
    assert by_name["misses.host_tensor"] == 1
