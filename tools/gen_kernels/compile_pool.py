"""Compiles kernels in several processes, each of which imports CuTeDSL once."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from cutedsl.config import QuantizeConfig

_PR_SET_PDEATHSIG = 1
_DIED = "a compiling process died; is there enough memory?"


class CompileError(Exception):
    """A kernel could not be compiled; the message names it."""


class CompilePool:
    """A context manager. Its processes end with it, and with this process however that ends."""

    def __init__(self, jobs: int) -> None:
        self._executor = ProcessPoolExecutor(
            max_workers=jobs,
            # A forked copy of a process with threads can hang.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_process,
            initargs=(os.getpid(),),
        )

    def __enter__(self) -> CompilePool:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def compile(
        self,
        configs: Sequence[QuantizeConfig],
        architecture: str,
        folder: Path,
        on_kernel: Callable[[QuantizeConfig, float], None],
    ) -> list[Path]:
        """Writes an object file for each of `configs` into `folder` and returns their paths.

        `on_kernel` hears of every finished kernel and the seconds it took. CompileError for the
        first kernel that fails.
        """
        objects = [folder / f"{config.name}.o" for config in configs]
        try:
            futures = {
                self._executor.submit(_compile, config, architecture, path): config
                for config, path in zip(configs, objects, strict=True)
            }
        except (BrokenProcessPool, BrokenPipeError) as error:
            raise CompileError(_DIED) from error
        for future in as_completed(futures):
            on_kernel(futures[future], _seconds(future, futures[future], architecture))
        return objects


def _seconds(future: Future[float], config: QuantizeConfig, architecture: str) -> float:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise CompileError(_DIED) from error
    except Exception as error:
        raise CompileError(f"{config.name} for {architecture}: {error}") from error


def _start_process(parent: int) -> None:
    # Ctrl-C reaches every process of the terminal; the parent alone decides what follows from it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call
        os._exit(1)
    # Kernels depend on nothing but their sources, as in Bazel's actions.
    for name in [name for name in os.environ if name.startswith("CUTE_DSL_")]:
        del os.environ[name]


def _compile(config: QuantizeConfig, architecture: str, path: Path) -> float:
    from cutedsl import compiler  # imports CuTeDSL, which only these processes need

    start = time.monotonic()
    compiler.compile_to_object(config, architecture, path)
    return time.monotonic() - start
