"""Snapshots that several tasks read, that die and are continued, and tables that are adopted."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog import (
    BinlogSnapshotOperator,
    BinlogSnapshotPlanOperator,
    BinlogSource,
    TableOptions,
)
from airflow_provider_binlog.cli.commands import main
from airflow_provider_binlog.errors import (
    ConfigurationError,
    ServerChangedError,
    StagingError,
    UnsupportedError,
)
from airflow_provider_binlog.operators import needed_tables, snapshot
from airflow_provider_binlog.read_progress import ReadProgress
from airflow_provider_binlog.snapshot.chunk import ChunkReader, read_chunk
from airflow_provider_binlog.snapshot.plan import SnapshotFiles, SnapshotRequest, Throttle
from airflow_provider_binlog.snapshot.take import begin_snapshot, complete_snapshot, read_chunks
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from airflow_provider_binlog.staging.part_writer import PartQueue
from tests.support.dying_store import DyingStore, KilledError
from tests.support.ranges import Range, end_of, live, stage
from tests.support.snapshots import (
    SOURCE,
    fill,
    new_store,
    read,
    request_of,
    server,
    settings_of,
    take,
)
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.mysql import Database
    from tests.services.servers import Server

__all__ = ["server"]

pytestmark = pytest.mark.server

_ROWS = 400
_CHUNK_BYTES = 4096


# ------------------------------------------------------------------- tasks that die


def test_a_process_that_dies_at_any_write_is_continued(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    fill(database, rows=60)
    whole = DyingStore(new_store(), at=0, after=False)
    # Half of the 16 KiB that the table has, says InnoDB.
    chunk_bytes = 8192
    expected = take(database, "numbers", cast("Any", whole), chunk_bytes=chunk_bytes)
    assert 1 < len(expected.chunks) < 4

    for at, after in product(range(1, whole.writes + 1), (False, True)):
        run = f"{at} {after}"
        dying: Any = DyingStore(new_store(), at=at, after=after)
        arguments: dict[str, Any] = {"chunk_bytes": chunk_bytes, "created_by": run}
        with pytest.raises(KilledError):
            take(database, "numbers", dying, **arguments)
        retry: Any = DyingStore(new_store(), at=0, after=False)
        taken = take(database, "numbers", retry, **arguments)

        assert [row["id"] for row in read(taken)] == list(range(60))
        assert [each.rows for each in taken.chunks] == [each.rows for each in expected.chunks]
        plan = SnapshotFiles(new_store(), SOURCE).find_plan(
            request_of(database, "numbers", **arguments)
        )
        assert plan is not None
        assert plan.id == taken.id
        # What was written is not written again, but for what the dead one had not noted: a part
        # of a chunk, one of the next chunk, and the write that it died of.
        assert retry.writes <= whole.writes - at + 3


def test_a_task_that_is_interrupted_keeps_the_chunks_that_it_read(database: Database) -> None:
    fill(database)
    request = SnapshotRequest(
        source_name=SOURCE,
        name=(database.name, "numbers"),
        created_by="interrupted",
        chunk_bytes=_CHUNK_BYTES,
    )
    connect = settings_of(database).connect
    plan = begin_snapshot(request, connect, new_store())
    reader, numbers = ChunkReader(connect, SnapshotFiles(new_store(), SOURCE)), range(2)
    rows: list[int] = []

    def interrupt(progress: ReadProgress) -> None:
        rows.append(progress.rows)
        if len(rows) == 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        read_chunks(plan, numbers, reader, on_progress=interrupt)
    # The second one was read when the time was over.
    first, second = (reader.files.find_record(plan.id, number) for number in numbers)
    assert first is not None
    assert second is None
    assert first.chunk.rows == rows[0] < rows[1]
    assert read_chunks(plan, numbers, reader) == rows[1]
    assert reader.files.find_record(plan.id, 0) == first


# ------------------------------------------------------------------- several tasks


def test_tasks_share_the_chunks_of_a_table(database: Database) -> None:
    fill(database)
    store = new_store()
    request = SnapshotRequest(
        source_name=SOURCE,
        name=(database.name, "numbers"),
        created_by="tasks",
        chunk_bytes=_CHUNK_BYTES,
        throttle=Throttle(threads_running_max=1000),
    )
    connect = Mock(wraps=settings_of(database).connect)
    plan = begin_snapshot(request, connect, store)
    # Before each bound it looks whether the server is busy.
    assert connect.call_count > plan.chunk_count
    assert begin_snapshot(request, settings_of(database).connect, store) == plan
    # Every task opens the store, and connects, by itself.
    readers = [
        ChunkReader(
            settings_of(database).connect,
            SnapshotFiles(new_store(), SOURCE),
            throttle=Throttle(threads_running_max=1000),
        )
        for _ in range(2)
    ]
    half = plan.chunk_count // 2
    halves = range(half), range(half, plan.chunk_count)

    assert half > 1
    read_chunks(plan, halves[1], readers[1])
    with pytest.raises(StagingError, match="is not read yet") as raised:
        complete_snapshot(plan, readers[0].files)
    assert raised.value.context["chunk"] == 0
    read_chunks(plan, halves[0], readers[0])
    taken = complete_snapshot(plan, readers[0].files)

    rows = read(taken)
    assert [row["id"] for row in rows] == list(range(_ROWS))
    assert begin_snapshot(request, settings_of(database).connect, store) == plan
    other = replace(plan, identity=replace(plan.identity, server="another"))
    with pytest.raises(ServerChangedError, match="begin it again"):
        read_chunk(other, 0, readers[0], PartQueue(store))


def test_the_plan_names_tables_without_a_key(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = {
        "keyless": "a INT",
        "`a b`": "a INT UNIQUE",  # NULL is in it any number of times
        "keyed": "a INT PRIMARY KEY",
        "by_unique_key": "a INT NOT NULL UNIQUE",
        "by_option": "a INT NOT NULL",
    }
    database.execute(*(f"CREATE TABLE {name} ({of})" for name, of in columns.items()))
    names = [(database.name, name.strip("`")) for name in columns]
    monkeypatch.setattr(needed_tables, "server_settings", lambda _: settings_of(database))
    source = BinlogSource(SOURCE, start="now")
    plan = BinlogSnapshotPlanOperator(
        task_id="plan",
        source=source,
        staging_path=f"file://{tmp_path}",
        tables=[f"{database.name}.*"],
        options={"*.by_option": TableOptions(key=["a"])},
        reload=(),
    )

    assert plan._list_needed(source) == sorted(names)

    (line,) = (line for line in capsys.readouterr().out.split("\n") if "no primary key" in line)
    assert f": {database.name}.a b, {database.name}.keyless " in line


def test_mapped_tasks_share_the_chunks_of_tables(
    mysql97: Server,
    create_database: Callable[[Server], Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = create_database(mysql97)
    fill(database, rows=1000)
    database.execute("CREATE TABLE nothing (id INT PRIMARY KEY)")
    for module in (snapshot, needed_tables):
        monkeypatch.setattr(module, "server_settings", lambda _: settings_of(database))
    staging: dict[str, Any] = {
        "source": BinlogSource(SOURCE, start="now"),
        "staging_path": f"file://{tmp_path}",
    }
    instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="task")
    context: Any = {"ti": instance, "outlet_events": {}}
    nothing, numbers = (f"{database.name}.{name}" for name in ("nothing", "numbers"))
    monkeypatch.setattr(snapshot, "max_map_length", lambda: 3)

    plan = BinlogSnapshotPlanOperator(
        task_id="plan",
        tables=[f"{database.name}.n*"],
        chunk_bytes=_CHUNK_BYTES,
        reload=(),
        **staging,
    )
    shares = plan.execute(context)
    # An empty table is one task, and so are eight chunks.
    assert shares[0] == {"table": nothing}
    chunks = [each["chunks"] for each in shares[1:]]
    assert [each["table"] for each in shares[1:]] == [numbers, numbers]
    assert (chunks[0]["first"], chunks[0]["stop"]) == (0, chunks[1]["first"])
    assert plan.execute(context) == shares
    done = [
        BinlogSnapshotOperator(task_id="read", **staging, **each).execute(context)
        for each in (*shares, shares[1])
    ]

    # The last one to read makes the snapshot visible, and a retry finds it.
    assert ["manifest" in each for each in done] == [True, False, True, True]
    assert [each["rows"] for each in done[:1] + done[2:]] == [0, 1000, 1000]
    assert done[3] == done[2]
    assert Path(done[2]["manifest"].removeprefix("file://")).exists()

    whole = [{"table": nothing}, {"table": numbers}]
    refuse = Mock(side_effect=UnsupportedError("a column has a type that is not decoded"))
    with monkeypatch.context() as patched:
        patched.setattr("airflow_provider_binlog.snapshot.take.begin_snapshot", refuse)
        # Its own task says why.
        assert plan.execute(context) == whole
    plan.engine = "spark"
    assert plan.execute(context) == whole
    monkeypatch.setattr(snapshot, "max_map_length", lambda: 1)
    with pytest.raises(AirflowFailException, match="more tables than tasks"):
        plan.execute(context)
    plan.tables = [f"{database.name}.m*"]
    with pytest.raises(AirflowFailException, match="globs match no table of the server"):
        plan.execute(context)


def test_a_limit_of_lag_takes_a_replica(database: Database) -> None:
    fill(database, rows=1)

    with pytest.raises(ConfigurationError, match="max_replica_lag takes a replica"):
        take(database, "numbers", throttle=Throttle(replica_lag_max=5))


# ------------------------------------------------------------------- rows that are there already


def test_a_table_is_adopted_at_a_position_with_the_schema_that_it_has(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(database, rows=3)
    database.execute("CREATE TABLE keyless (n INT)")
    staging = f"file://{tmp_path}"

    def adopt(table: str, at: str) -> int:
        words = ["adopt", SOURCE, staging, "--conn", database.server.dsn]
        return main([*words, "--table", f"{database.name}.{table}", "--at", at])

    end = end_of(database.server)
    assert adopt("numbers", f"{end.file}:{end.offset}") == 0
    assert f"{end.file}:{end.offset}" in capsys.readouterr().out
    (file,) = (tmp_path / SOURCE / "snapshots").iterdir()
    found = SnapshotManifest.decode(file.read_bytes())
    assert (found.id, found.name) == (file.stem, (database.name, "numbers"))
    assert (found.adopts, found.is_exact, found.parts) == (True, True, ())
    assert found.low.coordinates == found.high.coordinates == end.coordinates
    assert found.schema == take(database, "numbers").schema

    words = ["reload", SOURCE, staging, "--conn", database.server.dsn]
    words += ["--table", f"{database.name}.keyless"]
    assert main(words) == 1
    assert "let its DAG run once" in capsys.readouterr().err
    source, empty = live(database.server), Range(database, end, end)
    stage(source, empty, store=open_store(staging), source_name=SOURCE, even_empty=True)
    for number in range(2):
        database.execute(f"INSERT INTO keyless VALUES ({number})")
        assert main([*words, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == number + 1

    assert adopt("keyless", "now") == 1
    assert "the table has no key" in capsys.readouterr().err
