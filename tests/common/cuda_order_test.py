"""Kernels of common/cuda wait for the kernels before them, as common/cuda/launch.h asks."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

CUOBJDUMP, *OBJECTS = (Path(argument).resolve() for argument in sys.argv[1:])


def kernels(ptx: str) -> dict[str, list[str]]:
    """The instructions of each kernel, without their operands."""
    bodies = re.findall(r"\.entry (\w+)\(.*?^\{(.*?)^\}", ptx, re.DOTALL | re.MULTILINE)
    return {
        name: re.findall(r"^\s*(?:@!?%\w+\s+)?([a-z]\w*(?:\.\w+)*)", body, re.MULTILINE)
        for name, body in bodies
    }


class CudaOrder(unittest.TestCase):
    def test_wait_comes_first(self) -> None:
        """Would catch an access to memory that the kernel before may still use, and a thread that
        ends early: what comes after would no longer be after the kernel before.
        """
        for path in OBJECTS:
            run = subprocess.run(
                [CUOBJDUMP, "--dump-ptx", path], check=True, capture_output=True, text=True
            )
            found = kernels(run.stdout)
            self.assertEqual(len(found), run.stdout.count(".entry "), path.name)
            for name, instructions in found.items():
                with self.subTest(path.name, kernel=name):
                    self.assertIn("griddepcontrol.wait", instructions)
                    before = instructions[: instructions.index("griddepcontrol.wait")]
                    others = [i for i in before if not i.startswith(("mov.", "ld.param."))]
                    self.assertEqual(others, [])

    def test_objects_hold_kernels(self) -> None:
        """Would catch a test of nothing."""
        self.assertGreater(len(OBJECTS), 5)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
