"""For programs that are started with `bazel run`."""

from __future__ import annotations

import os


def enter_callers_folder() -> None:
    """Paths are relative to where the caller stood; Bazel starts programs in one of its own."""
    os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
