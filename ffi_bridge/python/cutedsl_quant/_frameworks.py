"""What differs between frameworks: how their arrays are passed on, made, and ordered on streams."""

from __future__ import annotations

import sys
from typing import Any, Protocol

import ml_dtypes
import numpy as np
import tvm_ffi

from cutedsl_quant._library import library


class Framework(Protocol):
    def adopt(self, array: Any) -> Any:
        """What the other methods take for `array`; BufferError as for `read`."""

    def dtype(self, array: Any) -> str:
        """The name of its type, as numpy and ml_dtypes have it."""

    def read(self, array: Any) -> Any:
        """`array` as TVM-FFI takes it: the same memory, with unsigned integers for other types.

        BufferError if the framework does not give its memory away.
        """

    def write(self, array: Any) -> Any:
        """The same for an output; BufferError if it is read-only."""

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        """An uninitialised, contiguous array on the device of `like`, which `read` returned."""

    def stream(self, array: Any) -> int | None:
        """The stream on which work on `array` is expected; None for the default."""

    def keep_until_done(self, array: Any, stream: int | None) -> None:
        """Keeps the memory of `array` from others until what was launched on `stream` is done.

        `stream` is None if it is the one that the method `stream` names.
        """


_NUMPY_TYPES = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
}

# Their names, which numpy itself is slow to make.
_NUMPY_NAMES = {dtype: name for name, dtype in _NUMPY_TYPES.items()}

# Types of ml_dtypes, which numpy's DLPack does not export.
_AS_INTEGER = {
    _NUMPY_TYPES["bfloat16"]: np.uint16,
    _NUMPY_TYPES["float8_e4m3fn"]: np.uint8,
    _NUMPY_TYPES["float8_e5m2"]: np.uint8,
    _NUMPY_TYPES["float8_e8m0fnu"]: np.uint8,
}


class _Numpy:
    def adopt(self, array: np.ndarray) -> np.ndarray:
        return array

    def dtype(self, array: np.ndarray) -> str:
        return _NUMPY_NAMES.get(array.dtype) or array.dtype.name

    def read(self, array: np.ndarray) -> tvm_ffi.Tensor:
        # Only DLPack 1.0 and later can say that an array is read-only.
        exported = self._view(array)
        version = None if array.flags.writeable else (1, 0)
        return tvm_ffi.from_dlpack(exported.__dlpack__(max_version=version))

    def write(self, array: np.ndarray) -> tvm_ffi.Tensor:
        if not array.flags.writeable:
            raise BufferError("the array is read-only")
        return self.read(array)

    def _view(self, array: np.ndarray) -> np.ndarray:
        integer = _AS_INTEGER.get(array.dtype)
        return array if integer is None else array.view(integer)

    def empty(self, shape: tuple[int, ...], dtype: str, like: tvm_ffi.Tensor) -> np.ndarray:
        return np.empty(shape, _NUMPY_TYPES[dtype])

    def stream(self, array: np.ndarray) -> None:
        return None

    def keep_until_done(self, array: np.ndarray, stream: int | None) -> None:
        pass  # work on the host is done


class _Torch:
    def adopt(self, array: Any) -> Any:
        return array

    def dtype(self, array: Any) -> str:
        return str(array.dtype).removeprefix("torch.")

    def read(self, array: Any) -> Any:
        torch = sys.modules["torch"]
        array = array.detach()
        return array.view(torch.uint8) if array.element_size() == 1 else array

    write = read

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        torch = sys.modules["torch"]
        # Scales stay bytes in releases without their type.
        return torch.empty(shape, dtype=getattr(torch, dtype, torch.uint8), device=like.device)

    def stream(self, array: Any) -> int | None:
        torch = sys.modules["torch"]
        return torch.cuda.current_stream(array.device).cuda_stream if array.is_cuda else None

    def keep_until_done(self, array: Any, stream: int | None) -> None:
        # Memory of the current stream is given out again in its order anyway.
        if stream is not None and array.is_cuda:
            torch = sys.modules["torch"]
            array.record_stream(torch.cuda.ExternalStream(stream, device=array.device))


class _Dlpack:
    """Everything else; what is returned are TVM-FFI tensors, which speak DLPack too."""

    def adopt(self, array: Any) -> tvm_ffi.Tensor:
        return array if isinstance(array, tvm_ffi.Tensor) else tvm_ffi.from_dlpack(array)

    def dtype(self, array: tvm_ffi.Tensor) -> str:
        try:
            return str(array.dtype)
        except ValueError as error:  # TVM-FFI has no name for it
            return f"unknown ({error})"

    def read(self, array: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
        return array

    write = read

    def empty(self, shape: tuple[int, ...], dtype: str, like: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
        return library.empty(tvm_ffi.Shape(shape), tvm_ffi.dtype(dtype), like.device)

    def stream(self, array: Any) -> None:
        return None  # DLPack hands over on the default stream

    def keep_until_done(self, array: tvm_ffi.Tensor, stream: int | None) -> None:
        pass  # it is freed by cudaFree, which waits


_NUMPY, _TORCH, _DLPACK = _Numpy(), _Torch(), _Dlpack()


def framework_of(function: str, name: str, array: Any) -> Framework:
    """Who made `array`. TypeError, naming `function` and the argument `name`, if nobody known."""
    if isinstance(array, np.ndarray):
        return _NUMPY
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _TORCH
    if hasattr(array, "__dlpack__"):
        return _DLPACK
    raise TypeError(
        f"{function}: {name} is a {type(array).__name__}; arrays with __dlpack__ are accepted"
    )
