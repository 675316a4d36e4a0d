"""The configuration encoding of C++ and of Python, held together."""

import pathlib
import subprocess

from cutedsl import config

PRINT_CONFIGS = pathlib.Path(__file__).parent / "print_configs"


def test_both_languages_agree_on_every_legal_configuration() -> None:
    """Catches a bit, token, order or rule of legality that was changed in one language only."""
    output = subprocess.run([PRINT_CONFIGS], check=True, capture_output=True, text=True).stdout
    from_cpp = [(int(id_text), name) for id_text, name in map(str.split, output.splitlines())]
    assert len(from_cpp) == 1224
    assert from_cpp == [(c.id, c.name) for c in config.all_legal_configs()]
