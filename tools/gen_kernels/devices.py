"""The GPUs of this machine, asked from the driver; no CUDA toolkit and no GPU needed."""

from __future__ import annotations

import ctypes

# Values of CUdevice_attribute.
_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76


def compute_capabilities() -> list[int]:
    """10 * major + minor of each GPU; empty without a GPU, or if the driver cannot be asked."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    found = []
    for ordinal in range(count.value):
        values = []
        for attribute in (_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR):
            value = ctypes.c_int(0)
            if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, ordinal):
                return []
            values.append(value.value)
        found.append(10 * values[0] + values[1])
    return found
