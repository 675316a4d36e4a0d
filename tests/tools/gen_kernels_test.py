"""gen_kernels as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from cutedsl import architectures
from cutedsl.config import select
from tests.tools import elf
from tools.gen_kernels import devices, execution_root, gen_kernels, manifest, terminal

PROGRAM = Path(os.environ["GEN_KERNELS"]).absolute()
KERNEL = "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none"
GLOB = "cutedsl_mxfp8_bf16_fp8_e4m3fn_?_0_0_0_0_0_0_0_none"


def start(folder: Path, *arguments: str, **options) -> subprocess.Popen:
    """Starts it in a process group of its own, as `bazel run` called from `folder` would."""
    return subprocess.Popen(
        [PROGRAM, *arguments],
        env=os.environ | {"BUILD_WORKING_DIRECTORY": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = start(folder, *arguments)
    stdout, stderr = process.communicate()
    return process.returncode, stdout, stderr


def test_generates_packages(tmp_path: Path):
    """Would catch a package that differs from what was asked for, and a table that does not say."""
    selection = tmp_path / "mine.json"
    selection.write_text(json.dumps([GLOB]))
    code, stdout, stderr = run(
        tmp_path, "--arch=sm_90a", "--arch=sm_120f", "--configs=mine.json", "--out=out", "--jobs=2"
    )
    assert code == 0, stderr
    names = [f"libcutedsl_quant_mine_{arch}" for arch in ("sm_90a", "sm_120f")]
    files = sorted(f"{name}{suffix}" for name in names for suffix in (".so", ".json"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == files
    for name, architecture in zip(names, ("sm_90a", "sm_120f"), strict=True):
        library = tmp_path / "out" / f"{name}.so"
        described = json.loads(library.with_suffix(".json").read_text())
        assert described["architecture"] == architecture
        assert described["kernels"] == [KERNEL]
        assert described["library"]["checksum"] == manifest.checksum(library.read_bytes())
        assert f"__tvm_ffi_{KERNEL}" in elf.read(library).exported
        assert library.stat().st_mode & stat.S_IRUSR
        assert f"{name}.so" in stdout
    # Plain lines where there is no terminal.
    lines = stderr.splitlines()
    assert [line.split()[0] for line in lines] == ["[1/2]", "[2/2]"]
    assert "\r" not in stderr and "\x1b" not in stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["cast"]),
        (["--configs", "training"], ["training"]),
        (["--configs", "full"], ["full"]),
        (["--configs", GLOB], [GLOB]),
        (["--configs", KERNEL], [KERNEL]),
        (["--configs", GLOB, "--configs", "*_fp32_*_none"], [GLOB, "*_fp32_*_none"]),
    ],
)
def test_list(tmp_path: Path, arguments: list[str], expected: list[str]):
    """Would catch a selection that means something else here than in Bazel's rule."""
    code, stdout, stderr = run(tmp_path, "--list", *arguments)
    assert (code, stderr) == (0, "")
    assert stdout.splitlines() == [config.name for config in select(expected)]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arch", "sm_80"], ["sm_80", "sm_90a", "sm_100f", "sm_120f"]),
        (["--arch", "sm_90a", "--arch", ""], ["--arch", "sm_90a"]),
        (["--configs", "casts"], ["'casts'", "cast", "full"]),
        (["--configs", "*_fp64_*"], ["'*_fp64_*'"]),
        (["--configs", "missing.json"], ["missing.json", "No such file"]),
        (["--configs", "text.json"], ["text.json"]),
        (["--configs", "object.json"], ["object.json", "list of strings"]),
        (["--configs", "numbers.json"], ["numbers.json", "list of strings"]),
        (["--jobs", "0"], ["--jobs", "0"]),
        (["--jobs", "many"], ["--jobs", "many"]),
        (["--name", "a/b"], ["--name", "a/b"]),
        (["--out", "text.json"], ["--out", "text.json", "File exists"]),
        (["--out", "text.json/below"], ["--out", "Not a directory"]),
        (["--out", "/proc/none"], ["--out", "/proc/none"]),
        (["--bogus"], ["--bogus", "--help"]),
        (["extra"], ["extra"]),
    ],
)
def test_one_clear_line_for_bad_arguments(tmp_path: Path, arguments: list[str], words: list[str]):
    """Would catch a stack trace, a silent success, or minutes of compiling before the refusal."""
    (tmp_path / "text.json").write_text("not json")
    (tmp_path / "object.json").write_text('{"configs": ["cast"]}')
    (tmp_path / "numbers.json").write_text("[1]")
    code, stdout, stderr = run(tmp_path, *arguments)
    assert code != 0
    assert stdout == ""
    assert stderr.startswith("gen_kernels: ")
    assert stderr.count("\n") == 1
    assert not [word for word in words if word not in stderr], stderr


def group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_interrupted_run_leaves_nothing_half_written(tmp_path: Path, number: signal.Signals):
    """Would catch a library without its manifest, a damaged older package, or orphans compiling."""
    older = {"libcutedsl_quant_cast_sm_90a.so": b"so", "libcutedsl_quant_cast_sm_90a.json": b"{}"}
    for name, content in older.items():
        (tmp_path / name).write_bytes(content)
    process = start(tmp_path, "--arch=sm_90a", "--out=.", "--jobs=2")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("[ 1/72]")
    if number == signal.SIGINT:  # as the terminal does
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    process.communicate()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    deadline = time.monotonic() + 30
    while not group_is_gone(process.pid):
        assert time.monotonic() < deadline, "processes outlive the interrupted run"
        time.sleep(0.1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == older


def compiling_processes(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [pid for pid in map(int, children) if b"spawn_main" in cmdline(pid)]


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_compiling_process_that_dies(tmp_path: Path):
    """Would catch a run that waits for ever, or ends with a stack trace, when memory runs out."""
    process = start(tmp_path, "--arch=sm_90a", "--out=.", "--jobs=2")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("[ 1/72]")
    os.kill(compiling_processes(process.pid)[0], signal.SIGKILL)
    _, stderr = process.communicate()
    assert process.returncode == 1
    assert stderr.splitlines()[-1].startswith("gen_kernels: a compiling process died")
    assert "Traceback" not in stderr
    assert not list(tmp_path.iterdir())


def test_execution_root_of_runfiles_with_legacy_links(tmp_path: Path):
    """Would catch a program that works in this workspace alone: others have _main/external too."""
    runfiles, root = tmp_path / "runfiles", tmp_path / "root"
    for file in ("_main/cutedsl/a", "_main/external/pypi/b", "pypi/b"):
        (runfiles / file).parent.mkdir(parents=True)
        (runfiles / file).touch()
    root.mkdir()
    execution_root.link_repositories(root, runfiles)
    assert sorted(path.name for path in root.iterdir()) == ["cutedsl", "external"]
    assert (root / "external/pypi/b").is_file() and (root / "cutedsl/a").is_file()


def test_default_architectures(monkeypatch: pytest.MonkeyPatch):
    """Would catch a run that needs a GPU, or builds for another one than the machine's."""
    for capabilities, expected in (
        ([], list(architectures.ARCHITECTURES)),
        ([90, 90], ["sm_90a"]),
        ([121, 90, 80], ["sm_120f", "sm_90a"]),
        ([80], list(architectures.ARCHITECTURES)),
    ):
        monkeypatch.setattr(devices, "compute_capabilities", lambda found=capabilities: found)
        assert gen_kernels.choose_architectures(None) == expected


def test_asking_the_driver_never_fails():
    """Would catch an exception where there is no driver, or one without a device."""
    assert all(capability >= 10 for capability in devices.compute_capabilities())


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 * 2**20, "5.0 MiB"),
        (3 * 2**40, "3072.0 GiB"),
    ],
)
def test_file_size(size: int, text: str):
    """Would catch a wrong unit."""
    assert terminal.file_size(size) == text


class Terminal:
    """A stream that says it is a terminal and remembers what was written."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_progress_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    """Would catch a bar that wraps on a narrow terminal, or stays behind after the run."""
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    with terminal.Progress(3, stream) as progress:
        for _ in range(3):
            progress.step("x" * 100)
    shown = stream.text.replace("\x1b[K", "").split("\r")
    assert shown[1].startswith("[" + "." * 30 + "] 0/3 ")
    assert [len(line) for line in shown[2:]] == [59, 59, 59, 0]
    assert shown[-2].startswith("[" + "#" * 30 + "] 3/3 ")
    assert "\n" not in stream.text
