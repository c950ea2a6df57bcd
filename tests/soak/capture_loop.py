"""The process that captures, and that is killed: range after range, as tasks of a DAG do.

    python -m tests.soak.capture_loop FOLDER PORT FLAVOR

Makes `FOLDER/ready` when it begins. Ends after a range that was begun when `FOLDER/last` existed:
by then nothing is written any more.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pymysql

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.checkpoint import Checkpoint, advance, load
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from airflow_provider_binlog.transport.server.queries import identify, log_end
from airflow_provider_binlog.transport.stream.live import ServerBlockStream
from tests.soak.workload import DATABASE
from tests.support.requests import a_request
from tests.support.stores import open_store

SOURCE = "soak"
_KEY = "checkpoint"
# Small, so that a range has many parts.
_LIMITS = Limits(part_bytes_max=64 << 10, pending_bytes_max=128 << 10)


class FolderStore:
    """Checkpoints as files, replaced whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> str | None:
        """Return what is stored; see `CheckpointStore`."""
        path = self._folder / key
        return path.read_text() if path.exists() else None

    def set(self, key: str, value: str) -> None:
        """Store a value; see `CheckpointStore`."""
        unfinished = self._folder / f"{key}.unfinished"
        unfinished.write_text(value)
        unfinished.rename(self._folder / key)


def main(folder: Path, port: int, flavor: Flavor) -> None:
    """Capture until an end is set and reached."""

    def connect() -> pymysql.Connection[Any]:
        return pymysql.connect(
            host="127.0.0.1", port=port, user="root", autocommit=True, ssl_disabled=True
        )

    checkpoints = FolderStore(folder)
    source = ServerBlockStream(connect, flavor=flavor)
    (folder / "ready").touch()
    while True:
        last = folder / "last"
        final = last.exists()
        with closing(connect()) as connection:
            identity, stop = identify(connection), log_end(connection)
        now = datetime.now(UTC).isoformat()
        checkpoint = load(checkpoints, _KEY)
        start = Position(f"{identity.log_name}.000001", FIRST_OFFSET)
        extracted = extract(
            a_request(
                checkpoint.position if checkpoint else start,
                stop,
                identity=identity,
                sequence=checkpoint.sequence + 1 if checkpoint else 1,
                tables=TableFilter([f"{DATABASE}.*"]),
                source_name=SOURCE,
                created_by="soak",
                limits=_LIMITS,
            ),
            source,
            open_store(f"file://{folder}/staging"),
        )
        if extracted.manifests:
            new = Checkpoint.covering(extracted.manifests[-1], saved_at=now, saved_by="soak")
            advance(checkpoints, _KEY, expected=checkpoint, new=new)
        if final:
            return
        time.sleep(0.2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Flavor(sys.argv[3]))
