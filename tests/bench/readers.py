"""Speed beside other readers of the binlog and beside what limits them, in one run.

    python -m tests.bench readers [--logs bulk,single] [--rounds 3] [--compare results.json]

Every measurement has a process of its own; the measures take turns, so that a noisy minute meets
all of them. The median counts, and its spread is shown. Decoding is measured warm, in the second
pass of its process, by processor time, which a busy machine distorts least; what includes a
server's work is measured cold and by the clock. The results are kept as JSON; `--compare` prints
their ratio to other ones, row by row. Exits 1 where bulk or single rows are not decoded at least
60 times as fast as by mysql-replication.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.bench.logs import SPECS, Log, digest, obtain_log, serve
from tests.bench.peers import obtain_peers
from tests.services.processes import ROOT, RUN_FOLDER
from tests.services.progress import step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.peers import Peer
    from tests.services.servers import Server

RATIO_MIN = 60
RESULTS = RUN_FOLDER / "bench-readers.json"

# As many row images as mysql-replication is given: the rest is reckoned by its rate.
_REPLICATION_IMAGES = {"bulk": 50_000, "single": 20_000}
_BESIDE_PEERS = ("bulk", "single", "zstd", "mixed", "json")
_LIVE = ("bulk", "single", "mixed")
_LIVE_MEASURES = ("server_to_parquet", "mysqlbinlog", "received")
_OURS, _REPLICATION = "file_to_arrow", "mysql_replication"
_LARGE, _STAGED = ("large_insert", "large_update"), "file_to_parquet"
_SHORT, _FIRST = ("bulk_tenth",), "first_part"
_FROM_FILES = (_OURS, _STAGED)
_BY_CLOCK = (*_LIVE_MEASURES, _FIRST)
_TITLES = {
    _OURS: "file → Arrow, CRC32 verified, warm",
    _REPLICATION: f"mysql-replication {version('mysql-replication')}, no CRC32",
    _STAGED: "file → Parquet, CRC32 verified",
    _FIRST: "our first import → first part, from the server",
    "server_to_parquet": "server → Parquet, CRC32 verified",
    "mysqlbinlog": "mysqlbinlog --raw from the server",
    "received": "the server's bytes received, none looked at",
}


@dataclass(frozen=True)
class Row:
    """One measure of one log.

    Attributes:
        log, measure: Their names.
        taken: Seconds of each round: of the processor, or by the clock for what is live.
        images: Row images that were read.
        peak_bytes: Of resident memory; 0 where it is not known.
        staged: Bytes of Parquet.
    """

    log: Log
    measure: str
    taken: tuple[float, ...]
    images: int
    peak_bytes: int
    staged: int

    @property
    def seconds(self) -> float:
        """For the whole log: the median, reckoned where only its first rows were read."""
        share = self.images / self.log.images if self.images else 1.0
        return median(self.taken) / share

    @property
    def spread(self) -> float:
        """From the shortest to the longest, as a share of the median."""
        return (max(self.taken) - min(self.taken)) / median(self.taken)


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, print, keep the results, and return the exit code."""
    parser = argparse.ArgumentParser(prog="tests.bench readers")
    parser.add_argument("--logs", default=",".join(SPECS), help="which ones, by name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compare", type=Path, help="results of an earlier run")
    options = parser.parse_args(arguments)
    logs = [obtain_log(name) for name in options.logs.split(",")]
    peers = obtain_peers()
    load = os.getloadavg()[0]
    served = [log for log in logs if log.name in {*_LIVE, *_REPLICATION_IMAGES, *_SHORT}]
    rows: list[Row] = []
    folder = RUN_FOLDER / "bench"
    shutil.rmtree(folder, ignore_errors=True)
    server, own = serve(served, folder)
    try:
        for log in logs:
            rows += _measure(log, own.get(log.name), server, peers, options.rounds)
            _report(rows, log, peers)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"\nMySQL {server.version}, Python {platform.python_version()}, NumPy {version('numpy')}, "
        f"PyArrow {version('pyarrow')}, {os.cpu_count()} processors, load {load:.1f} before and "
        f"{os.getloadavg()[0]:.1f} after (quiet is below 0.5)"
    )
    _keep(rows, options.compare)
    ratios = [
        _times(rows, log, _REPLICATION, _OURS) for log in logs if log.name in _REPLICATION_IMAGES
    ]
    if ratios and min(ratios) < RATIO_MIN:
        print(f"below {RATIO_MIN} × mysql-replication")
        return 1
    return 0


def _measure(
    log: Log, served: Log | None, server: Server, peers: dict[str, Peer], rounds: int
) -> list[Row]:
    """Return the rows of a log."""
    names = [_STAGED if log.name in _LARGE else _OURS]
    if log.name in _SHORT:
        names.append(_FIRST)
    if log.name in _BESIDE_PEERS:
        names += peers
    if log.name in _REPLICATION_IMAGES:
        names.append(_REPLICATION)
    if log.name in _LIVE:
        names += _LIVE_MEASURES
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(rounds):
        with step(f"{log.title}: round {number + 1} of {rounds}"):
            for name in names:
                if name in peers:
                    found[name].append(peers[name].measure(Path(log.folder, log.file)))
                    continue
                arguments = {
                    "folder": log.folder,
                    "port": server.port,
                    "file": served.file if served and name not in _FROM_FILES else log.file,
                    "size": log.bytes,
                    "images": _REPLICATION_IMAGES.get(log.name, 0),
                    "program": server.program("mysqlbinlog"),
                }
                found[name].append(_run(name, arguments))
    return [_row(log, name, runs) for name, runs in found.items()]


def _run(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.measure", name, json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _row(log: Log, name: str, runs: Sequence[dict[str, Any]]) -> Row:
    by = "seconds" if name in _BY_CLOCK else "cpu"
    images = int(max(run["images"] for run in runs))
    if images and name != _REPLICATION and images != log.images:
        sys.exit(f"{name} read {images:,} of the {log.images:,} row images of {log.name}")
    return Row(
        log,
        name,
        tuple(run[by] for run in runs),
        images,
        int(max(run.get("peak_bytes", 0) for run in runs)),
        int(runs[0].get("staged", 0)),
    )


def _times(rows: Sequence[Row], log: Log, slow: str, fast: str) -> float:
    """Return how many times as fast one measure of a log is as another."""
    seconds = {row.measure: row.seconds for row in rows if row.log == log}
    return seconds[slow] / seconds[fast]


def _report(rows: Sequence[Row], log: Log, peers: dict[str, Peer]) -> None:
    """Print the table of one log."""
    own = [row for row in rows if row.log == log]
    print(f"\n{log.title}: {log.images:,} row images, {log.bytes / 1e6:.0f} MB")
    print(f"  {'':44} {'s':>7} {'±':>4} {'images/s':>10} {'MB/s':>6} {'peak MB':>8}")
    for row in own:
        live = row.measure in _LIVE_MEASURES
        base = "server_to_parquet" if live else own[0].measure
        times = _times(rows, log, row.measure, base)
        title = peers[row.measure].title if row.measure in peers else _TITLES[row.measure]
        remark = "" if row.measure in {base, _FIRST} else f"ours is {times:.2f} × as fast"
        rate = f"{log.images / row.seconds:,.0f}" if row.images else "–"
        peak = f"{row.peak_bytes / 1e6:.0f}" if row.peak_bytes else "–"
        print(
            f"  {title:44} {row.seconds:7.2f} {row.spread:4.0%} {rate:>10} "
            f"{log.bytes / row.seconds / 1e6:6.0f} {peak:>8}  {remark}"
        )


def _keep(rows: Sequence[Row], earlier: Path | None) -> None:
    """Keep the results beside those of other logs; print the ratio to earlier ones."""
    kept = {
        f"{row.log.name}/{row.measure}": {
            "seconds": row.seconds,
            "taken": row.taken,
            "log": digest(row.log),
            "peak_bytes": row.peak_bytes,
        }
        for row in rows
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    others = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(others | kept, indent=1))
    print(f"kept in {RESULTS}")
    if earlier is None:
        return
    before = json.loads(earlier.read_text())
    for name, row in kept.items():
        if name in before and before[name]["log"] == row["log"]:
            print(f"{name:32} {before[name]['seconds'] / row['seconds']:6.2f} × as fast as before")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
