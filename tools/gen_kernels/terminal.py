"""What a long run shows: a progress bar on a terminal, lines elsewhere, a table at the end."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TextIO

_BAR_WIDTH = 30


class Progress:
    """Counts `total` steps on `stream`. A context manager, so that the bar never stays behind."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total = total
        self._done = 0
        self._stream = stream
        self._is_terminal = stream.isatty()

    def __enter__(self) -> Progress:
        if self._is_terminal:
            self._draw("importing the compiler")
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            self._write("\r\x1b[K")

    def step(self, text: str) -> None:
        """One step is done; `text` says which."""
        self._done += 1
        if self._is_terminal:
            self._draw(text)
        else:
            self._write(f"[{self._count()}] {text}\n")

    def _count(self) -> str:
        return f"{self._done:{len(str(self._total))}}/{self._total}"

    def _draw(self, text: str) -> None:
        filled = _BAR_WIDTH * self._done // self._total
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        width = shutil.get_terminal_size().columns - 1
        self._write("\r\x1b[K" + f"[{bar}] {self._count()} {text}"[:width])

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows in columns: the first to the left, the others, numbers, to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    lines = []
    for row in (header, rule, *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def file_size(size: int) -> str:
    """Bytes in the unit that people read best, such as "2.6 MiB"."""
    if size < 1024:
        return f"{size} B"
    value, units = size / 1024, ["KiB", "MiB", "GiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.1f} {units[0]}"
