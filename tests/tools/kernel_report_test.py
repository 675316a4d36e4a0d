"""kernel_report: what it reads from NVIDIA's tools, what follows from that, and the program."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest

from cutedsl import architectures, compiler, tuning
from cutedsl.config import QuantizeConfig, select
from tools.kernel_report import instruction_mix, kernel_facts, nvidia_tools
from tools.kernel_report.gpus import GPUS
from tools.kernel_report.kernel_report import EXIT_SPILLS
from tools.kernel_report.nvidia_tools import Instruction, ResourceUsage, ToolError
from tools.kernel_report.occupancy import resident_ctas

PROGRAM = Path(os.environ["KERNEL_REPORT"]).absolute()
LIBRARY = next(
    path.absolute() for path in map(Path, os.environ["PACKAGE"].split()) if path.suffix == ".so"
)
CONFIGS = select(os.environ["CONFIGS"].split())
BOTH = QuantizeConfig("bf16", "fp8_e4m3fn", rowwise=True, colwise=True)

# What cuobjdump printed about a kernel that was given too few registers, and about a good one.
RESOURCES = """
Resource usage:
 Common:
  GLOBAL:0
 Function cutedsl_mxfp8_bf16_fp8_e4m3fn_1_1_0_0_0_0_0_0_none_0:
  REG:32 STACK:808 SHARED:3584 LOCAL:0 CONSTANT[0]:736 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function cutedsl_mxfp8_bf16_fp8_e4m3fn_1_1_0_0_1_1_0_0_dgelu_0:
  REG:80 STACK:0 SHARED:13824 LOCAL:0 CONSTANT[0]:800 TEXTURE:0 SURFACE:0 SAMPLER:0
"""

# Pieces of what nvdisasm printed about a kernel for sm_120f.
LISTING = """
	.target	sm_120

	.elftype	@"ET_EXEC"


//--------------------- .text.cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none_0 -----------------
	.section	.text.cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none_0,"ax",@progbits
	.align	128
.text.cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none_0:
        /*0050*/                   BRA.U !UP0, `(.L_x_0) ;
        /*0060*/                   LDC.64 R2, c[0x0][0x3f8] ;
.L_x_0:
        /*0080*/                   ISETP.NE.U32.AND P0, PT, R2, 0x3f800000, PT ;
        /*0090*/              @!P0 EXIT ;
        /*0380*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR10][R6.64] ;
        /*03a0*/              @!P0 BRA `(.L_x_1) ;
        /*0520*/               @P0 LDG.E.128.CONSTANT R4, desc[UR10][R22.64] ;
.L_x_1:
        /*0570*/                   HMNMX2.BF16_V2.XORSIGN R20, |R12|, |R13|, !PT ;
        /*0580*/                   UIADD3.64 UR8, UPT, UPT, UR14, 0x1f, URZ ;
        /*1070*/                   F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C R8, R32, R29, RZ ;
        /*11f0*/                   EXIT ;
.L_x_2:
        /*1200*/                   BRA `(.L_x_2);
        /*1210*/                   NOP;
.L_x_3:
"""


def test_resource_usage():
    """Would catch a spill that is read as none, and numbers of one kernel given to another."""
    assert nvidia_tools.parse_resource_usage(RESOURCES) == {
        "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_1_0_0_0_0_0_0_none": ResourceUsage(32, 808, 3584),
        "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_1_0_0_1_1_0_0_dgelu": ResourceUsage(80, 0, 13824),
    }
    spills = [usage.spills for usage in nvidia_tools.parse_resource_usage(RESOURCES).values()]
    assert spills == [True, False]


@pytest.mark.parametrize(
    "report",
    [
        "",
        "Resource usage:\n Common:\n  GLOBAL:0\n",
        RESOURCES.replace(" STACK:808", ""),
        RESOURCES.replace("  REG:80", "  "),
        RESOURCES.replace("dgelu_0:", "dgelu:"),
    ],
)
def test_other_resource_usage(report: str):
    """Would catch a release of cuobjdump that prints something else: no news is not good news."""
    with pytest.raises(ToolError):
        nvidia_tools.parse_resource_usage(report)


def test_machine_code():
    """Would catch an instruction that is overlooked, and a branch that leads elsewhere."""
    ((name, code),) = nvidia_tools.parse_machine_code(LISTING).items()
    assert name == "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none"
    assert code.compute_capability == 120
    assert [(step.operation, step.is_conditional, step.target) for step in code.instructions] == [
        ("BRA", True, 2),
        ("LDC", False, None),
        ("ISETP", False, None),
        ("EXIT", True, None),
        ("LDG", True, None),
        ("BRA", True, 7),
        ("LDG", True, None),
        ("HMNMX2", False, None),
        ("UIADD3", False, None),
        ("F2FP", False, None),
        ("EXIT", False, None),
        ("BRA", False, 11),
        ("NOP", False, None),
    ]


def test_whole_tile_path():
    """Would catch the loads of whole and of other tiles counted together, an exit taken too early,
    and padding counted as work.
    """
    (code,) = nvidia_tools.parse_machine_code(LISTING).values()
    path = instruction_mix.whole_tile_path(code)
    operations = "BRA ISETP EXIT LDG BRA HMNMX2 UIADD3 F2FP EXIT"
    assert [step.operation for step in path] == operations.split()
    assert instruction_mix.count(path) == {
        "float": 1,
        "special": 0,
        "integer": 2,
        "convert": 1,
        "memory": 1,
        "shared": 0,
        "control": 4,
    }


def test_packed_arithmetic():
    """Would catch an instruction for two elements that is counted as two, or computed as one."""
    path = [Instruction(opcode, False) for opcode in ("FFMA2", "FADD", "FMUL2", "FSETP.GT.AND")]
    assert instruction_mix.count(path)["float"] == 4
    assert instruction_mix.fp32_results(path) == 2 + 1 + 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@!P0 BRA `(.L_x_1)", "@!P0 BRA `(.L_x_0)", "loop"),
        ("@!P0 BRA `(.L_x_1)", "CALL.REL.NOINC `(.L_x_1)", "CALL"),
        ("HMNMX2.BF16_V2", "HNEW.BF16_V2", "HNEW.BF16_V2.XORSIGN"),
    ],
)
def test_no_count_is_better_than_a_wrong_one(old: str, new: str, message: str):
    """Would catch a count of instructions that run more than once, or of an unknown kind."""
    (code,) = nvidia_tools.parse_machine_code(LISTING.replace(old, new)).values()
    with pytest.raises(ToolError, match=message):
        instruction_mix.count(instruction_mix.whole_tile_path(code))


@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared_bytes", "ctas"),
    [
        ("sm_90a", 256, 40, 0, 6),
        ("sm_90a", 256, 80, 13824, 3),
        ("sm_90a", 1024, 72, 0, 0),
        ("sm_100f", 256, 85, 13824, 2),
        ("sm_120f", 32, 16, 1024, 24),
        ("sm_120f", 128, 40, 17000, 6),
        ("sm_120f", 512, 128, 40000, 1),
    ],
)
def test_occupancy(architecture: str, threads: int, registers: int, shared_bytes: int, ctas: int):
    """Would catch a wrong limit or unit; the expected values are those of cuda_occupancy.h."""
    multiprocessor = architectures.get(architecture).multiprocessor
    usage = ResourceUsage(registers, 0, shared_bytes)
    assert resident_ctas(multiprocessor, usage, threads) == ctas


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (QuantizeConfig("bf16", rowwise=True), 2 + 33 / 32),
        (QuantizeConfig("fp32", rowwise=True, colwise=True, swizzled=True), 4 + 66 / 32),
        (QuantizeConfig("bf16", colwise=True, with_dbias=True), 2 + 33 / 32 + 4 / 128),
        (
            QuantizeConfig(
                "fp16", colwise=True, with_dbias=True, with_dact=True, activation="dgelu"
            ),
            4 + 33 / 32 + 4 / 64,
        ),
    ],
)
def test_bytes_per_element(config: QuantizeConfig, expected: float):
    """Would catch an input or an output that the memory time leaves out."""
    assert kernel_facts.bytes_per_element(config) == expected


def run(folder: Path, *arguments: str | Path) -> tuple[int, str, str]:
    """Runs the program as `bazel run` called from `folder` would."""
    result = subprocess.run(
        [PROGRAM, *arguments],
        env=os.environ | {"BUILD_WORKING_DIRECTORY": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout, result.stderr


def test_reports_a_package(tmp_path: Path):
    """Would catch a kernel that is left out, and figures that contradict one another."""
    code, stdout, stderr = run(tmp_path, LIBRARY, "--json", "report.json", "--fail-on-spills")
    assert (code, stderr) == (0, "")
    kernels = json.loads((tmp_path / "report.json").read_text())["kernels"]
    sm_90a = architectures.get("sm_90a")
    assert sorted(kernel["kernel"] for kernel in kernels) == sorted(
        shape.kernel_name(config) for config in CONFIGS for shape in tuning.choose(config, sm_90a)
    )
    for kernel in kernels:
        config, _ = tuning.find(kernel["kernel"], sm_90a)
        assert kernel["kernel"].removeprefix("cutedsl_mxfp8_") in stdout
        assert kernel["architecture"] == "sm_90a"
        assert 16 <= kernel["registers"] <= 255
        assert kernel["local_bytes"] == 0 and not kernel["spills"]
        warps = kernel["ctas_per_multiprocessor"] * kernel["threads"] / 32
        assert kernel["occupancy"] == warps / 64
        counts = kernel["instructions_per_element"]
        # Two elements are converted by an instruction.
        assert counts["convert"] == (config.rowwise + config.colwise) / 2
        assert sum(counts.values()) == pytest.approx(
            kernel["issue_ps_per_element"] * GPUS["sm_90a"].issue_rate / 1e12, rel=1e-3
        )


def test_compiles(tmp_path: Path):
    """Would catch a report about other kernels than those asked for."""
    code, stdout, stderr = run(tmp_path, "--arch", "sm_120f", "--configs", CONFIGS[0].name)
    assert code == 0, stderr
    shapes = tuning.choose(CONFIGS[0], architectures.get("sm_120f"))
    assert stdout.count("\n" + CONFIGS[0].name.removeprefix("cutedsl_mxfp8_")) == 2 * len(shapes)
    assert "sm_120f" in stdout and "sm_90a" not in stdout


def test_spills(tmp_path: Path):
    """Would catch a check that passes whatever it looks at."""
    *_, shape = tuning.choose(BOTH, architectures.get("sm_90a"))
    starved = dataclasses.replace(shape, min_ctas_per_sm=2048 // shape.threads)
    compiler.compile_to_object(BOTH, "sm_90a", tmp_path / "starved.o", starved)
    for arguments, expected in (([], 0), (["--fail-on-spills"], EXIT_SPILLS)):
        code, _, stderr = run(tmp_path, "starved.o", *arguments)
        assert (code, stderr) == (expected, f"{BOTH.name} spills registers on sm_90a\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.o"], "missing.o"),
        ([str(PROGRAM)], "holds no kernels"),
        (["--configs", "casts"], "'casts'"),
        (["--arch", "sm_80"], "sm_80"),
        ([str(LIBRARY), "--arch", "sm_120f"], "no kernel of the chosen"),
        ([str(LIBRARY), "--configs", "*_dgelu"], "no kernel of the chosen"),
    ],
)
def test_one_clear_line_for_bad_arguments(tmp_path: Path, arguments: list[str], message: str):
    """Would catch a stack trace, and an empty report that looks like a good one."""
    code, stdout, stderr = run(tmp_path, *arguments)
    assert code != 0
    assert stdout == ""
    assert "Traceback" not in stderr
    assert message in stderr.splitlines()[-1]
