"""Compiles kernels ahead of time and packages them, without a GPU.

Writes lib<name>.so and lib<name>.json, one pair for each architecture, for
CUTEDSL_QUANT_KERNEL_PATH. Without arguments: the plain casts for the GPUs of this machine (for all
architectures where there is none) into ./cutedsl_kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

from cutedsl import architectures
from cutedsl.config import QuantizeConfig, config_sets, select
from tools.bazel import bazel_run
from tools.gen_kernels import devices, execution_root, terminal
from tools.gen_kernels.compile_pool import CompileError, CompilePool
from tools.gen_kernels.package import LinkRecipe, PackageError, build_package

DEFAULT_SET = "cast"


class UsageError(Exception):
    """The arguments cannot be served; the message is one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help explains the arguments)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="gen_kernels", description=__doc__)
    parser.add_argument(
        "--arch",
        action="append",
        metavar="ARCH",
        dest="architectures",
        help=f"{', '.join(architectures.ARCHITECTURES)}; repeatable",
    )
    parser.add_argument(
        "--configs",
        action="append",
        metavar="WHAT",
        help=(
            f"a set ({', '.join(f'{name}: {len(c)}' for name, c in config_sets().items())} "
            "kernels), a kernel's name, a glob over names, or a .json file with a list of these; "
            f"repeatable (default: {DEFAULT_SET})"
        ),
    )
    parser.add_argument("--list", action="store_true", help="print the kernels' names and stop")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("cutedsl_kernels"),
        metavar="FOLDER",
        help="where packages go; created if missing (default: %(default)s)",
    )
    parser.add_argument(
        "--name",
        help="of the packages, before the architecture (default: from --configs)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="processes that compile (default: %(default)s)",
    )
    return parser


def choose_architectures(names: Sequence[str] | None) -> list[str]:
    """The named architectures, or those of this machine's GPUs, or all."""
    known = architectures.ARCHITECTURES
    if names:
        for name in names:
            if name not in known:
                raise UsageError(f"--arch {name}: unknown; known are {', '.join(known)}")
        return list(dict.fromkeys(names))
    found = [architectures.for_compute_capability(cc) for cc in devices.compute_capabilities()]
    served = dict.fromkeys(architecture.name for architecture in found if architecture)
    return list(served or known)


def read_selectors(values: Sequence[str]) -> list[str]:
    """Sets, names and globs, with JSON files replaced by what they list."""
    selectors: list[str] = []
    for value in values:
        if not value.endswith(".json"):
            selectors.append(value)
            continue
        try:
            content = json.loads(Path(value).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"--configs {value}: {error}") from None
        if not isinstance(content, list) or not all(isinstance(entry, str) for entry in content):
            raise UsageError(f"--configs {value}: must hold a list of strings")
        selectors += content
    return selectors


def default_name(values: Sequence[str]) -> str:
    """The name of packages made from these --configs."""
    if len(values) > 1:
        return "cutedsl_quant_custom"
    stem = Path(values[0]).stem if values[0].endswith(".json") else values[0]
    return f"cutedsl_quant_{stem if _is_name(stem) else 'custom'}"


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.-]+", text) is not None


def prepare_folder(folder: Path) -> Path:
    """Makes sure that `folder` exists and can be written to; returns its absolute path."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder.absolute()
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror}") from None


def generate(
    name: str,
    architecture: str,
    configs: Sequence[QuantizeConfig],
    folder: Path,
    recipe: LinkRecipe,
    pool: CompilePool,
    progress: terminal.Progress,
) -> dict[str, Any]:
    """Compiles and links one package into `folder` and returns its manifest."""
    with tempfile.TemporaryDirectory(prefix="gen_kernels_") as scratch:
        objects = pool.compile(
            configs,
            architecture,
            Path(scratch),
            lambda config, seconds: progress.step(f"{architecture} {config.name} {seconds:.2f} s"),
        )
        # A folder in the same file system, so that files move from it in one step.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".gen_kernels_") as staging:
            library = Path(staging) / f"lib{name}.so"
            manifest_path = library.with_suffix(".json")
            manifest = build_package(
                recipe,
                name=name,
                architecture=architecture,
                configs=configs,
                objects=objects,
                library=library,
                manifest_path=manifest_path,
            )
            # A library without its manifest is no package, so at no time is a wrong pair visible.
            (folder / manifest_path.name).unlink(missing_ok=True)
            library.rename(folder / library.name)
            manifest_path.rename(folder / manifest_path.name)
    return manifest


def run(args: argparse.Namespace) -> None:
    values = args.configs or [DEFAULT_SET]
    try:
        configs = select(read_selectors(values))
    except ValueError as error:
        raise UsageError(f"--configs: {error}") from None
    targets = choose_architectures(args.architectures)
    if args.jobs < 1:
        raise UsageError(f"--jobs {args.jobs}: must be at least 1")
    if args.list:
        print("\n".join(config.name for config in configs))
        return
    name = args.name or default_name(values)
    if not _is_name(name):
        raise UsageError(f"--name {name}: letters, digits, '_', '.' and '-' only")
    folder = prepare_folder(args.out)

    rows = []
    with ExitStack() as stack:
        recipe = stack.enter_context(execution_root.link_recipe())
        progress = terminal.Progress(len(targets) * len(configs), sys.stderr)
        stack.enter_context(progress)
        pool = stack.enter_context(CompilePool(min(args.jobs, len(configs))))
        for target in targets:
            start = time.monotonic()
            manifest = generate(f"{name}_{target}", target, configs, folder, recipe, pool, progress)
            library = manifest["library"]
            seconds = f"{time.monotonic() - start:.1f}"
            size = terminal.file_size(library["size"])
            rows.append((library["file"], str(len(configs)), size, seconds))
    print(terminal.table(("package", "kernels", "size", "seconds"), rows))
    print(f"in {folder}")


def main() -> None:
    args = _parser().parse_args()
    bazel_run.enter_callers_folder()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        run(args)
    except (UsageError, CompileError, PackageError, OSError) as error:
        sys.exit(f"gen_kernels: {error}")
    except KeyboardInterrupt:
        print("gen_kernels: interrupted, nothing half-written", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
