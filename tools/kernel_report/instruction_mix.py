"""How many instructions of which kind a thread of a kernel issues."""

from __future__ import annotations

import collections
from collections.abc import Mapping

from tools.kernel_report.nvidia_tools import Instruction, MachineCode, ToolError

# Operations by what executes them; those of the uniform datapath (U...) count like their namesakes.
_OPERATIONS = {
    "float": """FADD FADD2 FFMA FFMA2 FMNMX FMNMX3 FMUL FMUL2 FSEL FSET FSETP
        HADD2 HFMA2 HMNMX2 HMUL2 HSETP2""",
    "special": "MUFU",
    "integer": """BREV CREDUX CS2R FLO IABS IADD IADD3 IMAD IMNMX ISETP LEA LOP3 MOV P2R PLOP3 POPC
        PRMT R2P R2UR REDUX S2R S2UR SEL SHF VIADD VIADDMNMX VIMNMX VIMNMX3 VOTE VOTEU""",
    "convert": "F2F F2FP F2I I2F I2FP",
    "memory": "ATOM ATOMG CCTL LDC LDCU LDG LDL RED REDG STG STL",
    "shared": "ATOMS LDS SHFL STS",
    "control": "ACQBULK BAR BRA BSSY BSYNC DEPBAR ERRBAR EXIT MEMBAR NOP PREEXIT WARPSYNC YIELD",
}
KINDS = tuple(_OPERATIONS)
_KIND_OF = {name: kind for kind, names in _OPERATIONS.items() for name in names.split()}

# What the FP32 lanes execute, by results for a thread.
_FP32_RESULTS = {"FADD": 1, "FFMA": 1, "FMUL": 1, "FADD2": 2, "FFMA2": 2, "FMUL2": 2}

SPILLS = ("LDL", "STL")


def kind(instruction: Instruction) -> str:
    """The kind, one of KINDS, of `instruction`; ToolError for an operation that has none yet."""
    name = instruction.operation
    for candidate in (name, name.removeprefix("U")):
        if candidate in _KIND_OF:
            return _KIND_OF[candidate]
    raise ToolError(f"{instruction.opcode} is of no known kind; add it to {__name__}")


def whole_tile_path(code: MachineCode) -> list[Instruction]:
    """What a thread issues whose tile lies inside the tensor, to the end of the program.

    An instruction whose predicate is false is issued all the same and counts. Kernels branch for
    what a whole tile and aligned scales do not need, so that at a branch the shorter way counts,
    and a conditional exit is not taken. ToolError for code that has loops or calls: it has no such
    path.
    """
    instructions = code.instructions
    ways = [_ways(instruction, index) for index, instruction in enumerate(instructions)]
    lengths = [0] * (len(ways) + 1)
    for index in reversed(range(len(ways))):
        lengths[index] = 1 + min((lengths[way] for way in ways[index]), default=0)
    path = [instructions[0]]
    onward = ways[0]
    while onward:
        index = min(onward, key=lengths.__getitem__)
        path.append(instructions[index])
        onward = ways[index]
    return path


def _ways(instruction: Instruction, index: int) -> list[int]:
    """The instructions that may follow the one at `index`; none where the program ends."""
    operation, target = instruction.operation, instruction.target
    if operation in ("BRX", "CALL", "JMP", "RET"):
        raise ToolError(f"{instruction.opcode} goes to a place that is not known")
    if target is not None and target < index:
        raise ToolError("the code has a loop")
    # A branch to itself is what the compiler puts behind the end.
    ways = [] if target in (None, index) else [target]
    if operation not in ("BRA", "EXIT") or instruction.is_conditional:
        ways.append(index + 1)
    return ways


def count(path: list[Instruction]) -> Mapping[str, int]:
    """Instructions of each kind; every one of KINDS is there."""
    counts = collections.Counter(map(kind, path))
    return {name: counts[name] for name in KINDS}


def fp32_results(path: list[Instruction]) -> int:
    """Sums and products of fp32, of which a packed instruction gives two."""
    return sum(_FP32_RESULTS.get(step.operation, 0) for step in path)
