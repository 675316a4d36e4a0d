"""The compiler, without a GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cutedsl import architectures, compiler, digest, tuning
from cutedsl.config import QuantizeConfig, all_legal_configs

CONFIG = QuantizeConfig("bf16", "fp8_e4m3fn", rowwise=True)
OTHER_CONFIG = QuantizeConfig("fp32", "fp8_e5m2", rowwise=True, swizzled=True, with_amax=True)

COMPILE_ALONE = """
import sys
from cutedsl import compiler
from cutedsl.config import QuantizeConfig
compiler.compile_to_object(QuantizeConfig.parse(sys.argv[1]), sys.argv[2], sys.argv[3])
"""


def run_python(program: str, *arguments: str, **options) -> subprocess.CompletedProcess:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    environment.update(options.pop("env", {}))
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        **options,
    )


def test_object_carries_the_name(tmp_path: Path):
    """Would catch a symbol that the generated table of a package does not find, and a kernel that
    profilers and reports show under the name of another configuration.
    """
    path = tmp_path / "kernel.o"
    for config in (CONFIG, OTHER_CONFIG):
        compiler.compile_to_object(config, "sm_90a", path)
        content = path.read_bytes()
        assert f"\0__tvm_ffi_{config.name}\0".encode() in content
        functions = re.findall(rb"\0\.text\.(\w+)_\d+(?=\0)", content)
        shapes = tuning.choose(config, architectures.get("sm_90a"))
        assert set(functions) == {shape.kernel_name(config).encode() for shape in shapes}


def test_same_bytes_in_every_process(tmp_path: Path):
    """Would catch anything of a process in an object: addresses, folders, or kernels before it."""
    compiler.compile_to_object(OTHER_CONFIG, "sm_90a", tmp_path / "before.o")
    compiler.compile_to_object(CONFIG, "sm_90a", tmp_path / "here.o")
    run_python(COMPILE_ALONE, CONFIG.name, "sm_90a", str(tmp_path / "there.o"), cwd=tmp_path)
    here, there = (tmp_path / name for name in ("here.o", "there.o"))
    assert here.read_bytes() == there.read_bytes()
    assert str(Path(compiler.__file__).parent).encode() not in here.read_bytes()


def test_function_for_this_process():
    """Would catch a wrapper in Python around the compiled function, entered by every call from C++.

    CuTeDSL is told that there is a GPU, so that it makes the function; it is called with too few
    arguments, so that it launches nothing.
    """
    program = """
import sys, tvm_ffi
from cutedsl import compiler
from cutedsl.config import QuantizeConfig
function = compiler.compile_function(QuantizeConfig.parse(sys.argv[1]), 90)
assert type(function) is tvm_ffi.Function, type(function)
try:
    function(None)
except TypeError as error:
    print(error)
"""
    output = run_python(program, CONFIG.name, env={"CUTE_DSL_ARCH": "sm_90a"}).stdout
    assert "Expects 10 parameters" in output
    for argument in ("act_input: None", "rowwise_data: Tensor([n0, n1], float8_e4m3fn)"):
        assert argument in output


def test_refusals(tmp_path: Path):
    """Would catch an unclear failure deep in the compiler for what cannot be compiled."""
    illegal = QuantizeConfig("bf16", "fp8_e4m3fn")
    with pytest.raises(ValueError, match=illegal.name):
        compiler.compile_to_object(illegal, "sm_90a", tmp_path / "kernel.o")
    with pytest.raises(ValueError, match="sm_80"):
        compiler.compile_to_object(CONFIG, "sm_80", tmp_path / "kernel.o")
    with pytest.raises(ValueError, match="89"):
        compiler.compile_function(CONFIG, 89)


def test_tuning_fits_every_configuration():
    """Would catch a shape in the table that cannot compute what it is chosen for, a kernel whose
    name says something else, and tensors that no kernel is for.
    """
    for architecture in architectures.ARCHITECTURES.values():
        for config in all_legal_configs():
            shapes = tuning.choose(config, architecture)
            for shape in shapes:
                shape.check(config)
                name = shape.kernel_name(config)
                assert tuning.find(name, architecture) == (config, shape)
            assert [shape.max_elements is None for shape in shapes[-2:]] in ([True], [False, True])


def test_all_kernels_are_preloaded():
    """Would catch kernels for tensors larger than those that PreloadKernels launches them on."""
    header = Path(os.environ["PRELOAD_HEADER"]).read_text()
    (columns,) = re.findall(r" kPreloadCols = (\d+);", header)
    (shift,) = re.findall(r" kPreloadLargeRows = int64_t\{1\} << (\d+);", header)
    assert all(
        int(columns) <= shape.max_elements < (1 << int(shift)) * int(columns)
        for architecture in architectures.ARCHITECTURES.values()
        for config in all_legal_configs()
        for shape in tuning.choose(config, architecture)[:-1]
    )


def test_kernels_are_called_with_what_they_ask_for():
    """Would catch calls that kernels refuse, and calls that they would serve and do not get."""
    dispatcher = Path(os.environ["DISPATCHER"]).read_text()
    assert re.findall(r" k(ColsMultiple|Alignment) = (\d+);", dispatcher) == [
        ("ColsMultiple", str(compiler.COLUMN_MULTIPLE)),
        ("Alignment", str(compiler.DATA_ALIGNMENT)),
    ]


@pytest.mark.parametrize(
    "shape",
    [
        tuning.Tuning(4, 4, 32, 1, 1),  # half a 16-byte load
        tuning.Tuning(8, 6, 32, 1, 1),
        tuning.Tuning(8, 32, 2, 1, 1),  # half a block
        tuning.Tuning(8, 16, 32, 1, 1),  # half a column's block
        tuning.Tuning(8, 32, 16, 1, 1),  # two blocks in a column of a warp
        tuning.Tuning(8, 32, 32, 33, 1),
        tuning.Tuning(8, 4, 8, 1, 2, gathers_row_scales=True),  # two scales in a row
    ],
    ids=str,
)
def test_tuning_refuses(shape: tuning.Tuning):
    """Would catch a variant that compiles and computes nonsense."""
    config = QuantizeConfig("bf16", "fp8_e4m3fn", rowwise=True, colwise=True)
    with pytest.raises(ValueError, match=r"Tuning.check"):
        shape.check(config)


@pytest.mark.parametrize("with_dact, warps", [(False, 16), (True, 8)])
def test_tuning_refuses_other_chunks(with_dact: bool, warps: int):
    """Would catch a CTA that sums up more or fewer rows than a row of the workspace stands for."""
    config = QuantizeConfig(
        rowwise=True,
        with_dbias=True,
        with_dact=with_dact,
        activation="dgelu" if with_dact else "none",
    )
    for shape in (tuning.Tuning(8, 8, 32, 1, warps), tuning.Tuning(8, 8, 16, 1, warps // 2)):
        shape.check(config)
    for shape in (tuning.Tuning(8, 8, 32, 1, warps // 2), tuning.Tuning(8, 8, 16, 1, warps)):
        with pytest.raises(ValueError, match="chunk of rows"):
            shape.check(config)


def test_source_digest(tmp_path: Path):
    """Would catch a source that kernels are made from and the digest leaves out, and a digest that
    differs from process to process.
    """
    package = tmp_path / "cutedsl"
    shutil.copytree(Path(digest.__file__).parent, package, copy_function=shutil.copyfile)

    def digest_of_copy() -> str:
        program = "from cutedsl import digest; print(digest.source_digest())"
        return run_python(program, env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path).stdout.strip()

    assert digest_of_copy() == digest.source_digest()
    ignored = set()
    for path in package.rglob("*.py"):
        content = path.read_bytes()
        path.write_bytes(content + b"# changed\n")
        if digest_of_copy() == digest.source_digest():
            ignored.add(path.name)
        path.write_bytes(content)
    assert ignored == {"reference.py"}
