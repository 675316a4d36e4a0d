"""Asks cuobjdump and nvdisasm about compiled kernels and reads what they print.

A kernel is called what cutedsl.tuning calls it, which its function in the device code carries.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
import subprocess
import tempfile

# Behind a kernel's name is the number of the trace.
_FUNCTION = re.compile(r"^ Function (\w+)_\d+:\n *(REG:.*)$", re.MULTILINE)
_CODE_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)_\d+,", re.MULTILINE)
_NUMBER = re.compile(r"\b([A-Z]+):(\d+)")
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)
_LABEL = re.compile(r"^(\.L_\w+):")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_VECTOR_LOAD = re.compile(r"LDG\.\S*\.(128|256)\b")
_BRANCH_TARGET = re.compile(r"`\((\.L_\w+)\)")


class ToolError(Exception):
    """A tool failed, or printed what this module cannot read."""


@dataclasses.dataclass(frozen=True)
class ResourceUsage:
    """What a kernel asks of an SM. Registers and local bytes are per thread, the rest per CTA."""

    registers: int
    local_bytes: int  # spilled registers and anything else that does not fit into them
    shared_bytes: int  # those that the driver keeps for itself included, if there are others

    @property
    def spills(self) -> bool:
        return self.local_bytes > 0


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One machine instruction."""

    opcode: str  # with its modifiers, such as LDG.E.128.CONSTANT
    is_conditional: bool  # does nothing in threads where its predicate does not hold
    target: int | None = None  # of a branch: index of the instruction it goes to

    @property
    def operation(self) -> str:
        return self.opcode.partition(".")[0]


@dataclasses.dataclass(frozen=True)
class MachineCode:
    """The instructions of one kernel, in their order in memory."""

    compute_capability: int  # 10 * major + minor
    instructions: tuple[Instruction, ...]


def loaded_bytes(opcode: str) -> int:
    """What a thread gets from a load of 16 or 32 bytes of global memory; 0 for all else."""
    load = _VECTOR_LOAD.match(opcode)
    return int(load[1]) // 8 if load else 0


def parse_resource_usage(report: str) -> dict[str, ResourceUsage]:
    """Reads what `cuobjdump --dump-resource-usage` prints, by kernel."""
    usages = {}
    for name, line in _FUNCTION.findall(report):
        numbers = {key: int(value) for key, value in _NUMBER.findall(line)}
        try:
            usages[name] = ResourceUsage(
                registers=numbers["REG"],
                local_bytes=numbers["STACK"] + numbers["LOCAL"],
                shared_bytes=numbers["SHARED"],
            )
        except KeyError as error:
            raise ToolError(f"cuobjdump says nothing about {error} of {name}: {line}") from None
    if not usages or len(usages) != report.count("Function "):
        raise ToolError(f"cuobjdump printed something else than resource usage:\n{report}")
    return usages


def parse_machine_code(listing: str) -> dict[str, MachineCode]:
    """Reads what `nvdisasm -c` prints of a cubin, by kernel."""
    targets = _TARGET.findall(listing)
    if len(targets) != 1:
        raise ToolError(f"nvdisasm names {len(targets)} architectures, not one")
    _, *pieces = _CODE_SECTION.split(listing)
    if not pieces:
        raise ToolError("nvdisasm printed no kernels")
    return {
        name: MachineCode(int(targets[0]), _parse_instructions(code))
        for name, code in zip(pieces[::2], pieces[1::2], strict=True)
    }


def _parse_instructions(listing: str) -> tuple[Instruction, ...]:
    labels: dict[str, int] = {}
    found: list[tuple[str, bool, str | None]] = []
    for line in listing.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(found)
        elif instruction := _INSTRUCTION.match(line):
            predicate, opcode, operands = instruction.groups()
            target = _BRANCH_TARGET.search(operands) if opcode.startswith("BRA") else None
            # A branch by a uniform predicate has it among its operands.
            is_conditional = predicate is not None or opcode == "BRA.U"
            found.append((opcode, is_conditional, target[1] if target else None))
    if not found:
        raise ToolError("nvdisasm printed no instructions")
    return tuple(
        Instruction(opcode, is_conditional, None if target is None else labels[target])
        for opcode, is_conditional, target in found
    )


def resource_usage(cubin: bytes) -> dict[str, ResourceUsage]:
    """The resource usage of the kernels in `cubin`, by their names."""
    return parse_resource_usage(_run("cuobjdump", "--dump-resource-usage", cubin))


def machine_code(cubin: bytes) -> dict[str, MachineCode]:
    """The machine code of the kernels in `cubin`, by their names."""
    return parse_machine_code(_run("nvdisasm", "-c", cubin))


def _run(tool: str, option: str, cubin: bytes) -> str:
    program = importlib.metadata.distribution(f"nvidia-cuda-{tool}").locate_file(
        f"nvidia/cu13/bin/{tool}"
    )
    # Both tools insist on a file with a name.
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        result = subprocess.run(
            [str(program), option, file.name], capture_output=True, text=True, check=False
        )
    if result.returncode:
        raise ToolError(f"{tool}: {result.stdout}{result.stderr}".strip())
    return result.stdout
