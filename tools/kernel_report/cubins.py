"""Finds compiled device code (cubins: ELF images for CUDA) in objects and libraries."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_ELF_MAGIC = b"\x7fELF"
_ELF_HEADER_BYTES = 64
_MACHINE_CUDA = 190
_SECTION_NOBITS = 8


def find_cubins(content: bytes) -> Iterator[bytes]:
    """The CUDA ELF images anywhere in `content`."""
    position = content.find(_ELF_MAGIC)
    while position >= 0:
        header = content[position : position + _ELF_HEADER_BYTES]
        length = 1
        if len(header) == _ELF_HEADER_BYTES:
            (machine,) = struct.unpack_from("<H", header, 18)
            if machine == _MACHINE_CUDA:
                length = _image_bytes(content, position)
                yield content[position : position + length]
        position = content.find(_ELF_MAGIC, position + length)


def _image_bytes(content: bytes, position: int) -> int:
    """The end of whatever the ELF image at `position` contains."""
    program_offset, section_offset = struct.unpack_from("<QQ", content, position + 32)
    program_bytes, programs, section_bytes, sections = struct.unpack_from(
        "<HHHH", content, position + 54
    )
    ends = [program_offset + programs * program_bytes, section_offset + sections * section_bytes]
    for index in range(sections):
        section = position + section_offset + index * section_bytes
        (kind,) = struct.unpack_from("<I", content, section + 4)
        offset, size = struct.unpack_from("<QQ", content, section + 24)
        if kind != _SECTION_NOBITS:
            ends.append(offset + size)
    return max(ends)
