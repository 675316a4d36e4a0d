"""The Bazel action that compiles the kernels of one shard.

Started with --persistent_worker it serves one request after the other (Bazel's JSON worker
protocol: a request a line on stdin, a response a line on stdout), so that CuTeDSL, which takes
longer to import than a kernel to compile, is imported once. Started without, it does what its own
arguments say. Both give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TextIO

from cutedsl import architectures, compiler
from cutedsl.config import select
from tools.gen_kernels import shards


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def compile_shard(arguments: Sequence[str]) -> None:
    """Does one request; see --help for its arguments."""
    parser = _Parser(description=__doc__, fromfile_prefix_chars="@")
    parser.add_argument("--arch", required=True)
    parser.add_argument("--config", action="append", required=True, dest="configs")
    parser.add_argument("--shard", type=int, required=True)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(arguments)
    architecture = architectures.get(args.arch)
    configs = shards.deal(select(args.configs), args.shard, args.shards)
    with tempfile.TemporaryDirectory(prefix="kernel_objects_") as scratch:
        objects = [Path(scratch) / f"{config.name}.o" for config in configs]
        for config, path in zip(configs, objects, strict=True):
            try:
                compiler.compile_to_object(config, architecture.name, path)
            except Exception as error:
                raise RuntimeError(f"{config.name} for {architecture.name} failed") from error
        shards.pack(objects, args.output)


def attempt(work: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> tuple[int, str]:
    """Runs `work`; returns an exit code and what to tell the user."""
    try:
        work(arguments)
    except ValueError as error:
        return 1, f"{error}\n"
    except Exception:
        return 1, traceback.format_exc()
    return 0, ""


def serve(requests: TextIO, responses: TextIO, work: Callable[[Sequence[str]], None]) -> None:
    """Answers requests until there are no more. A request that fails is answered like any other."""
    for line in requests:
        request = json.loads(line)
        exit_code, output = attempt(work, request.get("arguments", []))
        response = {
            "exitCode": exit_code,
            "output": output,
            "requestId": request.get("requestId", 0),
        }
        responses.write(json.dumps(response) + "\n")
        responses.flush()


def main() -> None:
    arguments = sys.argv[1:]
    if "--persistent_worker" not in arguments:
        exit_code, output = attempt(compile_shard, arguments)
        sys.exit(output or exit_code)
    # Whatever the compiler prints must stay out of the protocol's stream.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as responses:
        os.dup2(2, 1)
        serve(sys.stdin, responses, compile_shard)


if __name__ == "__main__":
    main()
