"""Copies of a server's binlog files are the files, and a log that is read like the server's."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_provider_binlog.capture.backlog.joining import commit_backlog
from airflow_provider_binlog.capture.backlog.sub_ranges import stage_sub_range
from airflow_provider_binlog.errors import (
    ConnectionLostError,
    ForeignPositionError,
    PositionPurgedError,
)
from airflow_provider_binlog.sources.archive import archive_log
from airflow_provider_binlog.sources.binlog_files import find_files, reach_plainly
from airflow_provider_binlog.sources.file_log import FileLog
from airflow_provider_binlog.transport.server.queries import binary_logs
from airflow_provider_binlog.transport.stream.commands import file_created
from tests.fixtures.mysql import Database, connect, flush_log
from tests.integration.test_backlog import plan
from tests.support.ranges import Range, Staged, end_of, live, stage
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_provider_binlog.position import Position
    from airflow_provider_binlog.transport.server.queries import BinaryLog
    from tests.services.servers import Server

pytestmark = pytest.mark.server


@pytest.fixture(params=["mysql97", "mariadb1011"])
def database(
    request: pytest.FixtureRequest, create_database: Callable[[Server], Database]
) -> Database:
    return create_database(request.getfixturevalue(request.param))


def logs_of(server: Server, since: Position) -> list[BinaryLog]:
    with closing(connect(server)) as connection:
        logs = binary_logs(connection)
    return [each for each in logs if each.file >= since.file]


def archive(server: Server, logs: list[BinaryLog], folder: Path, **others: Any) -> list[str]:
    source = live(server)

    def created(position: Position) -> int:
        return file_created(lambda: connect(server), source._flavor, position)

    given = {"created": created, **others}
    store = open_store(f"file://{folder}")
    return [each.file for each in archive_log(logs, source, store, **given)]


def test_copies_are_the_files_and_a_log_to_read(database: Database, tmp_path: Path) -> None:
    server = database.server
    flush_log(server)
    start = end_of(server)
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a LONGTEXT)",
        "INSERT INTO t VALUES (1, REPEAT('ab', 3000000)), (2, 'b')",
    )
    flush_log(server)
    database.execute("UPDATE t SET a = 'c' WHERE id = 1")
    logs = logs_of(server, start)
    assert archive(server, logs, tmp_path) == [logs[0].file]
    flush_log(server)
    stop = end_of(server)
    database.execute("DELETE FROM t")
    logs = logs_of(server, start)

    assert archive(server, logs, tmp_path) == [logs[1].file]

    assert archive(server, logs, tmp_path) == []
    for log in logs[:2]:
        with pa.input_stream(str(tmp_path / f"{log.file}.zst"), compression="zstd") as copy:
            assert copy.read() == (server.data / log.file).read_bytes()
    happened = Range(database, start, replace(stop, offset=4))
    copies = FileLog(find_files(f"{tmp_path}/", reach_plainly))
    expected = stage(live(server), happened)
    assert stage(copies, happened).manifest == expected.manifest
    # A plan of the server's log serves tasks that read the copies.
    store = open_store(f"memory://archived-{server.name}")
    planned = plan(happened, live(server), store)
    for number in range(len(planned.sub_ranges)):
        stage_sub_range(planned, number, copies, store)
    joined = Staged(commit_backlog(planned, store, created_by="a test"), store)
    (found,), (table,) = joined.manifest.tables, expected.manifest.tables
    assert joined.rows(found) == expected.rows(table)


def test_what_is_no_whole_copy_of_one_log_is_refused(database: Database, tmp_path: Path) -> None:
    server = database.server
    flush_log(server)
    start = end_of(server)
    for _ in range(3):
        flush_log(server)
    logs = logs_of(server, start)

    longer = [logs[0]._replace(size=logs[0].size + 1), *logs[1:]]
    with pytest.raises(ConnectionLostError, match="not sent whole"):
        archive(server, longer, tmp_path)
    assert archive(server, logs[:2], tmp_path) == [logs[0].file]
    with pytest.raises(PositionPurgedError, match="not archived"):
        archive(server, logs[2:], tmp_path)
    with pytest.raises(ForeignPositionError, match="another log"):
        archive(server, logs, tmp_path, created=lambda _: 1)
