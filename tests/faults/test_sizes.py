"""Logs, transactions, catalogs and backlogs that are larger than usual, in bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pymysql.cursors import SSCursor

from airflow_provider_binlog.changes import CHANGE_TYPE
from airflow_provider_binlog.transport.server.queries import log_end
from tests.faults.tasks import Tasks, log_files
from tests.faults.test_process import MIB, extract
from tests.fixtures.mysql import flush_log, purge
from tests.support.pipeline import Pipeline
from tests.support.staged import changes_of
from tests.support.worker import Worker

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(3600)]

GIB = 1 << 30
TABLES, CHANGED = 20_000, 20
MANIFESTS = 3_000

Digests = dict[int, tuple[int, str]]
"""The rows of the table by id, their content by its digest."""


def select(tasks: Tasks) -> Digests:
    with closing(tasks.database.connect()) as connection, connection.cursor(SSCursor) as cursor:
        cursor.execute("SELECT id, n, SHA2(content, 256) FROM large")
        return {id_: (n, digest) for id_, n, digest in cursor}


def apply(tasks: Tasks) -> Digests:
    """Return the rows that are staged, change by change."""
    rows: Digests = {}
    for manifest in tasks.manifests():
        for table in manifest.tables:
            if table.table == "large":
                for change in changes_of(tasks.store, tasks.source.name, table):
                    rows.pop(change["id"], None)
                    if change[CHANGE_TYPE] in ("insert", "update_postimage"):
                        digest = hashlib.sha256(change["content"]).hexdigest()
                        rows[change["id"]] = change["n"], digest
    return rows


@pytest.fixture
def tasks(tasks: Tasks) -> Iterator[Tasks]:
    """The tasks over a server whose log is purged afterwards: it fills the disk."""
    yield tasks
    server = tasks.database.server
    purge(server, flush_log(server))


@pytest.mark.fault("large-log", servers="mysql97 mariadb118", stores="file")
def test_a_file_of_more_than_4_gib(kind: str, tasks: Tasks, worker: Worker, tmp_path: Path) -> None:
    """Whose events say their offsets modulo 4 GiB; the next range starts past that."""
    tasks.run()
    database = tasks.database
    database.execute(
        "CREATE TABLE large (id INT PRIMARY KEY, n INT, content LONGBLOB)",
        "SET @@session.group_concat_max_len = 1 << 30",
        *(f"INSERT INTO large VALUES ({id_}, 0, REPEAT('{id_}', 16 << 20))" for id_ in range(8)),
    )
    updates = ("UPDATE large SET n = n + 1" for _ in range(18))
    database.execute("FLUSH BINARY LOGS", "BEGIN", *updates, "COMMIT")
    (large,) = [file for file in log_files(tasks) if file.stat().st_size > 4 * GIB]
    task = bounded(tasks, tmp_path)

    # Up to the event that names the next file.
    end = large.stat().st_size - rotate_size(large)
    first = replace(task, arguments={**task.arguments, "stop": f"{large.name}:{end}"})
    answer, staged = worker.call("run", first)

    assert answer == "done", staged
    assert staged["stop"]["offset"] == end > 4 * GIB
    tasks.save(staged)
    assert apply(tasks) == select(tasks)
    database.execute("DELETE FROM large WHERE id < 4", "UPDATE large SET n = -n")
    answer, staged = worker.call("run", bounded(tasks, tmp_path))
    assert answer == "done", staged
    tasks.save(staged)
    assert apply(tasks) == select(tasks)


@pytest.mark.fault("large-log", servers="mysql97 mariadb118", stores="file")
def test_a_transaction_of_1_gib(kind: str, tasks: Tasks, worker: Worker, tmp_path: Path) -> None:
    tasks.run()
    digits = ", ".join(f"({n})" for n in range(512))
    tasks.database.execute(
        "CREATE TABLE numbers (n INT PRIMARY KEY)",
        f"INSERT INTO numbers VALUES {digits}",
        "CREATE TABLE large (id INT PRIMARY KEY, n INT, content BLOB)",
        "INSERT INTO large SELECT x.n * 512 + y.n, y.n, REPEAT(SHA2(x.n * 512 + y.n, 256), 65)"
        " FROM numbers x, numbers y",
    )
    assert max(file.stat().st_size for file in log_files(tasks)) > GIB

    answer, staged = worker.call("run", bounded(tasks, tmp_path))

    assert answer == "done", staged
    assert staged["tables"][f"{tasks.database.name}.large"] == 512 * 512
    tasks.save(staged)
    assert apply(tasks) == select(tasks)


def bounded(tasks: Tasks, folder: Path) -> Any:
    """Return the extract task with the limits that it has by default, and little memory."""
    task = extract(tasks, folder)
    arguments = {name: task.arguments[name] for name in task.arguments.keys() - {"limits"}}
    return replace(task, arguments=arguments, memory_bytes=640 * MIB)


def rotate_size(file: Path) -> int:
    """Return the size of the last event of a file, which names the next file."""
    stem, _, number = file.name.rpartition(".")
    following = f"{stem}.{int(number) + 1:0{len(number)}}"
    return 19 + 8 + len(following) + 4


@pytest.mark.fault("many-tables", servers="mysql97 mariadb118", stores="file")
def test_20000_tables_of_which_20_change(
    kind: str, tasks: Tasks, worker: Worker, tmp_path: Path
) -> None:
    tasks.database.execute(
        # A file for each of them takes longer.
        "SET GLOBAL innodb_file_per_table = OFF",
        *(f"CREATE TABLE t{number} (id INT PRIMARY KEY, n INT)" for number in range(TABLES)),
        "SET GLOBAL innodb_file_per_table = ON",
    )
    changed = [f"t{number}" for number in range(0, TABLES, TABLES // CHANGED)]
    with closing(tasks.database.connect()) as connection:
        end = str(log_end(connection)).split(" ")[0]
    tasks = tasks.named("many", start=end)

    def change(number: int) -> None:
        for table in changed:
            tasks.database.execute(
                f"INSERT INTO {table} VALUES ({number}, {number}), ({number + 10}, NULL)",
                f"UPDATE {table} SET n = 3 WHERE id = {number}",
                f"DELETE FROM {table} WHERE id = {number + 9}",
            )

    change(0)
    tasks.run()
    change(1)
    answer, staged = worker.call("run", bounded(tasks, tmp_path))

    assert answer == "done", staged
    assert staged["tables"].keys() == {f"{tasks.database.name}.{each}" for each in changed}
    tasks.save(staged)
    tasks.check()
    tasks.nothing_left()


@pytest.mark.spark
@pytest.mark.fault("many-manifests", servers="mysql97", lakes="delta iceberg", stores="file")
def test_a_merge_of_3000_manifests(kind: str, create_pipeline: Callable[..., Pipeline]) -> None:
    """Of a lake that was not merged for long; into both formats."""
    pipeline = create_pipeline(kind, "delta")
    pipeline.database.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(40))",
        "CREATE TABLE visits (id INT PRIMARY KEY, n INT)",
    )
    with closing(pipeline.database.connect()) as connection, connection.cursor() as cursor:
        for number in range(MANIFESTS):
            cursor.execute(f"INSERT INTO orders (id, note) VALUES ({number}, 'new')")
            cursor.execute(f"UPDATE orders SET note = 'run {number}' WHERE id = {number // 2}")
            if number == MANIFESTS // 2:
                cursor.execute("ALTER TABLE orders ADD COLUMN n INT DEFAULT 7")
            if number % 500 == 0:
                cursor.execute(f"REPLACE INTO visits VALUES ({number % 3}, {number})")
            pipeline.capture()
    assert len(pipeline.manifests) == MANIFESTS

    for format_ in ("delta", "iceberg"):
        pipeline.workplace.format = format_
        pipeline.workplace.merge()
        assert pipeline.differences() == []
