"""The archive for machines with a GPU and without Bazel, unpacked and used as its users would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.bundle import make_bundle

ARCHIVE = Path(os.environ["BUNDLE"])
LIMIT = 60 << 20


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return root


def run(bundle: Path, *arguments: str | Path) -> subprocess.CompletedProcess:
    """Runs run.py with nothing in the environment and from another folder."""
    return subprocess.run(
        [sys.executable, bundle / "run.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
    )


def test_size():
    """Would catch a dependency that makes the archive too large to be sent to a GPU machine."""
    assert ARCHIVE.stat().st_size <= LIMIT


def test_programs_start(bundle: Path):
    """Would catch a library that a program finds in Bazel's tree only."""
    index = json.loads((bundle / "bundle.json").read_text())
    assert set(index["programs"]) == {"test", "bench"}
    for command in index["programs"]:
        result = run(bundle, command, "--help")
        assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
        assert result.stdout


def test_python_face(bundle: Path):
    """Would catch a module or library that the Python face imports and the archive lacks."""
    program = """
import json, cutedsl_quant, numpy
x = numpy.array([[448, 1, -448] + [0] * 29], numpy.float32)
q = cutedsl_quant.quantize(x, columnwise=False)
print(json.dumps([bytes(numpy.asarray(q.rowwise_data).view(numpy.uint8))[:3].hex(),
                  [report["path"].rpartition("/")[2] for report in cutedsl_quant.packages()]]))
"""
    result = run(bundle, "python", "-c", program)
    assert result.returncode == 0, result.stderr
    codes, packages = json.loads(result.stdout)
    assert codes == "7e38fe"
    assert {f"libkernels_{arch}.so" for arch in ("sm_90a", "sm_100f", "sm_120f")} <= set(packages)


def test_comparison_without_torch(bundle: Path):
    """Would catch a comparison that measures nothing and says so to nobody."""
    script = bundle / "_main" / "tools" / "bench" / "compare_torch.py"
    result = run(bundle, "python", script)
    assert result.returncode == 1
    assert "compare_torch: torch is not installed" in result.stderr


def test_unknown_command(bundle: Path):
    """Would catch a run that does nothing and says so to nobody."""
    for arguments in ([], ["nothing"]):
        result = run(bundle, *arguments)
        assert result.returncode == 1
        assert "commands: bench, test, python" in result.stderr


def test_archive_is_deterministic(tmp_path: Path):
    """Would catch times, owners, or an order of the file system in the archive."""
    library = tmp_path / "lib.so"
    library.write_bytes(b"library")
    library.chmod(0o755)
    other = tmp_path / "other.txt"
    other.write_text("text")
    entries = [f"b/lib.so\t{library}", f"../repo/lib.so\t{library}", f"a.txt\t{other}"]
    archives = []
    for index, order in enumerate((entries, entries[::-1])):
        os.utime(library, (index, index))
        archives.append(tmp_path / f"{index}.tar.gz")
        make_bundle.write(archives[-1], "top", make_bundle.select(order, []), b"{}")
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as tar:
        names = tar.getnames()
        assert names == [
            "top/bundle.json",
            "top/_main/a.txt",
            "top/_main/b/lib.so",
            "top/repo/lib.so",
        ]
        assert tar.getmember("top/repo/lib.so").islnk()
        assert tar.getmember("top/_main/b/lib.so").mode == 0o755


def test_excluded_files(tmp_path: Path):
    """Would catch a pattern that is compared with another path than the one in the archive."""
    entries = [f"../pypi/site/x/{name}\t{tmp_path / name}" for name in ("a.h", "a.py")]
    selected = make_bundle.select(entries, ["*/site/*.h"])
    assert list(selected) == [("pypi/site/x/a.py", tmp_path / "a.py")]
