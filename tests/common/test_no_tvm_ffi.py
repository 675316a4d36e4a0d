"""`//common` and `//common/nvte` stand by themselves: no TVM-FFI, no Python."""

import os
import subprocess

ARCHIVES = os.environ["COMMON_ARCHIVES"].split()


def test_no_symbol_of_the_rooms_above() -> None:
    """Catches a dependency that makes every user of the core link TVM-FFI or an interpreter."""
    symbols = subprocess.run(
        ["nm", "--format=posix", *ARCHIVES], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert any("cutedsl_quant" in line and "QuantizeAs" in line for line in symbols)
    assert any(line.startswith("nvte_quantize ") for line in symbols)
    assert any(line.startswith("cudaLaunchKernel") for line in symbols)
    foreign = [s for s in symbols if "tvm" in s.lower() or s.startswith(("Py", "_Py"))]
    assert foreign == []
