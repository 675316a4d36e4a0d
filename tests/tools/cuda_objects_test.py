"""An object of cuda_library: code for every architecture, and no trace of the build."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

CUOBJDUMP, OBJECT = (Path(argument).resolve() for argument in sys.argv[1:3])


def listed(what: str) -> list[str]:
    """The architectures that cuobjdump lists, such as sm_90a."""
    run = subprocess.run(
        [CUOBJDUMP, f"--list-{what}", OBJECT], check=True, capture_output=True, text=True
    )
    return sorted(re.findall(r"\b(sm_\w+)\.", run.stdout))


class CudaObjects(unittest.TestCase):
    def test_machine_code_for_every_architecture(self) -> None:
        # cuobjdump leaves the f of a family out.
        self.assertEqual(listed("elf"), ["sm_100", "sm_120", "sm_90a"])

    def test_portable_ptx_of_the_lowest(self) -> None:
        self.assertEqual(listed("ptx"), ["sm_90"])

    def test_names_no_folder_of_the_build(self) -> None:
        content = OBJECT.read_bytes()
        for trace in (b"/execroot/", b"/sandbox/", b"tmpxft_", b"/tmp/"):
            self.assertNotIn(trace, content)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
