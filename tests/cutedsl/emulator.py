"""Runs kernels on the host: stands in for CuTeDSL, so that their source is executed, not traced.

A value holds one number for each thread of a CTA, and an operation works on all of them at once.
Inline PTX is interpreted. What hardware does in silence is an error here: an access outside of an
allocation, not aligned, or before the kernel has waited for the one ahead of it; a byte of an
output that is written twice; shared memory that is read without a barrier after another thread
wrote it; a branch that the threads of a CTA take differently.

install() must come before the first import of a module that imports cutlass.
"""

from __future__ import annotations

import operator
import re
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from cutedsl import reference

_WARP = 32


class EmulationError(AssertionError):
    """What must not happen on a GPU."""


# ---- Values


class Numeric:
    """A number for each thread, or one for all."""

    mlir_type: type
    rank: int  # the result of two types has that of the higher rank

    def __init__(self, value: Numeric | np.ndarray | float) -> None:
        raw = value.raw if isinstance(value, Numeric) else np.asarray(value)
        self.raw = raw.astype(self.mlir_type)

    def ir_value(self) -> np.ndarray:
        return self.raw

    def __bool__(self) -> bool:
        if (self.raw != self.raw.flat[0]).any():
            raise EmulationError("the threads of a CTA take different branches")
        return bool(self.raw.flat[0])

    def __int__(self) -> int:
        return int(self.raw)


class Boolean(Numeric):
    mlir_type, rank = np.bool_, 0


class Int32(Numeric):
    mlir_type, rank = np.int32, 1


class Uint32(Numeric):
    mlir_type, rank = np.uint32, 2


class Int64(Numeric):
    mlir_type, rank = np.int64, 3


class Float32(Numeric):
    mlir_type, rank = np.float32, 4


def _common(a: Numeric | float, b: Numeric | float) -> type[Numeric]:
    return max((type(x) for x in (a, b) if isinstance(x, Numeric)), key=lambda t: t.rank)


def _binary(
    function: Callable[[Any, Any], Any], result: type[Numeric] | None = None
) -> Callable[[Numeric | float, Numeric | float], Numeric]:
    def apply(a: Numeric | float, b: Numeric | float) -> Numeric:
        kind = _common(a, b)
        with np.errstate(all="ignore"):
            return (result or kind)(function(kind(a).raw, kind(b).raw))

    return apply


for _name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "lshift", "rshift"):
    _operation = _binary(getattr(operator, _name + ("_" if _name in ("and", "or") else "")))
    setattr(Numeric, f"__{_name}__", _operation)
    setattr(Numeric, f"__r{_name}__", lambda a, b, operation=_operation: operation(b, a))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Numeric, f"__{_name}__", _binary(getattr(operator, _name), Boolean))


def _select(condition: Boolean, if_true: Numeric, if_false: Numeric) -> Numeric:
    kind = _common(if_true, if_false)
    return kind(np.where(condition.raw, kind(if_true).raw, kind(if_false).raw))


class _Divisor:
    """What cute.fast_divmod_create_divisor_v2 makes."""

    def __init__(self, value: Int32) -> None:
        self._value = value

    def __rdivmod__(self, dividend: Int32) -> tuple[Numeric, Numeric]:
        return dividend // self._value, dividend % self._value


# ---- Memory


class Tensor:
    """A row-major tensor in global memory."""

    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.address = address
        self.shape = shape

    @property
    def iterator(self) -> Tensor:
        return self

    def toint(self) -> Int64:
        return Int64(self.address)


NULL = Tensor(0, ())


class GlobalMemory:
    """Allocations with gaps between them; of a large one, only some parts need to be there."""

    _UNIT = 256

    def __init__(self) -> None:
        self.bytes = np.zeros(0, np.uint8)  # of all parts
        self.readable = np.zeros(0, bool)
        self.writable = np.zeros(0, bool)
        self._parts: list[tuple[int, int, int]] = []  # address, size, place in `bytes`; sorted
        self._end = self._UNIT

    def reserve(self, shape: tuple[int, ...], size: int, offset: int = 0) -> Tensor:
        """A tensor of `size` bytes, `offset` bytes off an aligned address, of which no part is
        there."""
        address = self._end + offset
        self._end = -(-(address + size + 1) // self._UNIT) * self._UNIT
        return Tensor(address, shape)

    def put(self, tensor: Tensor, at: int, content: np.ndarray, *, output: bool) -> None:
        """Adds a part, `at` bytes after the beginning. Outputs can only be written, and once."""
        self._parts.append((tensor.address + at, content.nbytes, self.bytes.size))
        self._parts.sort()
        self.bytes = np.append(self.bytes, np.frombuffer(content.tobytes(), np.uint8))
        self.readable = np.append(self.readable, np.full(content.nbytes, not output))
        self.writable = np.append(self.writable, np.full(content.nbytes, output))

    def get(self, tensor: Tensor, at: int, like: np.ndarray) -> np.ndarray:
        """What is in a part now."""
        place = self.find(np.array([tensor.address + at]))[0]
        return self.bytes[place : place + like.nbytes].view(like.dtype).reshape(like.shape)

    def find(self, addresses: np.ndarray) -> np.ndarray:
        """Their places in `bytes`."""
        begins, sizes, places = np.array(self._parts).T
        part = np.searchsorted(begins, addresses, side="right") - 1
        offsets = addresses - begins[part]
        if ((part < 0) | (offsets >= sizes[part])).any():
            raise EmulationError("an access outside of the allocations")
        return offsets + places[part]


class _Cta:
    """What the threads of a CTA share while they run."""

    def __init__(self, memory: GlobalMemory, block: int, threads: int) -> None:
        self.memory = memory
        self.block = block
        self.threads = threads
        self.may_access = False  # whether the kernel before is done
        self.barriers = 0
        self.shared = np.zeros(0, np.uint8)
        self.writer = np.zeros(0, np.int32)
        self.written_after = np.zeros(0, np.int32)  # how many barriers; -1: not written

    def allocate_shared(self, size: int, alignment: int) -> int:
        start = -(-self.shared.size // alignment) * alignment
        more = start + size - self.shared.size
        self.shared = np.append(self.shared, np.zeros(more, np.uint8))
        self.writer = np.append(self.writer, np.full(more, -1, np.int32))
        self.written_after = np.append(self.written_after, np.full(more, -1, np.int32))
        return start

    def places(
        self, address: np.ndarray, size: int, mask: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The threads whose `mask` is set, and the bytes that each of them touches."""
        threads = np.flatnonzero(np.broadcast_to(mask, (self.threads,)))
        begin = np.broadcast_to(address, (self.threads,))[threads].astype(np.int64)
        if (begin % size).any():
            raise EmulationError(f"an access to {size} bytes is not aligned")
        return threads, begin[:, None] + np.arange(size)

    def load_global(self, address: np.ndarray, size: int, mask: np.ndarray) -> np.ndarray:
        threads, addresses = self.places(address, size, mask)
        places = self._find_global(addresses, self.memory.readable)
        values = np.zeros((self.threads, size), np.uint8)
        values[threads] = self.memory.bytes[places]
        return values

    def store_global(self, address: np.ndarray, values: np.ndarray, mask: np.ndarray) -> None:
        threads, addresses = self.places(address, values.shape[1], mask)
        places = self._find_global(addresses, self.memory.writable)
        if np.unique(places).size != places.size:
            raise EmulationError("threads write the same byte")
        self.memory.bytes[places] = values[threads]
        self.memory.writable[places] = False

    def _find_global(self, addresses: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        if not self.may_access:
            raise EmulationError("global memory is touched while the kernel before may run")
        places = self.memory.find(addresses)
        if not allowed[places].all():
            raise EmulationError("an access outside of the allocations, or a second write")
        return places

    def raise_maximum(self, address: np.ndarray, bits: np.ndarray, mask: np.ndarray) -> None:
        threads, addresses = self.places(address, 4, mask)
        numbers = bits.view(np.int32)
        for thread, place in zip(
            threads, self._find_global(addresses, self.memory.readable), strict=True
        ):
            current = self.memory.bytes[place].view(np.int32)
            self.memory.bytes[place] = np.maximum(current, numbers[thread]).view(np.uint8)

    def load_shared(self, address: np.ndarray, size: int) -> np.ndarray:
        threads, places = self.places(address, size, np.bool_(True))
        after = self.written_after[places]
        mine = self.writer[places] == threads[:, None]
        if not ((after >= 0) & (mine | (after < self.barriers))).all():
            raise EmulationError("shared memory is read that nobody, or somebody just now, wrote")
        return self.shared[places]

    def store_shared(self, address: np.ndarray, values: np.ndarray, mask: np.ndarray) -> None:
        threads, places = self.places(address, values.shape[1], mask)
        self.shared[places] = values[threads]
        if (self.shared[places] != values[threads]).any():
            raise EmulationError("threads write different values to the same shared memory")
        self.writer[places] = threads[:, None]
        self.written_after[places] = self.barriers


_memory: GlobalMemory | None = None
_blocks: Callable[[int], Iterable[int]] = range
_cta: _Cta | None = None


# ---- Inline PTX


def _max_xorsign_abs(a: np.ndarray, b: np.ndarray, sign: int, infinity: int) -> np.ndarray:
    """Of numbers as bits; a NaN gives way."""
    a, b = np.broadcast_arrays(a, b)
    magnitudes = np.stack([a & (sign - 1), b & (sign - 1)]).astype(np.int64)
    largest = np.where(magnitudes > infinity, -1, magnitudes).max(axis=0)
    return np.where(largest < 0, sign - 1, largest | ((a ^ b) & sign)).astype(np.uint32)


def _max_of_words(kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if kind == "f32":
        return _max_xorsign_abs(a, b, 1 << 31, 0x7F800000)
    infinity = {"f16x2": 0x7C00, "bf16x2": 0x7F80}[kind]
    low = _max_xorsign_abs(a & 0xFFFF, b & 0xFFFF, 1 << 15, infinity)
    return low | _max_xorsign_abs(a >> 16, b >> 16, 1 << 15, infinity) << np.uint32(16)


def _permute(a: np.ndarray, b: np.ndarray, selector: int) -> np.ndarray:
    both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    result = np.zeros(both.shape, np.uint32)
    for i in range(4):
        byte = both >> np.uint64((selector >> 4 * i & 7) * 8) & np.uint64(0xFF)
        result |= byte.astype(np.uint32) << np.uint32(8 * i)
    return result


def _flush(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.float32(0), values)


def _approximate(name: str, value: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        value = _flush(value)
        return _flush(np.exp2(value) if name == "ex2" else np.float32(1) / value)


def _narrow(kind: str, value: np.ndarray) -> np.ndarray:
    """Rounded to a type of 8 or 16 bits, as bits."""
    with np.errstate(all="ignore"):
        if kind == "ue8m0":
            return reference.e8m0_round_up(value)
        if kind in ("e4m3", "e5m2"):
            return reference.to_fp8(value, {"e4m3": "fp8_e4m3fn", "e5m2": "fp8_e5m2"}[kind])
        wide = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[kind]
        return value.astype(wide).view(np.uint16)


def _join(low: np.ndarray, high: np.ndarray, bits: int) -> np.ndarray:
    return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(bits)


class _Ptx:
    """One piece of inline PTX; registers by name, operands as $0, $1 and on."""

    def __init__(self, outputs: int, operands: Sequence[np.ndarray]) -> None:
        self.registers: dict[str, np.ndarray] = {
            f"${outputs + i}": operand for i, operand in enumerate(operands)
        }

    def run(self, text: str) -> None:
        if text.startswith("{ "):
            text = text[2:-1]
        for statement in filter(None, map(str.strip, text.split(";"))):
            predicate, opcode, rest = re.fullmatch(
                r"(?:@(\w+) )?([\w.:]+) ?(.*)", statement
            ).groups()
            arguments = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)
            mask = self.registers[predicate] if predicate else np.bool_(True)
            if opcode != ".reg":
                self._execute(opcode.split("."), arguments, mask)

    def _value(self, name: str) -> np.ndarray:
        name = name.strip("[]")
        if not name[0].isdigit():
            return self.registers[name]
        return np.asarray(float(name) if "." in name else int(name, 0))

    @staticmethod
    def _names(argument: str) -> list[str]:
        return argument.strip("{}").replace(",", " ").split()

    def _execute(self, opcode: list[str], arguments: list[str], mask: np.ndarray) -> None:
        if opcode[0] in ("ld", "st", "red"):
            return self._access(opcode, arguments, mask)
        target, *sources = arguments
        if opcode[0] == "mov" and target.startswith("{"):
            low, high = self._names(target)
            word = self._value(sources[0])
            self.registers[low] = (word & np.uint32(0xFFFF)).astype(np.uint16)
            self.registers[high] = (word >> np.uint32(16)).astype(np.uint16)
            return None
        values = [self._value(name) for source in sources for name in self._names(source)]
        match opcode:
            case ["setp", "ne", _]:
                result = values[0] != values[1]
            case ["mov", "b32"]:
                result = values[0].astype(np.uint32) if len(values) == 1 else _join(*values, 16)
            case ["prmt", "b32"]:
                result = _permute(values[0], values[1], int(values[2]))
            case ["createpolicy", *_]:
                result = np.asarray(0)
            case ["max", "xorsign", "abs", kind]:
                result = _max_of_words(kind, *values)
            case ["redux", "sync", "max", "u32"]:
                lanes = np.broadcast_to(values[0], (_cta.threads,)).reshape(-1, _WARP)
                result = lanes.max(axis=1).repeat(_WARP)
            case ["ex2" | "rcp" as name, "approx", "ftz", "f32"]:
                result = _approximate(name, values[0])
            case ["cvt", "f32", "f16"]:
                result = values[0].view(np.float16).astype(np.float32)
            case ["cvt", *_, kind, "f32"]:  # two, the upper one first
                kind = kind.removesuffix("x2")
                bits = 16 if kind in ("f16", "bf16") else 8
                result = _join(_narrow(kind, values[1]), _narrow(kind, values[0]), bits)
            case _:
                raise EmulationError(f"no emulation of {'.'.join(opcode)}")
        self.registers[target] = result
        return None

    def _access(self, opcode: list[str], arguments: list[str], mask: np.ndarray) -> None:
        space = "shared" if "shared" in opcode else "global"
        size = {"b8": 1, "b32": 4, "s32": 4}[opcode[-1]]
        if opcode[0] == "ld":
            names = self._names(arguments[0])
            address = self._value(arguments[1])
            if space == "shared":
                loaded = _cta.load_shared(address, 4 * len(names))
            else:
                loaded = _cta.load_global(address, 4 * len(names), mask)
            words = np.ascontiguousarray(loaded).view(np.uint32)
            for i, name in enumerate(names):
                old = self.registers.get(name, np.uint32(0))
                self.registers[name] = np.where(mask, words[:, i], old)
            return
        address = self._value(arguments[0])
        words = [
            np.broadcast_to(self._value(name), (_cta.threads,)).astype(np.uint32)
            for name in self._names(arguments[1])
        ]
        if opcode[0] == "red":
            return _cta.raise_maximum(address, words[0], mask)
        content = np.stack(words, axis=1).view(np.uint8)
        content = content if size == 4 else content[:, :1]
        (_cta.store_shared if space == "shared" else _cta.store_global)(address, content, mask)


def _inline_asm(
    result_type: Any, operands: Sequence[np.ndarray], text: str, constraints: str, **_: Any
) -> Any:
    outputs = sum(constraint.startswith("=") for constraint in constraints.split(","))
    ptx = _Ptx(outputs, operands)
    ptx.run(text)
    results = [ptx.registers[f"${i}"] for i in range(outputs)]
    return results if isinstance(result_type, list) else results[0] if results else None


# ---- CuTeDSL's modules


class _Kernel:
    """What @cute.kernel makes of a method."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        return lambda *arguments: _Launch(self._function, owner, arguments)

    def set_name_prefix(self, *_: Any, **__: Any) -> None:
        pass


class _Launch:
    def __init__(self, function: Callable[..., None], owner: Any, arguments: Sequence[Any]) -> None:
        self._run = lambda: function(owner, *arguments)

    def launch(self, grid: Sequence[Any], block: Sequence[Any], **_: Any) -> None:
        global _cta
        for number in _blocks(int(grid[0])):
            _cta = _Cta(_memory, number, int(block[0]))
            self._run()


class _Shared:
    def __init__(self, address: int) -> None:
        self._address = address

    def toint(self) -> Int32:
        return Int32(self._address)


def _packed(function: Callable[..., np.ndarray]) -> Callable[..., tuple[Float32, Float32]]:
    """Two at a time; in double precision, which holds every product, and rounded once."""

    def apply(*operands: tuple[Float32, Float32], rnd: str, ftz: bool) -> tuple[Float32, Float32]:
        with np.errstate(all="ignore"):
            low, high = (
                Float32(function(*(x.raw.astype(np.float64) for x in half)))
                for half in zip(*operands, strict=True)
            )
        return low, high

    return apply


def _shuffle(word: Uint32, offset: int) -> Uint32:
    lanes = np.broadcast_to(word.raw, (_cta.threads,))
    return Uint32(lanes[np.arange(_cta.threads) ^ offset])


def _alloc_smem(kind: type[Numeric] | str, count: int, alignment: int = 4) -> _Shared:
    size = 1 if kind == "Uint8" else np.dtype(kind.mlir_type).itemsize
    return _Shared(_cta.allocate_shared(count * size, alignment))


def _sync_threads() -> None:
    _cta.barriers += 1


def _wait() -> None:
    _cta.may_access = True


def _module(name: str, **attributes: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module
    return module


def install() -> None:
    """Puts the emulation in CuTeDSL's place in this process."""
    arch = types.SimpleNamespace(
        thread_idx=lambda: (Int32(np.arange(_cta.threads)),),
        block_idx=lambda: (Int32(_cta.block),),
        sync_threads=_sync_threads,
        griddepcontrol_wait=_wait,
        griddepcontrol_launch_dependents=lambda: None,
        shuffle_sync_bfly=_shuffle,
        alloc_smem=_alloc_smem,
        add_packed_f32x2=_packed(operator.add),
        sub_packed_f32x2=_packed(operator.sub),
        mul_packed_f32x2=_packed(operator.mul),
        fma_packed_f32x2=_packed(lambda a, b, c: a * b + c),
    )
    cute = _module(
        "cutlass.cute",
        arch=arch,
        jit=lambda function: function,
        kernel=_Kernel,
        size=lambda tensor, mode: Int64(tensor.shape[mode[0]]),
        make_rmem_tensor=lambda shape, kind: {},  # by index
        fast_divmod_create_divisor_v2=_Divisor,
    )
    _module(
        "cutlass",
        cute=cute,
        Boolean=Boolean,
        Int32=Int32,
        Uint32=Uint32,
        Int64=Int64,
        Float32=Float32,
        Uint8="Uint8",
        Numeric=Numeric,
        const_expr=lambda value: value,
        max=_binary(np.maximum),
        min=_binary(np.minimum),
        select_=_select,
    )
    llvm = types.SimpleNamespace(
        inline_asm=_inline_asm,
        bitcast=lambda kind, value: value.view(kind),
        extractvalue=lambda kind, values, place: values[place[0]],
        StructType=types.SimpleNamespace(get_literal=list),
        AsmDialect=types.SimpleNamespace(AD_ATT=None),
    )
    _module("cutlass._mlir")
    _module("cutlass._mlir.dialects", llvm=llvm)


def run(
    kernel: Callable[..., None],
    memory: GlobalMemory,
    *arguments: Any,
    blocks: Callable[[int], Iterable[int]] = range,
) -> None:
    """Calls a kernel object with tensors of `memory`; of that many CTAs, runs those `blocks`."""
    global _memory, _blocks
    _memory, _blocks = memory, blocks
    kernel(*arguments, None)
