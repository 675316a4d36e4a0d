"""How many CTAs of a kernel an SM holds at a time."""

from __future__ import annotations

from cutedsl.architectures import Multiprocessor
from cutedsl.tuning import WARP
from tools.kernel_report.nvidia_tools import ResourceUsage

# The same on all architectures here; the CUDA header cuda_occupancy.h has them for more.
_SCHEDULERS = 4
_REGISTER_UNIT = 256  # per warp
_SHARED_UNIT = 128
_DRIVER_SHARED_BYTES = 1024


def resident_ctas(multiprocessor: Multiprocessor, usage: ResourceUsage, threads: int) -> int:
    """CTAs of `threads` threads that fit on an SM; 0 if none does."""
    warps = -(-threads // WARP)
    # Each scheduler has its own part of the registers and of the warps.
    warp_registers = _round_up(usage.registers * WARP, _REGISTER_UNIT)
    scheduler_warps = multiprocessor.registers // _SCHEDULERS // warp_registers
    shared = _round_up(max(usage.shared_bytes, _DRIVER_SHARED_BYTES), _SHARED_UNIT)
    return min(
        multiprocessor.ctas,
        multiprocessor.warps // warps,
        scheduler_warps * _SCHEDULERS // warps,
        multiprocessor.shared_bytes // shared,
    )


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
