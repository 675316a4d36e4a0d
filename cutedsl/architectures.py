"""The GPU architectures kernels are compiled for, and what each of them can do.

The only owner of these facts; a package's manifest carries `compute_capabilities` from here.
Needs no CuTeDSL.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Multiprocessor:
    """What the CTAs that are resident on one SM share."""

    warps: int
    ctas: int
    registers: int
    shared_bytes: int  # those that the driver keeps for each CTA included


_DATA_CENTER = Multiprocessor(warps=64, ctas=32, registers=65536, shared_bytes=228 << 10)
_WORKSTATION = Multiprocessor(warps=48, ctas=24, registers=65536, shared_bytes=100 << 10)


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A compilation target and the devices that its kernels run on."""

    name: str  # as `ptxas --gpu-name` spells it
    compute_capabilities: tuple[int, ...]  # 10 * major + minor of the devices it serves
    multiprocessor: Multiprocessor
    has_e8m0_conversion: bool  # cvt.rp.satfinite.ue8m0x2.f32
    has_32_byte_loads: bool  # ld.global.v8.b32
    has_packed_f32: bool  # fma.rn.f32x2 and the like as one instruction (two on sm_120)


ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (
        Architecture(
            "sm_90a",
            (90,),
            _DATA_CENTER,
            has_e8m0_conversion=False,
            has_32_byte_loads=False,
            has_packed_f32=False,
        ),
        Architecture(
            "sm_100f",
            (100, 103),
            _DATA_CENTER,
            has_e8m0_conversion=True,
            has_32_byte_loads=True,
            has_packed_f32=True,
        ),
        Architecture(
            "sm_120f",
            (120, 121),
            _WORKSTATION,
            has_e8m0_conversion=True,
            has_32_byte_loads=True,
            has_packed_f32=False,
        ),
    )
}


def get(name: str) -> Architecture:
    """The architecture called `name`; ValueError if there is none."""
    try:
        return ARCHITECTURES[name]
    except KeyError:
        raise ValueError(
            f"architectures.get: unknown architecture {name!r}, known: {', '.join(ARCHITECTURES)}"
        ) from None


def for_compute_capability(compute_capability: int) -> Architecture | None:
    """The architecture whose kernels run on a device of `compute_capability` (10 * major + minor).

    None if no kernels exist for such a device.
    """
    for architecture in ARCHITECTURES.values():
        if compute_capability in architecture.compute_capabilities:
            return architecture
    return None
