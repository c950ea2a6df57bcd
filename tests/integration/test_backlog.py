"""A backlog that is staged in sub-ranges is the manifest that one extract of the whole gives."""

from __future__ import annotations

import io
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count, product
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_binlog.capture.backlog.joining import commit_backlog
from airflow_provider_binlog.capture.backlog.sub_ranges import (
    BacklogPlan,
    load_plan,
    plan_backlog,
    result_key,
    stage_sub_range,
    store_plan,
)
from airflow_provider_binlog.capture.extract import find_next
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import OnTableError, Policies, ZeroDates
from airflow_provider_binlog.errors import ConfigurationError, ConflictError, ManifestError
from airflow_provider_binlog.protected_columns import ColumnRules, HashSecret
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.table_options import ColumnOptions
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from airflow_provider_binlog.transport.server.queries import identify
from tests.fixtures.mysql import Database, connect, prepare
from tests.support.dying_store import DyingStore, KilledError
from tests.support.protected import find_planted
from tests.support.ranges import Range, Staged, end_of, live, stage
from tests.support.requests import a_request
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from airflow_provider_binlog.manifest import Manifest, TableChanges
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.schema_history.statements import ServerTablesReader
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.block_stream import BlockStream
    from tests.services.servers import Server

pytestmark = pytest.mark.server

_numbers = count()
EACH_FILE = 1


def run_history(database: Database) -> None:
    """Carry over files: XA transactions, DDL, names, sets of columns; roll back, too."""
    mariadb = database.server.name.startswith("mariadb")
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(40), b INT DEFAULT 7)",
        "CREATE TABLE u (id INT PRIMARY KEY AUTO_INCREMENT, b INT)",
        "CREATE TABLE kept (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t (id, a) VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        "INSERT INTO u (b) VALUES (1), (2)",
        "INSERT INTO kept VALUES (1, REPEAT('x', 3000))",
    )
    prepare(database, "'x'", "INSERT INTO t (id, a) VALUES (10, 'x')", "UPDATE u SET b = b + 10")
    database.execute("FLUSH BINARY LOGS")
    database.execute(
        "INSERT INTO t (id, a) VALUES (4, 'between')",
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE t SET a = 'minimal' WHERE id = 4",
        "SET SESSION binlog_row_image = FULL",
        "ALTER TABLE kept ADD COLUMN w INT DEFAULT 5 AFTER id, ALGORITHM = INPLACE",
        "UPDATE kept SET w = 6",
        "FLUSH BINARY LOGS",
        "XA COMMIT 'x'",
        "UPDATE t SET b = 8",
        "RENAME TABLE u TO v",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "INSERT INTO u VALUES (5)",
    )
    prepare(database, "'in doubt'", "INSERT INTO kept VALUES (70, 1, 'in doubt')")
    if mariadb:
        database.execute(
            "CREATE TABLE loose (id INT PRIMARY KEY) ENGINE = MyISAM",
            "START TRANSACTION",
            "INSERT INTO kept VALUES (50, 1, 'rolled back')",
            "INSERT INTO loose VALUES (1)",
            "ROLLBACK",
        )
    database.execute(
        "FLUSH BINARY LOGS",
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE t SET b = 9 WHERE id = 10",
        "UPDATE t SET a = 'two again' WHERE id = 2",
        "SET SESSION binlog_row_image = FULL",
        "INSERT INTO v (b) VALUES (30)",
        "TRUNCATE TABLE u",
        "INSERT INTO u VALUES (6)",
        "UPDATE kept SET v = 'short' WHERE id = 1",
    )


@pytest.fixture(params=["mysql97", "mariadb1011"])
def database(
    request: pytest.FixtureRequest, create_database: Callable[[Server], Database]
) -> Database:
    return create_database(request.getfixturevalue(request.param))


@pytest.fixture(params=["FULL", "MINIMAL"])
def happened(request: pytest.FixtureRequest, database: Database) -> Iterator[Range]:
    """What ends with a prepared transaction, under each setting of `binlog_row_metadata`."""
    before = database.query("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    database.execute(f"SET GLOBAL binlog_row_metadata = {request.param}", "FLUSH BINARY LOGS")
    start = end_of(database.server)
    try:
        run_history(database)
    finally:
        database.execute(f"SET GLOBAL binlog_row_metadata = {before}")
    yield Range(database, start, end_of(database.server))
    # Its locks would keep the database from being dropped.
    database.execute("XA ROLLBACK 'in doubt'")


def tables_reader(server: Server) -> ServerTablesReader:
    def read(names: Collection[TableName]) -> Any:
        with closing(connect(server)) as connection:
            return read_server_tables(connection, names)

    return read


def plan(happened: Range, source: BlockStream, store: ObjectStore, **arguments: Any) -> BacklogPlan:
    """Return the plan as a task of another process reads it."""
    with closing(connect(happened.server)) as connection:
        identity = identify(connection)
    tables = TableFilter([f"{happened.database.name}.*"])
    defaults: dict[str, Any] = {"identity": identity, "tables": tables}
    target_bytes = arguments.pop("target_bytes", EACH_FILE)
    request = a_request(happened.start, happened.stop, **defaults | arguments)
    _, log_range = find_next(request, source, store)
    assert log_range is not None
    planned = plan_backlog(log_range, source, target_bytes=target_bytes)
    store_plan(planned, store)
    loaded = load_plan(store, "shop", planned.id)
    assert loaded == planned
    return loaded


def stage_backlog(
    happened: Range,
    source: BlockStream,
    *,
    backwards: bool = True,
    folder: Path | None = None,
    secret: HashSecret | None = None,
    **arguments: Any,
) -> Staged:
    """Stage the sub-ranges one by one, the last one first, and commit them."""
    store = open_store(f"file://{folder}" if folder else f"memory://backlog{next(_numbers)}")
    planned = plan(happened, source, store, **arguments)
    numbers = list(range(len(planned.sub_ranges)))
    for number in reversed(numbers) if backwards else numbers:
        staged = stage_sub_range(planned, number, source, store, secret=secret)
        again = stage_sub_range(planned, number, source, store, secret=secret)
        assert again == staged
    manifest = commit_backlog(planned, store, created_by="a test")
    assert commit_backlog(planned, store, created_by="a retry") == manifest
    assert ManifestLog(store, "shop").load(1) == manifest
    return Staged(replace(manifest, created_at=""), store)


def plain(staged: Staged) -> tuple[Manifest, list[Any]]:
    """Return the manifest without its parts, and the rows of each table with their types."""
    rows = [_rows(staged, table) for table in staged.manifest.tables]
    tables = tuple(
        replace(table, parts=(), images=tuple(sorted(table.images)))
        for table in staged.manifest.tables
    )
    return replace(staged.manifest, tables=tables), rows


def _rows(staged: Staged, table: TableChanges) -> list[Any]:
    """Return the rows by `_row`, with the fields of their images in place of a number."""
    rows = staged.rows(table)
    assert len(rows) == table.rows
    files = {part.schema: staged.store.read(f"shop/{part.path}") for part in table.parts}
    types = {each: str(pq.read_schema(io.BytesIO(data))) for each, data in files.items()}
    return [types, *({**row, "_image": table.images[row["_image"]]} for row in rows)]


def test_sub_ranges_are_what_one_extract_of_the_whole_gives(happened: Range) -> None:
    reader = tables_reader(happened.server)
    whole = stage(live(happened.server), happened, read_server_tables=reader)

    joined = stage_backlog(happened, live(happened.server), read_server_tables=reader)

    assert plain(joined) == plain(whole)
    assert [each.xid for each in joined.manifest.prepared] == ["X'696e20646f756274',X'',1"]
    minimal = next(table for table in joined.manifest.tables if table.table == "t")
    assert len(minimal.images) > 2
    assert len({part.path for table in joined.manifest.tables for part in table.parts}) > 4


def test_sub_ranges_have_nothing_of_protected_columns(happened: Range, tmp_path: Path) -> None:
    name, secret = happened.database.name, HashSecret("pepper and salt")
    options = (
        ColumnOptions(f"{name}.t", exclude=("a",), hash=("b",)),
        ColumnOptions(f"{name}.kept", hash=("v",)),
        ColumnOptions(f"{name}.u", hash=("id",)),
    )
    settings: dict[str, Any] = {
        "columns": ColumnRules(options, secret),
        "read_server_tables": tables_reader(happened.server),
    }
    whole = stage(live(happened.server), happened, **settings)

    joined = stage_backlog(
        happened, live(happened.server), folder=tmp_path, secret=secret, **settings
    )

    assert plain(joined) == plain(whole)
    assert find_planted(tmp_path, ["two again", "minimal", "between", "xxxx", "pepper"]) == []
    (plan_file,) = tmp_path.glob("shop/backlogs/*/plan.json")
    planned = load_plan(joined.store, "shop", plan_file.parent.name)
    with pytest.raises(ConfigurationError, match="another hash_secret"):
        planned.column_rules(HashSecret("another"))


def test_what_information_schema_showed_the_plan_is_what_sub_ranges_have(
    database: Database,
) -> None:
    before = database.query("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    database.execute(
        "CREATE TABLE old (id INT PRIMARY KEY, a INT DEFAULT 7, b INT AS (a + 1) STORED)",
        "CREATE TABLE lost (id INT PRIMARY KEY)",
        "SET GLOBAL binlog_row_metadata = MINIMAL",
        "FLUSH BINARY LOGS",
    )
    start = end_of(database.server)
    try:
        database.execute(
            "INSERT INTO old (id) VALUES (1)",
            "INSERT INTO lost VALUES (1)",
            "FLUSH BINARY LOGS",
            "INSERT INTO old (id) VALUES (2)",
            "INSERT INTO lost VALUES (2)",
        )
    finally:
        database.execute(f"SET GLOBAL binlog_row_metadata = {before}")
    happened = Range(database, start, end_of(database.server))
    # The plan sees that it is named after the range; the sub-ranges have it from the plan.
    database.execute("ALTER TABLE lost ADD COLUMN a INT")
    settings: dict[str, Any] = {
        "on_table_error": OnTableError.QUARANTINE,
        "read_server_tables": tables_reader(database.server),
        "wants_defaults": True,
    }
    whole = stage(live(database.server), happened, **settings)

    joined = stage_backlog(happened, live(database.server), **settings)

    assert plain(joined) == plain(whole)
    assert [table.table for table in joined.manifest.quarantined] == ["lost"]
    old = next(table for table in joined.manifest.tables if table.table == "old")
    assert old.state.schema is not None
    assert [field.generated for field in old.state.schema.fields] == [False, False, True]


def test_a_sub_range_has_so_many_bytes_of_log(happened: Range) -> None:
    source, store = live(happened.server), open_store("memory://planned")
    full = {"read_server_tables": tables_reader(happened.server)}
    files = plan(happened, source, store, **full).sub_ranges
    sizes = [each.bytes for each in files]

    two = plan(happened, source, store, target_bytes=sizes[0] + 1, **full).sub_ranges
    one = plan(happened, source, store, target_bytes=1 << 30, **full).sub_ranges

    assert len(files) == 4
    assert two[0].bytes == sizes[0] + sizes[1]
    assert two[1].start == files[2].start
    assert [each.bytes for each in one] == [sum(sizes)]


def test_a_table_that_is_quarantined_is_the_only_one_that_lacks_rows(database: Database) -> None:
    database.execute("FLUSH BINARY LOGS")
    start = end_of(database.server)
    database.execute(
        "CREATE TABLE good (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE days (id INT PRIMARY KEY, day DATE)",
        "CREATE TABLE taken (id INT PRIMARY KEY, _row INT)",
        "INSERT INTO good VALUES (1, 1)",
        "INSERT INTO days VALUES (1, '2024-02-29')",
        "FLUSH BINARY LOGS",
        "SET SESSION sql_mode = ''",
        "INSERT INTO days VALUES (2, '0000-00-00')",
        "INSERT INTO taken VALUES (2, 2)",
        "INSERT INTO good VALUES (2, 2)",
        "FLUSH BINARY LOGS",
        "INSERT INTO days VALUES (3, '2024-02-29')",
        "INSERT INTO taken VALUES (3, 3)",
        "UPDATE good SET a = a + 1",
    )
    happened = Range(database, start, end_of(database.server))
    settings: dict[str, Any] = {
        "on_table_error": OnTableError.QUARANTINE,
        "policies": Policies(zero_dates=ZeroDates.FAIL),
    }
    whole = stage(live(database.server), happened, **settings)

    joined = stage_backlog(happened, live(database.server), **settings)

    assert joined.manifest.quarantined == whole.manifest.quarantined
    assert {each.table for each in joined.manifest.quarantined} == {"days", "taken"}
    for found, expected in zip(joined.manifest.tables, whole.manifest.tables, strict=True):
        assert found.state == expected.state
        assert joined.rows(found) == whole.rows(expected)


def test_what_was_planned_on_another_log_is_not_joined(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)", "FLUSH BINARY LOGS")
    start = end_of(database.server)
    database.execute("INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)")
    happened = Range(database, start, end_of(database.server))
    source, store = live(database.server), open_store(f"memory://backlog{next(_numbers)}")
    planned = plan(happened, source, store)
    with pytest.raises(ManifestError, match="not staged"):
        commit_backlog(planned, store, created_by="a test")
    stage_sub_range(planned, 1, source, store)
    first = stage_sub_range(planned, 0, source, store)

    other = replace(first, stop=replace(first.stop, gtid="0-9-9"))
    store.write(result_key(planned, 0), other.encode())
    with pytest.raises(ManifestError, match="plan the backlog again"):
        commit_backlog(planned, store, created_by="a test")

    stage(source, replace(happened, stop=planned.sub_ranges[1].start), store=store)
    with pytest.raises(ConflictError, match="another run has staged"):
        commit_backlog(planned, store, created_by="a test")


def test_tasks_that_die_at_any_write_are_run_again(
    mysql97: Server, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(mysql97)
    database.execute("FLUSH BINARY LOGS")
    start = end_of(mysql97)
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
        "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)",
        "FLUSH BINARY LOGS",
        # Its row images are numbered from 0, and then as the second ones.
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE t SET a = 3 WHERE id = 1",
    )
    happened, source = Range(database, start, end_of(mysql97)), live(mysql97)

    def run(store: Any, *, ids: list[str]) -> Staged:
        """Run the tasks; one that dies is run again."""

        def finish(task: Callable[[], Any]) -> Any:
            try:
                return task()
            except KilledError:
                return task()

        planned = finish(lambda: plan(happened, source, store))
        ids.append(planned.id)
        for number in range(len(planned.sub_ranges)):
            finish(partial(stage_sub_range, planned, number, source, store))
        loaded = load_plan(store, "shop", planned.id)
        manifest = finish(lambda: commit_backlog(loaded, store, created_by="a test"))
        assert ManifestLog(store, "shop").load(1) == manifest
        return Staged(replace(manifest, created_at=""), store)

    ids: list[str] = []
    whole = DyingStore(open_store(f"memory://backlog{next(_numbers)}"), at=0, after=False)
    expected = plain(run(whole, ids=ids))
    # The plan, a part and a result of each sub-range, a part with other numbers, the manifest.
    assert whole.writes >= 7

    for at, after in product(range(1, whole.writes + 1), (False, True)):
        store = open_store(f"memory://backlog{next(_numbers)}")
        assert plain(run(DyingStore(store, at=at, after=after), ids=ids)) == expected
    assert set(ids) == {ids[0]}


def test_a_plan_is_removed_by_the_one_after_it(database: Database) -> None:
    database.execute("FLUSH BINARY LOGS")
    start = end_of(database.server)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source, store = live(database.server), open_store(f"memory://backlog{next(_numbers)}")
    first = plan(Range(database, start, end_of(database.server)), source, store)
    stage_sub_range(first, 0, source, store)
    commit_backlog(first, store, created_by="a test")
    assert store.folders("shop/backlogs") == [first.id]

    database.execute("INSERT INTO t VALUES (2)")
    later = Range(database, first.stop, end_of(database.server))
    second = plan(later, source, store, sequence=2)

    assert store.folders("shop/backlogs") == [second.id]
    with pytest.raises(ManifestError, match="a later plan removes it"):
        load_plan(store, "shop", first.id)
