"""Reports what the compiler made of kernels: registers, spills, occupancy, instructions.

Needs no GPU. Compiles the chosen configurations, or reads FILES: kernel packages or objects.

Instructions are those that a thread of a whole tile issues, divided by its elements. Times are
estimates per element with all of a GPU at work: of memory at the rate of a copy, of the schedulers,
of the FP32 lanes, of the special function units. Where all of the latter are smaller, arithmetic
fits under memory. Kernels whose names end in _small are for tensors that do not fill a GPU: they
take the latency of a thread, whatever fits.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cutedsl import architectures
from cutedsl.config import NAME_PREFIX, QuantizeConfig, select
from tools.bazel import bazel_run
from tools.gen_kernels import terminal
from tools.gen_kernels.compile_pool import CompileError, CompilePool
from tools.kernel_report import cubins
from tools.kernel_report.gpus import GPUS
from tools.kernel_report.instruction_mix import KINDS
from tools.kernel_report.kernel_facts import KernelFacts, examine
from tools.kernel_report.nvidia_tools import ToolError

EXIT_SPILLS = 3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kernel_report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    parser.add_argument(
        "--arch",
        action="append",
        choices=architectures.ARCHITECTURES,
        dest="architectures",
        help="what to compile for; repeatable (default: all)",
    )
    parser.add_argument(
        "--configs",
        action="append",
        metavar="WHAT",
        help=(
            "a set, a kernel's name or a glob over names, as for gen_kernels; repeatable "
            "(default: cast, or all that FILES hold)"
        ),
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument(
        "--fail-on-spills",
        action="store_true",
        help=f"exit with {EXIT_SPILLS} if a kernel spills registers",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="processes that compile or disassemble (default: %(default)s)",
    )
    return parser


def _compile(
    configs: Sequence[QuantizeConfig], targets: Sequence[str], jobs: int
) -> Iterator[bytes]:
    """The cubin of each configuration for each target."""
    with (
        tempfile.TemporaryDirectory(prefix="kernel_report_") as scratch,
        terminal.Progress(len(configs) * len(targets), sys.stderr) as progress,
        CompilePool(min(jobs, len(configs))) as pool,
    ):
        for target in targets:
            objects = pool.compile(
                configs,
                target,
                Path(scratch),
                lambda config, seconds, target=target: progress.step(
                    f"{target} {config.name} {seconds:.2f} s"
                ),
            )
            for path in objects:
                yield from cubins.find_cubins(path.read_bytes())


def _read(files: Sequence[Path]) -> Iterator[bytes]:
    """The cubins in `files`."""
    for path in files:
        found = list(cubins.find_cubins(path.read_bytes()))
        if not found:
            raise ToolError(f"{path}: holds no kernels")
        yield from found


def _resources_table(kernels: Sequence[KernelFacts]) -> str:
    header = (
        "kernel",
        "registers",
        "spilled B",
        "shared B",
        "threads",
        "CTAs/SM",
        "occupancy",
        "KiB in flight/SM",
    )
    rows = [
        (
            _short_name(kernel),
            str(kernel.usage.registers),
            str(kernel.usage.local_bytes),
            str(kernel.usage.shared_bytes),
            str(kernel.threads),
            str(kernel.ctas),
            f"{kernel.occupancy:.0%}",
            f"{kernel.bytes_in_flight / 1024:.0f}",
        )
        for kernel in kernels
    ]
    return terminal.table(header, rows)


def _times_table(kernels: Sequence[KernelFacts]) -> str:
    header = ("kernel", *KINDS, "all", "memory ps", "issue ps", "fp32 ps", "special ps", "fits")
    rows = [
        (
            _short_name(kernel),
            *(f"{kernel.instructions[kind]:.2f}" for kind in KINDS),
            f"{sum(kernel.instructions.values()):.2f}",
            f"{kernel.memory_time:.2f}",
            f"{kernel.issue_time:.2f}",
            f"{kernel.fp32_time:.2f}",
            f"{kernel.special_time:.2f}",
            "yes" if kernel.fits else "NO",
        )
        for kernel in kernels
    ]
    return terminal.table(header, rows)


def _short_name(kernel: KernelFacts) -> str:
    return kernel.name.removeprefix(NAME_PREFIX)


def _print(kernels: Sequence[KernelFacts]) -> None:
    for architecture, gpu in GPUS.items():
        group = [kernel for kernel in kernels if kernel.architecture == architecture]
        if group:
            print(f"{architecture}\n\n{_resources_table(group)}\n")
            print(
                f"Instructions per element; times per element on {gpu.name}: "
                f"{gpu.multiprocessors} SMs, {gpu.clock / 1e9:.2f} GHz, "
                f"{gpu.copy_rate / 1e12:.1f} TB/s\n\n{_times_table(group)}\n"
            )


def report(args: argparse.Namespace) -> list[KernelFacts]:
    """The facts about all chosen kernels, by architecture and id."""
    configs = select(args.configs or ["full" if args.files else "cast"])
    targets = args.architectures or list(architectures.ARCHITECTURES)
    images = _read(args.files) if args.files else _compile(configs, targets, args.jobs)
    with ThreadPoolExecutor(args.jobs) as pool:  # of the tools, which are processes
        wanted = frozenset(configs)
        chosen = [
            kernel
            for kernels in pool.map(examine, images)
            for kernel in kernels
            if kernel.architecture in targets and kernel.config in wanted
        ]
    if not chosen:
        raise ToolError("no kernel of the chosen configurations and architectures is in the files")
    return sorted(chosen, key=lambda kernel: (kernel.architecture, kernel.config.id, kernel.name))


def main() -> None:
    args = _parser().parse_args()
    bazel_run.enter_callers_folder()
    try:
        kernels = report(args)
        if args.json:
            content = {
                "gpus": {name: dataclasses.asdict(gpu) for name, gpu in GPUS.items()},
                "kernels": [kernel.to_json() for kernel in kernels],
            }
            args.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except (CompileError, OSError, ToolError, ValueError) as error:
        sys.exit(f"kernel_report: {error}")
    _print(kernels)
    spilling = [kernel for kernel in kernels if kernel.spills]
    for kernel in spilling:
        print(f"{kernel.name} spills registers on {kernel.architecture}", file=sys.stderr)
    if spilling and args.fail_on_spills:
        sys.exit(EXIT_SPILLS)


if __name__ == "__main__":
    main()
