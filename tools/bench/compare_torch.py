"""Times casts to MXFP8 written in PyTorch, to compare with: eager, torch.compile, torchao.

Prints a table of GPU times, from graph replays with a cold L2, and with --json the same rows.
Unlike `bench` it never rests, and a graph goes through its tensors once. Each implementation's
result is compared with cutedsl_quant's first. Needs a GPU and torch; what is not installed, or
fails, is named and left out.

In a bundle: python3 gpu_bundle/run.py python gpu_bundle/_main/tools/bench/compare_torch.py
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cutedsl_quant

try:
    import torch
except ImportError:
    sys.exit("compare_torch: torch is not installed; nothing can be compared")

BLOCK = 32
E4M3_MAX = 448.0
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "relu": torch.nn.functional.relu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}

# The FP8 data and the scales, as bytes, of one direction each.
Outputs = list[torch.Tensor]
Cast = Callable[[torch.Tensor], Outputs]


def quantize_blocks(blocks: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 elements and scale bytes of blocks of 32 along `dim`, both in the shape of `blocks`."""
    amax = blocks.abs().amax(dim, keepdim=True)
    bits = (amax * (1.0 / E4M3_MAX)).view(torch.int32)
    scale = ((bits + 0x7FFFFF) >> 23).clamp(max=254)  # the next power of two, rounded up
    inverse = ((254 - scale) << 23).view(torch.float32)
    data = (blocks * inverse).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return data, scale.to(torch.uint8)


def make_cast(activation: str, direction: str) -> Cast:
    """The cast in plain PyTorch, for ordinary numbers and whole blocks."""

    def cast(x: torch.Tensor) -> Outputs:
        m, n = x.shape
        y = ACTIVATIONS[activation](x.float()).to(x.dtype).float()
        outputs = []
        if direction in ("rowwise", "both"):
            data, scale = quantize_blocks(y.view(m, n // BLOCK, BLOCK), 2)
            outputs += [data.view(m, n), scale.view(m, n // BLOCK)]
        if direction in ("columnwise", "both"):
            data, scale = quantize_blocks(y.view(m // BLOCK, BLOCK, n), 1)
            outputs += [data.view(m, n), scale.view(m // BLOCK, n)]
        return outputs

    return cast


def ours(activation: str, direction: str) -> Cast:
    def cast(x: torch.Tensor) -> Outputs:
        q = cutedsl_quant.quantize(
            x,
            rowwise=direction != "columnwise",
            columnwise=direction != "rowwise",
            activation=None if activation == "none" else activation,
        )
        outputs = [q.rowwise_data, q.rowwise_scale_inv, q.columnwise_data, q.columnwise_scale_inv]
        return [output for output in outputs if output is not None]

    return cast


def torchao_cast() -> Cast:
    """torchao's rowwise cast, compiled as its users do."""
    mx_tensor = importlib.import_module("torchao.prototype.mx_formats.mx_tensor")
    modes = mx_tensor.ScaleCalculationMode

    def cast(x: torch.Tensor) -> Outputs:
        scale, data = mx_tensor.to_mx(x, torch.float8_e4m3fn, BLOCK, modes.RCEIL)
        return [data, scale]

    return torch.compile(cast)


def compiled(activation: str, direction: str) -> Cast:
    """make_cast's, compiled; what was compiled before does not count against torch's limit."""
    torch.compiler.reset()
    return torch.compile(make_cast(activation, direction))


def implementations(activation: str, direction: str) -> Iterator[tuple[str, Callable[[], Cast]]]:
    yield "cutedsl_quant", lambda: ours(activation, direction)
    yield "torch", lambda: make_cast(activation, direction)
    yield "torch.compile", lambda: compiled(activation, direction)
    if activation == "none" and direction == "rowwise":
        yield "torchao", torchao_cast


@dataclass(frozen=True)
class Times:
    median: float
    min: float
    max: float


def gpu_times(function: Callable[[torch.Tensor], Any], inputs: list[torch.Tensor]) -> Times:
    """Microseconds of one call, from replays of a graph that goes through `inputs`."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # compiles
            function(inputs[0])
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [function(x) for x in inputs]  # so that no call writes where another one wrote
    times = []
    for _ in range(10):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / len(inputs))
    del kept
    times = times[1:]  # the first is a warm-up
    return Times(statistics.median(times), min(times), max(times))


def difference(actual: Outputs, expected: Outputs) -> str:
    """How many bytes differ, in words; empty if none does."""
    parts = []
    for a, e in zip(actual, expected, strict=True):
        count = int((a.view(torch.uint8).flatten() != e.view(torch.uint8).flatten()).sum())
        if count:
            parts.append(f"{count} of {e.numel()}")
    return f"bytes that differ from cutedsl_quant's: {', '.join(parts)}" if parts else ""


def bytes_moved(x: torch.Tensor, direction: str) -> int:
    directions = 2 if direction == "both" else 1
    return x.nbytes + directions * (x.numel() + x.numel() // BLOCK)


def measure(rows: int, cols: int, dtype: str, fusions: list[str], directions: list[str]) -> list:
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    x = torch.randn(rows, cols, device="cuda").to(DTYPES[dtype])
    inputs = [x.clone() for _ in range(max(2, -(-4 * l2_bytes // x.nbytes) + 1))]
    records = []
    copy_rate = 0.0

    def report(fusion: str, direction: str, name: str, moved: int, times: Times) -> None:
        rate = moved / times.median * 1e-6
        print(
            f"{rows}x{cols:<8} {dtype:5} {fusion:6} {direction:11} {name:14} {times.median:10.2f} "
            f"{times.min:10.2f}..{times.max:9.2f} {rate:8.3f} {100 * rate / copy_rate:6.1f}%",
            flush=True,
        )
        records.append(
            {
                "rows": rows,
                "cols": cols,
                "dtype": dtype,
                "fp8_dtype": "e4m3",
                "fusion": fusion,
                "direction": direction,
                "layout": "compact",
                "amax": False,
                "backend": name,
                "bytes": moved,
                "median_us": times.median,
                "min_us": times.min,
                "max_us": times.max,
                "tb_per_s": rate,
                "share_of_copy": rate / copy_rate,
            }
        )

    times = gpu_times(torch.clone, inputs)
    copy_rate = 2 * x.nbytes / times.median * 1e-6
    report("", "", "copy", 2 * x.nbytes, times)
    for fusion in fusions:
        for direction in directions:
            expected = ours(fusion, direction)(x)
            for name, make in implementations(fusion, direction):
                try:
                    cast = make()
                    note = difference(cast(x), expected)
                    times = gpu_times(cast, inputs)
                except Exception as error:
                    first_line = (str(error).splitlines() or [""])[0]
                    print(f"{name} is not measured: {type(error).__name__}: {first_line}")
                    continue
                report(fusion, direction, name, bytes_moved(x, direction), times)
                if note:
                    print(f"  {note}")
    return records


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1024x4096,8192x8192,32768x14336")
    parser.add_argument("--dtype", default="bf16", choices=DTYPES)
    parser.add_argument("--fusion", default="none,gelu", help=f"of {','.join(ACTIVATIONS)}")
    parser.add_argument("--direction", default="rowwise", help="of rowwise,columnwise,both")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("compare_torch: torch sees no GPU; nothing can be compared")

    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}")
    records = []
    for size in args.sizes.split(","):
        rows, cols = map(int, size.split("x"))
        records += measure(
            rows, cols, args.dtype, args.fusion.split(","), args.direction.split(",")
        )
    if args.json:
        machine = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__}
        args.json.write_text(json.dumps({"machine": machine, "gpu_time": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
