"""The link recipe outside of Bazel's actions.

A recipe's paths are relative to Bazel's execution root. A program that Bazel built finds the same
files in its runfiles; here they are put back where the recipe expects them, by symbolic links.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.gen_kernels.package import LinkRecipe

_RECIPE = Path(__file__).parent / "link_recipe.json"
# runfiles/<this repository>/tools/gen_kernels/<this file>
_RUNFILES = Path(__file__).absolute().parents[3]
_MAIN_REPOSITORY = "_main"
_GENERATED = re.compile(r"\bbazel-out/[^/\"]+/bin\b")


def link_repositories(root: Path, runfiles: Path) -> None:
    """Puts the main repository and the others where an execution root has them."""
    (root / "external").symlink_to(runfiles)
    main = runfiles / _MAIN_REPOSITORY
    for entry in main.iterdir() if main.is_dir() else ():
        # Where --legacy_external_runfiles is on, the other repositories lie in here as well.
        if entry.name != "external":
            (root / entry.name).symlink_to(entry)


@contextmanager
def link_recipe() -> Iterator[LinkRecipe]:
    """The recipe that this program was built with, usable within the context."""
    with tempfile.TemporaryDirectory(prefix="execution_root_") as name:
        root = Path(name)
        link_repositories(root, _RUNFILES)
        # Runfiles do not tell generated files from sources.
        for folder in set(_GENERATED.findall(_RECIPE.read_text(encoding="utf-8"))):
            (root / folder).parent.mkdir(parents=True, exist_ok=True)
            (root / folder).symlink_to(root)
        yield LinkRecipe.load(_RECIPE, root)
