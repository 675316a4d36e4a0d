"""Draws what bench wrote with --json: the share of the copy rate by size, and the host time.

usage: plot RESULTS.json... --out FOLDER

Writes share_of_copy.svg and host_time.svg, each only if the results hold what it shows.
"""

from __future__ import annotations

import argparse
import collections
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot

from tools.bazel import bazel_run

_DIRECTIONS = ("rowwise", "columnwise", "both")
# Not worth a word in a picture.
_ORDINARY = ("bf16", "e4m3", "compact", "", "cutedsl")

Row = dict[str, Any]


def _name(row: Row) -> str:
    """What one line of the picture stands for."""
    fusion = "cast" if row["fusion"] == "none" else row["fusion"]
    amax = "amax" if row["amax"] else ""
    parts = [fusion, row["dtype"], row["fp8_dtype"], row["layout"], amax, row["backend"]]
    return " ".join(part for part in parts if part not in _ORDINARY)


def draw_shares(rows: list[Row], path: Path) -> None:
    """One panel a direction, one line a kernel."""
    lines: dict[str, dict[str, list[tuple[int, float]]]] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for row in rows:
        point = (row["rows"] * row["cols"], 100 * row["share_of_copy"])
        lines[row["direction"]][_name(row)].append(point)
    figure, panels = pyplot.subplots(1, 3, sharey=True, figsize=(15, 5), layout="constrained")
    for direction, panel in zip(_DIRECTIONS, panels, strict=True):
        for name, points in lines[direction].items():
            panel.plot(*zip(*sorted(points), strict=True), marker="o", label=name)
        panel.axhline(100, color="grey", linewidth=0.5)
        panel.set(title=direction, xscale="log", xlabel="elements", ylim=(0, None))
        if lines[direction]:
            panel.legend(fontsize="small")
    panels[0].set_ylabel("% of the rate of a device-to-device copy")
    figure.savefig(path, metadata={"Date": None})


def draw_host_times(rows: list[Row], path: Path) -> None:
    """One bar for each kind of call."""
    figure, panel = pyplot.subplots(figsize=(9, 0.4 * len(rows) + 1.5), layout="constrained")
    panel.barh([row["name"] for row in rows], [row["median_us"] for row in rows])
    panel.invert_yaxis()
    panel.set_xlabel("host time of one warm call, us")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS.json")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    bazel_run.enter_callers_folder()
    results = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.results]
    arguments.out.mkdir(parents=True, exist_ok=True)
    mpl.rcParams["svg.hashsalt"] = "plot"  # the same results give the same picture
    for key, name, draw in (
        ("gpu_time", "share_of_copy.svg", draw_shares),
        ("host_time", "host_time.svg", draw_host_times),
    ):
        rows = [row for result in results for row in result.get(key, ())]
        rows = [row for row in rows if row.get("backend") != "copy"]
        if rows:
            draw(rows, arguments.out / name)
            print(arguments.out / name)


if __name__ == "__main__":
    main()
