"""The protocol between Bazel and the persistent worker."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

from tools.gen_kernels import compile_worker

WORKER = Path(os.environ["COMPILE_WORKER"]).absolute()
CONFIG = "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none"


def arguments(output: Path, arch: str = "sm_90a", config: str = CONFIG) -> list[str]:
    return ["--arch", arch, "--config", config, "--shard=0", "--shards=1", "--output", str(output)]


def test_one_process_serves_good_and_bad_requests(tmp_path: Path):
    """Would catch a worker that dies of a bad request, or prints into the protocol's stream."""
    requests = [
        {"arguments": arguments(tmp_path / "first.tar"), "requestId": 0},
        {"arguments": arguments(tmp_path / "x.tar", arch="sm_80"), "requestId": 0},
        {"arguments": arguments(tmp_path / "x.tar", config="nothing_like_it"), "requestId": 0},
        {"arguments": ["--bogus"], "requestId": 0},
        {"arguments": arguments(tmp_path / "no" / "folder.tar"), "requestId": 0},
        {"arguments": arguments(tmp_path / "last.tar"), "requestId": 7},
    ]
    result = subprocess.run(
        [WORKER, "--persistent_worker"],
        input="".join(json.dumps(request) + "\n" for request in requests),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    responses = [json.loads(line) for line in result.stdout.splitlines()]
    assert [response["exitCode"] for response in responses] == [0, 1, 1, 1, 1, 0]
    assert responses[-1]["requestId"] == 7
    for response, expected in zip(
        responses, ["", "sm_80", "nothing_like_it", "--arch", "folder.tar", ""], strict=True
    ):
        assert expected in response["output"]
        assert bool(response["output"]) == bool(response["exitCode"])
    first, last = (tmp_path / name for name in ("first.tar", "last.tar"))
    assert first.read_bytes() == last.read_bytes()
    with tarfile.open(first) as tar:
        assert tar.getnames() == [f"{CONFIG}.o"]
    assert not (tmp_path / "x.tar").exists()


def test_answers_each_request_before_reading_the_next():
    """Would catch buffered responses: Bazel sends the next request only after the answer."""

    class Requests:
        """Hands out lines one by one and checks that the one before was answered."""

        def __iter__(self):
            for count in range(3):
                assert responses.getvalue().count("\n") == count
                yield json.dumps({"arguments": [str(count)], "requestId": count}) + "\n"

    responses = io.StringIO()
    compile_worker.serve(Requests(), responses, lambda arguments: None)
    assert [json.loads(line)["requestId"] for line in responses.getvalue().splitlines()] == [
        0,
        1,
        2,
    ]


def test_one_shot_reads_a_parameter_file(tmp_path: Path):
    """Would catch a worker that Bazel cannot run where workers are off (remote execution)."""
    parameters = tmp_path / "params"
    parameters.write_text("\n".join(arguments(tmp_path / "out.tar", arch="sm_80")) + "\n")
    result = subprocess.run([WORKER, f"@{parameters}"], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "sm_80" in result.stderr
    assert result.stdout == ""
