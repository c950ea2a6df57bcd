"""Speed beside other readers of the binlog, on the same logs in the same run.

Every measurement has a process of its own; the shortest of `ROUNDS=3` counts. file → Arrow is
measured warm, in the second pass of its process; server → Parquet and mysqlbinlog cold, as a task
finds them. Rates and ratios to mysql-replication go by processor time, which a busy machine
distorts least (each reader is one thread; a second one of ours would count against us); what
includes a server's work is measured by the clock. Exits 1 where we are not at least 60 times as
fast as mysql-replication.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from tests.bench.logs import RELEASE, Log, obtain_logs
from tests.services.processes import ROOT, RUN_FOLDER
from tests.services.progress import step
from tests.services.servers import Server

RATIO_MIN = 60

# As many row images as mysql-replication is given: the rest is reckoned by its rate.
_PEER_IMAGES = {0: 50_000, 1: 20_000}
_MEASURES = ("file_to_arrow", "mysql_replication", "server_to_parquet", "mysqlbinlog")
_TITLES = {
    "file_to_arrow": "file → Arrow, CRC32 verified",
    "mysql_replication": f"mysql-replication {version('mysql-replication')}, no CRC32",
    "server_to_parquet": "server → Parquet, CRC32 verified",
    "mysqlbinlog": "mysqlbinlog --raw from the server",
}


@dataclass(frozen=True)
class Measured:
    """The best of some rounds.

    Attributes:
        images_per_second: Row images per second of processor time.
        bytes_per_second: Of the log, the same way.
        seconds, cpu: For the whole log; reckoned where only its first rows were read.
        peak_bytes: Of resident memory.
        staged: Bytes of Parquet.
        partial: Row images read, where those were not all.
    """

    images_per_second: float
    bytes_per_second: float
    seconds: float
    cpu: float
    peak_bytes: int
    staged: int
    partial: int


def main() -> int:
    """Measure, print, and return the exit code."""
    data, logs = obtain_logs()
    folder = RUN_FOLDER / "bench"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copytree(data, folder / "data")
    server = Server.create(RELEASE, folder)
    load = os.getloadavg()[0]
    server.start()
    try:
        results = [_measure_log(server, index, log) for index, log in enumerate(logs)]
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"MySQL {server.version}, Python {platform.python_version()}, {os.cpu_count()} processors, "
        f"load {load:.1f} before and {os.getloadavg()[0]:.1f} after (quiet is below 0.5)"
    )
    ratios = [_report(log, measured) for log, measured in zip(logs, results, strict=True)]
    if min(ratios) < RATIO_MIN:
        print(f"below {RATIO_MIN} × mysql-replication")
        return 1
    return 0


def _measure_log(server: Server, index: int, log: Log) -> dict[str, Measured]:
    arguments = {
        "folder": str(server.data),
        "port": server.port,
        "file": log.file,
        "size": log.bytes,
        "images": _PEER_IMAGES[index],
        "program": server.program("mysqlbinlog"),
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in _MEASURES}
    rounds = int(os.environ.get("ROUNDS", "3"))
    for number in range(rounds):
        with step(f"{log.title}: round {number + 1} of {rounds}"):
            # In turns, so that a noisy minute meets all of them.
            for name in _MEASURES:
                found[name].append(_run(name, arguments))
    return {name: _best(log, runs) for name, runs in found.items()}


def _run(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.measure", name, json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _best(log: Log, runs: list[dict[str, Any]]) -> Measured:
    images = max(run["images"] for run in runs)
    share = images / log.images if images else 1.0
    cpu = min(run["cpu"] for run in runs) / share
    return Measured(
        images_per_second=log.images / cpu if images else 0,
        bytes_per_second=log.bytes / cpu,
        seconds=min(run["seconds"] for run in runs) / share,
        cpu=cpu,
        peak_bytes=max(run["peak_bytes"] for run in runs),
        staged=int(runs[0].get("staged", 0)),
        partial=images if share < 1 else 0,
    )


def _report(log: Log, measured: dict[str, Measured]) -> float:
    """Print the table of one log; return how many times as fast as mysql-replication we are."""
    peer, copy = measured["mysql_replication"], measured["mysqlbinlog"]
    ratio = measured["file_to_arrow"].images_per_second / peer.images_per_second
    times = measured["server_to_parquet"].seconds / copy.seconds
    staged = measured["server_to_parquet"].staged
    remarks = {
        "file_to_arrow": f"{ratio:.0f} × mysql-replication",
        "mysql_replication": f"reckoned from the first {peer.partial:,} images",
        "server_to_parquet": f"{times:.1f} × the seconds of mysqlbinlog; {staged / 1e6:.0f} MB",
        "mysqlbinlog": "copies bytes, decodes nothing",
    }
    print(f"\n{log.title}: {log.images:,} row images, {log.bytes / 1e6:.0f} MB")
    print(f"  {'':38} {'images/s':>10} {'MB/s':>7} {'cpu s':>7} {'clock s':>8} {'peak MB':>8}")
    for name in _MEASURES:
        one = measured[name]
        images = f"{one.images_per_second:,.0f}" if one.images_per_second else "–"
        print(
            f"  {_TITLES[name]:38} {images:>10} {one.bytes_per_second / 1e6:7.1f} "
            f"{one.cpu:7.2f} {one.seconds:8.2f} {one.peak_bytes / 1e6:8.0f}  {remarks[name]}"
        )
    return ratio
