"""Which backend serves calls, and what happened so far. All of it is about the whole process."""

from __future__ import annotations

from typing import Literal, TypedDict

from cutedsl_quant._library import library

BackendMode = Literal["off", "packaged", "jit"]


class Package(TypedDict):
    """What became of one kernel package.

    status: "loaded", or why not: "unreadable", "bad_manifest", "other_version", "damaged",
    "not_loadable", "inconsistent"; message says it in words. The keys after them come from the
    package's manifest and are empty if that could not be read.
    """

    path: str
    status: str
    message: str
    name: str
    architecture: str
    compute_capabilities: list[int]
    num_kernels: int


def set_backend_mode(mode: BackendMode) -> None:
    """Sets what may serve CUDA arrays; also forgets failures: kernels that did not compile and
    packages that could not be used are tried again.

    "off": CUDA kernels only. "packaged": packaged CuTeDSL kernels where there are any. "jit": and
    others are compiled on first use (see enable_jit). Until it is called, the environment variable
    NVTE_ENABLE_CUTEDSL_QUANT_BACKEND decides (0: off, 1: jit, unset: packaged). ValueError for
    anything else.
    """
    library.set_backend_mode(mode)


def backend_mode() -> BackendMode:
    """The mode now."""
    return str(library.backend_mode())


def stats() -> dict[str, int]:
    """Calls served ("calls.<backend>") and reasons for not using a CuTeDSL kernel
    ("misses.<reason>"), since the process began or reset_stats."""
    return {str(name): int(count) for name, count in library.stats().items()}


def reset_stats() -> None:
    """Sets all counters to zero."""
    library.reset_stats()


def packages() -> list[Package]:
    """Every kernel package that was found, in order of precedence; opens those not yet in use."""
    return [
        Package(
            path=str(package["path"]),
            status=str(package["status"]),
            message=str(package["message"]),
            name=str(package["name"]),
            architecture=str(package["architecture"]),
            compute_capabilities=[int(c) for c in package["compute_capabilities"]],
            num_kernels=int(package["num_kernels"]),
        )
        for package in library.packages()
    ]


def recent_errors() -> list[str]:
    """Why kernels could not be compiled or launched, and packages not used (at most 32 messages,
    the latest last)."""
    return [str(message) for message in library.recent_errors()]
