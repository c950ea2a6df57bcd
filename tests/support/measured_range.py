"""Stages a range in a process of its own, and reports how much memory it took."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.transport.stream.live import ServerBlockStream
from tests.support.requests import a_request
from tests.support.stores import open_store

if TYPE_CHECKING:
    from tests.support.ranges import Range


def stage_measured(happened: Range, folder: Path) -> tuple[int, int]:
    """Return how many rows the range's manifest holds, and the process's peak in MiB."""
    server = happened.server
    asked = {
        "flavor": "mariadb" if server.name.startswith("mariadb") else "mysql",
        "port": server.port,
        "database": happened.database.name,
        "start": [happened.start.file, happened.start.offset],
        "stop": [happened.stop.file, happened.stop.offset],
        "folder": str(folder),
    }
    ran = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(asked)],
        check=True,
        capture_output=True,
        text=True,
    )
    rows, mebibytes = map(int, ran.stdout.split())
    return rows, mebibytes


def main(argument: str) -> None:
    """Stage what is asked for."""
    asked = json.loads(argument)
    flavor = Flavor(asked["flavor"])
    source = ServerBlockStream(
        lambda: pymysql.connect(
            host="127.0.0.1", port=asked["port"], user="root", ssl_disabled=True
        ),
        flavor=flavor,
    )
    extracted = extract(
        a_request(
            Position(*asked["start"]),
            Position(*asked["stop"]),
            identity=SourceIdentity(flavor, "x", "binlog"),
            tables=TableFilter([f"{asked['database']}.*"]),
        ),
        source,
        open_store(f"file://{asked['folder']}"),
    )
    (manifest,) = extracted.manifests
    # Not ru_maxrss, which counts what the parent had in memory too.
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(manifest.rows, int(peak) >> 10)


if __name__ == "__main__":
    main(sys.argv[1])
