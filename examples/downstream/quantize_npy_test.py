"""Runs quantize_npy on small matrices whose quantized form is known."""

import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = Path(sys.argv[1]).absolute()


def write_npy(path: Path, dtype: str, shape: tuple[int, int], content: bytes) -> None:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    path.write_bytes(
        b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content
    )


def read_npy(path: Path) -> tuple[str, bytes]:
    content = path.read_bytes()
    assert content[:8] == b"\x93NUMPY\x01\x00"
    (size,) = struct.unpack_from("<H", content, 8)
    assert (10 + size) % 64 == 0
    return content[10 : 10 + size].decode(), content[10 + size :]


def bf16(value: float) -> bytes:
    return struct.pack("<f", value)[2:]


def run(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_known_block(folder: Path) -> None:
    """448, 1, -448 make a block with scale 2^0 and the codes 7e, 38, fe, in every input type."""
    values = [448.0, 1.0, -448.0] + [0.0] * 29
    codes = bytes([0x7E, 0x38, 0xFE] + [0] * 29)
    for dtype, flags, content in (
        ("<f4", [], struct.pack("<32f", *values)),
        ("<f2", [], struct.pack("<32e", *values)),
        ("<u2", ["--bf16"], b"".join(map(bf16, values))),
    ):
        for shape, direction in (((1, 32), []), ((32, 1), ["--columnwise"])):
            write_npy(folder / "x.npy", dtype, shape, content)
            result = run(folder / "x.npy", folder / "y", *flags, *direction)
            assert result.returncode == 0, result.stderr
            assert "served by " in result.stdout
            print(result.stdout, end="")
            header, data = read_npy(folder / "y.data.npy")
            assert f"'shape': {shape}" in header and "'|u1'" in header
            assert data == codes
            header, scales = read_npy(folder / "y.scales.npy")
            assert "'shape': (1, 1)" in header
            assert scales == b"\x7f"


def test_refusals(folder: Path) -> None:
    """One line that says what is wrong."""
    write_npy(folder / "x.npy", "<f8", (1, 32), bytes(256))
    write_npy(folder / "short.npy", "<f4", (2, 32), bytes(128))
    (folder / "text.npy").write_text("not a matrix")
    for arguments, word in (
        ([], "usage"),
        ([folder / "missing.npy", folder / "y"], "missing.npy"),
        ([folder / "text.npy", folder / "y"], "text.npy"),
        ([folder / "short.npy", folder / "y"], "short.npy"),
        ([folder / "x.npy", folder / "y"], "<f8"),
        ([folder / "x.npy", folder / "y", "--bf16"], "--bf16"),
    ):
        result = run(*arguments)
        assert result.returncode == 1
        assert word in result.stderr, result.stderr


if __name__ == "__main__":
    for test in (test_known_block, test_refusals):
        with tempfile.TemporaryDirectory() as name:
            test(Path(name))
