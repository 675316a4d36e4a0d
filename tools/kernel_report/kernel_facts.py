"""Everything a report says about one kernel."""

from __future__ import annotations

import dataclasses
from typing import Any

from cutedsl import architectures, tuning
from cutedsl.config import DTYPE_BYTES, QuantizeConfig
from tools.kernel_report import instruction_mix, nvidia_tools, occupancy
from tools.kernel_report.gpus import GPUS
from tools.kernel_report.nvidia_tools import MachineCode, ResourceUsage, ToolError


@dataclasses.dataclass(frozen=True)
class KernelFacts:
    """What the machine code of a kernel says, and the times that follow from it.

    Times are of one element with all of the GPU at work, in picoseconds.
    """

    name: str
    config: QuantizeConfig
    architecture: str
    threads: int  # per CTA
    usage: ResourceUsage
    spill_instructions: int
    ctas: int  # resident on an SM at a time
    bytes_in_flight: int  # per SM: all threads wait for all of their data
    instructions: dict[str, float]  # per element, by kind
    fp32_results: float  # per element

    @property
    def spills(self) -> bool:
        return self.usage.spills or self.spill_instructions > 0

    @property
    def occupancy(self) -> float:
        """The share of an SM's warps that are resident."""
        warps = architectures.get(self.architecture).multiprocessor.warps
        return self.ctas * self.threads / tuning.WARP / warps

    @property
    def memory_time(self) -> float:
        return 1e12 * bytes_per_element(self.config) / GPUS[self.architecture].copy_rate

    @property
    def issue_time(self) -> float:
        """Of the schedulers, each of which issues an instruction a clock."""
        return 1e12 * sum(self.instructions.values()) / GPUS[self.architecture].issue_rate

    @property
    def fp32_time(self) -> float:
        """Of the FP32 lanes, which a packed instruction keeps for two clocks."""
        return 1e12 * self.fp32_results / GPUS[self.architecture].fp32_rate

    @property
    def special_time(self) -> float:
        """Of the special function units."""
        return 1e12 * self.instructions["special"] / GPUS[self.architecture].special_rate

    @property
    def fits(self) -> bool:
        """Whether arithmetic fits under the time that memory takes anyway."""
        return max(self.issue_time, self.fp32_time, self.special_time) <= self.memory_time

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.name,
            "architecture": self.architecture,
            "threads": self.threads,
            **dataclasses.asdict(self.usage),
            "spills": self.spills,
            "ctas_per_multiprocessor": self.ctas,
            "occupancy": round(self.occupancy, 4),
            "bytes_in_flight_per_multiprocessor": self.bytes_in_flight,
            "instructions_per_element": {
                kind: round(value, 3) for kind, value in self.instructions.items()
            },
            "bytes_per_element": round(bytes_per_element(self.config), 4),
            "memory_ps_per_element": round(self.memory_time, 4),
            "issue_ps_per_element": round(self.issue_time, 4),
            "fp32_ps_per_element": round(self.fp32_time, 4),
            "special_ps_per_element": round(self.special_time, 4),
            "arithmetic_fits": self.fits,
        }


def bytes_per_element(config: QuantizeConfig) -> float:
    """What a kernel reads and writes: every input once, every output and scale once."""
    inputs = DTYPE_BYTES[config.dtype] * (1 + config.with_dact)
    outputs = (config.rowwise + config.colwise) * (1 + 1 / tuning.BLOCK)
    sums = 4 / config.dbias_chunk_rows if config.with_dbias else 0
    return inputs + outputs + sums


def examine(cubin: bytes) -> list[KernelFacts]:
    """Reads `cubin`, which holds the kernels of a configuration in this version of cutedsl."""
    codes = nvidia_tools.machine_code(cubin)
    return [
        _examine_kernel(name, usage, codes[name])
        for name, usage in nvidia_tools.resource_usage(cubin).items()
    ]


def _examine_kernel(name: str, usage: ResourceUsage, code: MachineCode) -> KernelFacts:
    architecture = architectures.for_compute_capability(code.compute_capability)
    if architecture is None:
        raise ToolError(f"{name}: compiled for compute capability {code.compute_capability}")
    config, shape = tuning.find(name, architecture)
    elements = shape.rows * shape.columns
    path = instruction_mix.whole_tile_path(code)
    # Elements are read 16 or 32 bytes at a time, and nothing else is.
    loaded = sum(nvidia_tools.loaded_bytes(step.opcode) for step in path)
    if loaded != elements * DTYPE_BYTES[config.dtype] * (1 + config.with_dact):
        raise ToolError(f"{name}: a thread loads {loaded} bytes, which {shape} does not explain")
    ctas = occupancy.resident_ctas(architecture.multiprocessor, usage, shape.threads)
    return KernelFacts(
        name=name,
        config=config,
        architecture=architecture.name,
        threads=shape.threads,
        usage=usage,
        spill_instructions=sum(step.operation in instruction_mix.SPILLS for step in path),
        ctas=ctas,
        bytes_in_flight=ctas * shape.threads * loaded,
        instructions={
            kind: amount / elements for kind, amount in instruction_mix.count(path).items()
        },
        fp32_results=instruction_mix.fp32_results(path) / elements,
    )
