"""What a merge costs beside the engine's own: `python -m tests.bench merge [--scale 0.1 …]`.

By processor time, of the JVM and of Python, which a busy machine distorts least. Prints what was
measured beside its target, and keeps it in `.run/bench-merge.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from tests.bench.merge_measure import Sizes
from tests.services.processes import ROOT, RUN_FOLDER
from tests.services.progress import step

_PARTS = ("big", "small", "few", "loads", "manifests")
_FORMATS = ("delta", "iceberg")

RESULT = RUN_FOLDER / "bench-merge.json"

# The most that ours may take, as a multiple of what stands beside it.
_TARGETS = {
    ("big_anywhere", "ours", "bare"): {"delta": 1.1, "iceberg": 1.1},
    ("big_newest", "ours", "rows"): {"delta": 2.0, "iceberg": 2.0},
    ("changed", "ours", "bare"): {"delta": 1.3, "iceberg": 1.3},
    ("created", "ours", "bare"): {},
    ("loaded", "ours", "bare"): {},
    ("few", "many", "alone"): {"delta": 1.1, "iceberg": 1.1},
}
_TITLES = {
    "big_anywhere": "a tenth of the rows of a big table, beside the bare MERGE",
    "big_newest": "the newest tenth, beside reading and writing just those rows",
    "changed": "small changed tables, beside bare MERGEs of literals",
    "created": "new small tables, beside bare CREATEs and MERGEs",
    "loaded": "many new small tables at once, beside bare CREATEs and MERGEs",
    "few": "ten changed tables of many, beside the same ten alone",
    "idle": "the same, with nothing new",
    "manifests": "the same changes in more manifests",
}


def main(arguments: list[str]) -> int:
    """Measure, print, keep, and return the exit code."""
    options = _parse(arguments)
    sizes = Sizes(
        rows=int(10_000_000 * options.scale),
        tables=options.tables,
        names=int(options.names * options.scale),
        manifests=int(2_000 * options.scale),
        rounds=options.rounds,
    )
    load = os.getloadavg()[0]
    results = {format_: _measure(format_, sizes, options) for format_ in options.formats}
    value = {"sizes": asdict(sizes), "load": [load, os.getloadavg()[0]], "results": results}
    RESULT.write_text(json.dumps(value, indent=1))
    print(f"{sizes}, load {load:.1f} before and {os.getloadavg()[0]:.1f} after")
    for format_, measured in results.items():
        print(f"\n{format_:70} {'cpu s':>8} {'clock s':>8}")
        for name, ways in measured.items():
            _report(format_, name, ways)
    print(f"\nkept in {RESULT}")
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.bench merge", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="1: as large as it is documented")
    parser.add_argument("--tables", type=int, default=100, help="small tables")
    parser.add_argument("--names", type=int, default=1_000, help="tables, times the scale")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--formats", nargs="+", choices=_FORMATS, default=_FORMATS)
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS)
    parser.add_argument("--memory", default="4g", help="of the JVM")
    return parser.parse_args(arguments)


def _measure(format_: str, sizes: Sizes, options: argparse.Namespace) -> dict[str, Any]:
    folder = RUN_FOLDER / f"bench-merge-{os.getpid()}-{format_}"
    given = {
        "folder": str(folder),
        "format": format_,
        "memory": options.memory,
        "sizes": asdict(sizes),
        "parts": list(options.parts),
    }
    try:
        with step(f"merges of {format_}"):
            command = [sys.executable, "-m", "tests.bench.merge_measure", json.dumps(given)]
            done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _report(format_: str, name: str, ways: dict[str, dict[str, float]]) -> None:
    print(f"  {_TITLES[name]}")
    for way, cost in ways.items():
        print(f"    {way:66} {cost['cpu']:8.2f} {cost['seconds']:8.2f}")
    for (title, ours, other), targets in _TARGETS.items():
        if title == name:
            ratio = ways[ours]["cpu"] / ways[other]["cpu"]
            wanted = f", target at most {targets[format_]}" if format_ in targets else ""
            print(f"    {ratio:.2f} × {other}{wanted}")
