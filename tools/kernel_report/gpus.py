"""The GPU that an architecture's estimates are made for."""

from __future__ import annotations

import dataclasses

# Lanes that issue an instruction in a clock: four schedulers, a warp each.
_ISSUE_LANES = 4 * 32
# Results in a clock of fp32 arithmetic and of the special function units (CUDA programming guide,
# arithmetic throughput).
_FP32_LANES = 128
_SPECIAL_LANES = 16


@dataclasses.dataclass(frozen=True)
class Gpu:
    """Figures of one product."""

    name: str
    multiprocessors: int
    clock: float  # Hz, the highest
    copy_rate: float  # bytes read and written per second by a copy in device memory

    @property
    def issue_rate(self) -> float:
        """Instructions per second, counted per thread."""
        return self.multiprocessors * _ISSUE_LANES * self.clock

    @property
    def fp32_rate(self) -> float:
        """Sums, products and fused ones per second."""
        return self.multiprocessors * _FP32_LANES * self.clock

    @property
    def special_rate(self) -> float:
        """Exponentials, reciprocals and the like per second."""
        return self.multiprocessors * _SPECIAL_LANES * self.clock


# The copy rate of the H200 is measured (docs/benchmarks); the others are assumed from the published
# peak rates of 8 and 1.8 TB/s.
GPUS = {
    "sm_90a": Gpu("H200", 132, 1.98e9, 4.2e12),
    "sm_100f": Gpu("B200", 148, 1.965e9, 7.2e12),
    "sm_120f": Gpu("RTX PRO 6000", 188, 2.617e9, 1.8e12),
}
