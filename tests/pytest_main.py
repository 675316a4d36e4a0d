"""Runs pytest on the files in its arguments and reports to Bazel."""

import os
import sys

import pytest


def main() -> int:
    arguments = ["-p", "no:cacheprovider", "--import-mode=importlib", "-ra", "-v"]
    if report := os.environ.get("XML_OUTPUT_FILE"):
        arguments.append(f"--junitxml={report}")
    if scratch := os.environ.get("TEST_TMPDIR"):
        arguments.append(f"--basetemp={scratch}/pytest")
    if only := os.environ.get("TESTBRIDGE_TEST_ONLY"):
        arguments += ["-k", only]
    return pytest.main(arguments + sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
