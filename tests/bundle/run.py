#!/usr/bin/env python3
"""Starts what this bundle holds. Needs Python 3.12 and, for most of it, an NVIDIA GPU.

usage: python3 run.py COMMAND [ARGUMENT...]

Everything after the command is passed on. Commands are the bundle's programs and
  python   this interpreter, able to import cutedsl_quant: run.py python -c "import cutedsl_quant"
Tests fail, instead of skipping, where there is no GPU; CUTEDSL_QUANT_REQUIRE_GPU=0 lets them skip.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
KERNELS = ROOT / "_main" / "kernels"


def prepend(variable: str, *paths: Path) -> None:
    """Puts folders in front of a search path in the environment."""
    before = os.environ.get(variable)
    os.environ[variable] = os.pathsep.join([*map(str, paths), *([before] if before else [])])


def main() -> None:
    index = json.loads((ROOT / "bundle.json").read_text(encoding="utf-8"))
    programs = index["programs"]
    if len(sys.argv) < 2 or sys.argv[1] not in [*programs, "python"]:
        commands = ", ".join([*programs, "python"])
        sys.exit(f"{__doc__}\ncommands: {commands}")
    command, arguments = sys.argv[1], sys.argv[2:]
    os.environ.setdefault("CUTEDSL_QUANT_REQUIRE_GPU", "1")
    if command == "python":
        # Programs are linked with their kernels; an interpreter is told where they are.
        prepend("CUTEDSL_QUANT_KERNEL_PATH", KERNELS)
        prepend("PYTHONPATH", *(ROOT / path for path in index["imports"]))
        program = sys.executable
    else:
        program = str(ROOT / programs[command])
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main()
