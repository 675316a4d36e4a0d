"""The same inputs give the same bytes: whatever the folder, the process, and what ran before."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from cutedsl.config import select
from tools.gen_kernels import execution_root, package, shards

WORKER = Path(os.environ["COMPILE_WORKER"]).absolute()
BUILT = {Path(path).suffix: Path(path).absolute() for path in os.environ["PACKAGE"].split()}
SELECTORS = os.environ["CONFIGS"].split()
COUNT = int(os.environ["SHARDS"])


def shard_arguments(index: int, output: Path) -> list[str]:
    arguments = ["--arch", "sm_90a"]
    for selector in SELECTORS:
        arguments += ["--config", selector]
    return [*arguments, "--shard", str(index), "--shards", str(COUNT), "--output", str(output)]


def compile_one_shot(folder: Path) -> list[Path]:
    """Each shard in a process of its own."""
    outputs = [folder / f"{index}.tar" for index in range(COUNT)]
    for index, output in enumerate(outputs):
        subprocess.run([WORKER, *shard_arguments(index, output)], check=True, cwd=folder)
    return outputs


def compile_in_worker(folder: Path) -> list[Path]:
    """All shards in one process, last one first."""
    outputs = [folder / f"{index}.tar" for index in range(COUNT)]
    requests = [
        {"arguments": shard_arguments(index, output)}
        for index, output in reversed(list(enumerate(outputs)))
    ]
    result = subprocess.run(
        [WORKER, "--persistent_worker"],
        input="".join(json.dumps(request) + "\n" for request in requests),
        check=True,
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert [json.loads(line)["exitCode"] for line in result.stdout.splitlines()] == [0] * COUNT
    return outputs


def link(archives: list[Path], folder: Path) -> dict[str, bytes]:
    (folder / "objects").mkdir()
    files = {suffix: folder / path.name for suffix, path in BUILT.items()}
    with execution_root.link_recipe() as recipe:
        package.build_package(
            recipe,
            name="tests_tools_package",
            architecture="sm_90a",
            configs=select(SELECTORS),
            objects=shards.unpack(archives, folder / "objects"),
            library=files[".so"],
            manifest_path=files[".json"],
            getter_alias="tests_tools_package",
        )
    return {suffix: path.read_bytes() for suffix, path in files.items()}


@pytest.mark.parametrize("compile_shards", [compile_one_shot, compile_in_worker])
def test_same_bytes_as_the_bazel_target(compile_shards, tmp_path: Path):
    """Would catch a path, a time, a hash seed or left-over compiler state in the output.

    Any of them makes a remote cache useless and a package impossible to verify.
    """
    rebuilt = link(compile_shards(tmp_path), tmp_path)
    assert rebuilt == {suffix: path.read_bytes() for suffix, path in BUILT.items()}


def test_shards_are_a_partition():
    """Would catch a kernel that falls between shards, or is compiled twice."""
    configs = select(["cast"])
    for count in (1, 2, 5, len(configs), len(configs) + 1):
        dealt = [config for index in range(count) for config in shards.deal(configs, index, count)]
        assert sorted(dealt, key=lambda config: config.id) == list(configs)
    for index, count in ((-1, 2), (2, 2), (0, 0)):
        with pytest.raises(ValueError, match="no shard"):
            shards.deal(configs, index, count)
