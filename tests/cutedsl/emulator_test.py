"""The emulator sees the faults that it is there for: small kernels, each with one of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.cutedsl import emulator

emulator.install()

import cutlass.cute as cute  # noqa: E402
from cutlass import Boolean, Int32, Uint32  # noqa: E402

from cutedsl import numerics  # noqa: E402

Body = Callable[[emulator.Tensor, emulator.Tensor], None]

_ALL = Boolean(True)


class _OneCta:
    """A kernel of 32 threads; it may touch memory, if `waits`."""

    def __init__(self, body: Body, waits: bool = True) -> None:
        self.body = body
        self.waits = waits

    @cute.kernel
    def kernel(self, source: emulator.Tensor, target: emulator.Tensor) -> None:
        if self.waits:
            cute.arch.griddepcontrol_wait()
        self.body(source, target)

    def __call__(self, source: emulator.Tensor, target: emulator.Tensor, stream: None) -> None:
        self.kernel(source, target).launch(grid=[1, 1, 1], block=[32, 1, 1])


def _run(body: Body, waits: bool = True) -> np.ndarray:
    """What 32 words of memory hold after the kernel, which may read 32 others: 0, 1, 2, ..."""
    memory = emulator.GlobalMemory()
    words = np.arange(32, dtype=np.uint32)
    source, target = memory.reserve((32,), 128), memory.reserve((32,), 128)
    memory.put(source, 0, words, output=False)
    memory.put(target, 0, np.zeros_like(words), output=True)
    emulator.run(_OneCta(body, waits), memory, source, target)
    return memory.get(target, 0, words)


def _thread() -> Int32:
    return cute.arch.thread_idx()[0]


def _exchange(source: emulator.Tensor, target: emulator.Tensor, barrier: bool = True) -> None:
    """Each thread reads what its neighbour has put into shared memory."""
    shared = cute.arch.alloc_smem(Uint32, 32).toint()
    numerics.store_shared(shared + _thread() * 4, [Uint32(_thread()) + Uint32(7)])
    if barrier:
        cute.arch.sync_threads()
    neighbour = 31 - _thread()
    word = numerics.load_shared(shared + neighbour * 4, 1)[0]
    numerics.store_words(target.toint() + _thread() * 4, [word], _ALL)


def test_runs_what_is_right() -> None:
    """Would catch an emulator that refuses everything, or computes nothing."""
    np.testing.assert_array_equal(_run(_exchange), 38 - np.arange(32))


def _branch(source: emulator.Tensor, target: emulator.Tensor) -> None:
    if _thread() < 7:
        pass


_FAULTS: dict[str, tuple[Body, str]] = {
    "no barrier": (lambda s, t: _exchange(s, t, barrier=False), "shared memory is read"),
    "shared memory that nobody wrote": (
        lambda s, t: numerics.load_shared(cute.arch.alloc_smem(Uint32, 1).toint(), 1),
        "shared memory is read",
    ),
    "different words in one place of shared memory": (
        lambda s, t: numerics.store_shared(
            cute.arch.alloc_smem(Uint32, 1).toint(), [Uint32(_thread())]
        ),
        "different values",
    ),
    "a read behind the end": (
        lambda s, t: numerics.load_words(s.toint() + _thread() * 16, 4),
        "outside of the allocations",
    ),
    "a read before the beginning": (
        lambda s, t: numerics.load_words(s.toint() - 16, 4),
        "outside of the allocations",
    ),
    "a read of an output": (lambda s, t: numerics.load_words(t.toint(), 4), "outside"),
    "a write to an input": (
        lambda s, t: numerics.store_byte(s.toint(), Uint32(1), _ALL),
        "outside",
    ),
    "a wide read, aligned to half of it": (
        lambda s, t: numerics.load_words(s.toint() + 16, 8),
        "32 bytes is not aligned",
    ),
    "a byte written by all": (
        lambda s, t: numerics.store_byte(t.toint(), Uint32(1), _ALL),
        "write the same byte",
    ),
    "a byte written once more": (
        lambda s, t: [
            numerics.store_byte(t.toint(), Uint32(1), _thread() == thread) for thread in (0, 1)
        ],
        "a second write",
    ),
    "a branch of some": (_branch, "different branches"),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_sees_faults(fault: str) -> None:
    """Would catch kernels that pass because nobody looks."""
    body, message = _FAULTS[fault]
    with pytest.raises(emulator.EmulationError, match=message):
        _run(body)


def test_sees_accesses_before_the_wait() -> None:
    """As above."""
    with pytest.raises(emulator.EmulationError, match="the kernel before"):
        _run(lambda source, target: numerics.load_words(source.toint(), 4), waits=False)
