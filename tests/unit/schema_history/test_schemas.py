"""The schema of the past: sparse TABLE_MAPs are completed, whenever the server is queried."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.errors import (
    ConnectionLostError,
    ServerSetupError,
    TableLockedError,
)
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.schema import Default
from airflow_provider_binlog.schema_history.statements import ServerSchemas, Undeterminable
from airflow_provider_binlog.transport.server.information_schema import ServerTables
from tests.support import builder
from tests.support.logs import Made, a_table, insert, maps, query, write_files
from tests.support.server_tables import server_column, server_table
from tests.unit.capture.staging import CutSource, Files, capture, end_of, file_source, known_after

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.schema_history.statements import ServerTablesReader

NAME = "binlog.000001"


def sparse(table: TableMap) -> TableMap:
    """Return a table as MINIMAL logs it."""
    columns = tuple(replace(column, name=None) for column in table.columns)
    return replace(table, columns=columns, primary_key=None)


def transaction(number: int, *events: Made) -> list[Made]:
    gtid = Made(EventType.GTID, builder.gtid(number))
    return [gtid, query("BEGIN"), *events, Made(EventType.XID, builder.xid(number))]


def a_log(*steps: str | TableMap) -> Files:
    """Return a log of statements, and of rows: one into each table that is given."""
    events: list[Made] = []
    for number, step in enumerate(steps, start=1):
        if isinstance(step, str):
            events += [Made(EventType.GTID, builder.gtid(number)), query(step)]
        else:
            row = insert(step, [3 * number + 1])
            events += transaction(number, maps(step, Flavor.MYSQL), row)
    return write_files([events], Flavor.MYSQL)


def server_tables_of(position: Position, **tables: str) -> ServerTables:
    """Return the information_schema of tables of INT columns, the first of which is their key."""
    described = {
        ("shop", name): server_table(*map(server_column, columns.split()))
        for name, columns in tables.items()
    }
    return ServerTables(position, described)


def reader(position: Position, **tables: str) -> ServerTablesReader:
    """Return what gives those of the tables that are queried."""

    def read(names: Collection[TableName]) -> ServerTables:
        whole = server_tables_of(position, **tables)
        return replace(
            whole, tables={name: each for name, each in whole.tables.items() if name in names}
        )

    return read


def never(_: Collection[TableName]) -> ServerTables:
    raise AssertionError("the server is not to be queried")


def boundaries(files: Files) -> list[Position]:
    """Return where transactions begin, and the log's end."""
    (file,) = files.values()
    kinds = [file.data[offset + 4] for offset in file.offsets]
    starts = [o for o, kind in zip(file.offsets, kinds, strict=True) if kind == EventType.GTID]
    return [*(Position(NAME, offset) for offset in starts), end_of(files)]


def schemas(manifest: Manifest) -> list[tuple[str, str, int]]:
    """Return table, columns and row number of each change, in order."""
    found = [
        (table.table, " ".join(field.name for field in table.schema(part.schema).fields), row)
        for table in manifest.tables
        for part in table.parts
        for row in range(part.first_row, part.first_row + 1)
    ]
    return sorted(found, key=lambda each: each[2])


def names(manifest: Manifest) -> list[tuple[str, str]]:
    return [(table, columns) for table, columns, _ in schemas(manifest)]


T = sparse(a_table("t", "id", "a", "b"))
WIDE = sparse(a_table("t", "id", "a", "b", "c"))
RENAME = "ALTER TABLE t RENAME COLUMN b TO d"
CREATE = "CREATE TABLE t (id int PRIMARY KEY, a int, b int)"
SWAP = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"


CUTS = pytest.mark.parametrize("cut", [(), range(60)], ids=["whole", "single"])


@CUTS
def test_a_created_table_is_followed_without_the_server(cut: Sequence[int]) -> None:
    files = a_log(CREATE, T, SWAP, T, "ALTER TABLE t ADD c int AFTER id", WIDE, "DROP TABLE t")

    manifest = capture(CutSource(files, {NAME: cut}), end_of(files), read_server_tables=never)

    assert names(manifest) == [("t", "id a b"), ("t", "id b a"), ("t", "id c b a")]
    (table,) = manifest.tables
    assert {schema.key_names for schema in table.schemas} == {("id",)}


def test_information_schema_holds_after_the_last_statement_that_names_the_table() -> None:
    files = a_log(SWAP, T, "ALTER TABLE u ADD c int", T, "DROP TABLE u")
    stop, end = boundaries(files)[-2:]

    for until in (stop, end):
        manifest = capture(file_source(files), until, read_server_tables=reader(end, t="id b a"))

        assert names(manifest) == [("t", "id b a")]


@CUTS
@pytest.mark.parametrize("statement", [SWAP, "RENAME TABLE t TO u", "DROP DATABASE shop"])
def test_a_later_statement_refuses_a_table_that_information_schema_described(
    cut: Sequence[int], statement: str
) -> None:
    files = a_log(T, T, statement, "CREATE TABLE u (a int)")
    end = end_of(files)

    with pytest.raises(ServerSetupError, match=r"the statement at .*reload.*FULL") as raised:
        capture(CutSource(files, {NAME: cut}), end, read_server_tables=reader(end, t="id a b"))

    (file,) = files.values()
    first = next(each for each in file.offsets if file.data[each + 4] == EventType.WRITE_ROWS)
    assert raised.value.context["table"] == "shop.t"
    assert raised.value.context["offset"] == first


def test_only_the_tables_of_rows_are_queried() -> None:
    u, v = sparse(a_table("u", "id", "a")), sparse(a_table("v", "id", "a"))
    files = a_log(T, u, sparse(a_table("other", "id")), T, v)
    end, queried = end_of(files), list[set[tuple[str, str]]]()
    captured = TableFilter(["shop.?"])
    read = reader(end, t="id a b", u="id a", v="id a", other="id")

    def noted(names: Collection[TableName]) -> ServerTables:
        queried.append({*names})
        return read(names)

    whole = capture(file_source(files), end, tables=captured, read_server_tables=noted)
    (*_, last, _) = boundaries(files)
    (file,) = files.values()
    cut = CutSource(files, {NAME: [file.offsets.index(last.offset)]})
    blocks = capture(cut, end, tables=captured, read_server_tables=noted)

    tables = {("shop", "t"), ("shop", "u"), ("shop", "v")}
    # Of a block at once, and of each table once.
    assert queried == [tables, tables - {("shop", "v")}, {("shop", "v")}]
    assert names(whole) == names(blocks)


def test_what_was_queried_holds_whatever_is_queried_later() -> None:
    u = sparse(a_table("u", "id", "a"))
    files = a_log(T, u, "ALTER TABLE t ADD c int", "ALTER TABLE u ADD c int")
    at, of_u, stop, _, end = boundaries(files)
    ends = [stop, end]

    def read(names: Collection[TableName]) -> ServerTables:
        return reader(ends.pop(0), t="id a b", u="id a c")(names)

    server = ServerSchemas(file_source(files), stop, read_server_tables=read)
    first = server.find(("shop", "t"), at)

    assert isinstance(server.find(("shop", "u"), of_u), Undeterminable)
    assert not ends
    assert server.find(("shop", "t"), at) is first
    assert not isinstance(first, Undeterminable)


def test_a_statement_on_rows_alone_changes_no_schema() -> None:
    files = a_log(T, "TRUNCATE t", T)
    end = end_of(files)

    manifest = capture(file_source(files), end, read_server_tables=reader(end, t="id a b"))

    assert names(manifest) == [("t", "id a b"), ("t", "id a b")]


def test_with_full_metadata_the_server_is_not_queried() -> None:
    full = a_table("t", "id", "a")
    files = a_log(full, SWAP, full, "ALTER TABLE t ADD SYSTEM VERSIONING", full)

    manifest = capture(file_source(files), end_of(files), read_server_tables=never)

    assert {columns for _, columns in names(manifest)} == {"id a"}


def test_without_full_metadata_a_server_is_needed() -> None:
    files = a_log(T)

    with pytest.raises(ServerSetupError, match=r"no server.*=FULL.*table=shop\.t, file=.*offset="):
        capture(file_source(files), end_of(files))


@pytest.mark.parametrize(
    ("later", "tables", "reason"),
    [
        ("DROP TABLE t", {}, r"the statement at binlog.000001:\d+ names the table"),
        ("ALTER TABLE t ADD c int", {"t": "id a b c"}, "names the table"),
        ("DROP TABLE t u v", {"t": "id a b"}, r"file=binlog.000001, offset="),
        ("TRUNCATE TABLE t", {}, "it is not in the server's information_schema"),
        ("TRUNCATE TABLE t", {"t": "id a"}, "3 columns in the log, 2 there"),
    ],
)
def test_what_is_not_certain_is_refused_with_its_offset(
    later: str, tables: dict[str, str], reason: str
) -> None:
    files = a_log(T, later)
    stop = boundaries(files)[1]
    (file,) = files.values()

    with pytest.raises(ServerSetupError, match="FULL") as raised:
        capture(file_source(files), stop, read_server_tables=reader(end_of(files), **tables))

    assert raised.value.context["table"] == "shop.t"
    assert raised.value.context["file"] == NAME
    assert raised.value.context["offset"] in file.offsets
    assert file.data[raised.value.context["offset"] + 4] == EventType.WRITE_ROWS
    assert raised.match(reason)


def test_an_information_schema_from_before_the_stop_is_refused() -> None:
    files = a_log(T, T)

    with pytest.raises(ConnectionLostError, match="ends before the range does"):
        capture(
            file_source(files),
            end_of(files),
            read_server_tables=reader(boundaries(files)[1], t="id a b"),
        )


def test_the_manifest_before_completes_what_information_schema_cannot() -> None:
    files = a_log(T, T, SWAP, T, "DROP TABLE t")
    _, second, _, _, later, end = boundaries(files)
    source = file_source(files)
    previous = capture(source, second, read_server_tables=reader(second, t="id a b"))
    start = replace(second, gtid=previous.stop.gtid)

    manifest = capture(
        source,
        later,
        start=start,
        sequence=2,
        known=known_after(previous),
        read_server_tables=reader(end),
    )

    assert names(manifest) == [("t", "id a b"), ("t", "id b a")]


@pytest.mark.parametrize(
    ("event", "asked", "shown"),
    [
        (T, never, "id a b"),
        # As after an ALTER TABLE under sql_log_bin=0.
        (WIDE, None, "id a c b"),
    ],
)
def test_a_manifest_comes_before_information_schema_unless_the_log_contradicts_it(
    event: Any, asked: Any, shown: str
) -> None:
    files = a_log(T, event)
    _, middle, end = boundaries(files)
    source = file_source(files)
    previous = capture(source, middle, read_server_tables=reader(middle, t="id a b"))

    manifest = capture(
        source,
        end,
        start=replace(middle, gtid=previous.stop.gtid),
        sequence=2,
        known=known_after(previous),
        read_server_tables=asked or reader(end, t="id a c b"),
    )

    assert names(manifest) == [("t", shown)]


def test_a_manifest_is_not_used_after_a_statement_that_is_not_understood() -> None:
    files = a_log(T, "ALTER TABLE t ADD SYSTEM VERSIONING", T)
    _, middle, _, end = boundaries(files)
    source = file_source(files)
    previous = capture(source, middle, read_server_tables=reader(middle, t="id a b"))
    start = replace(middle, gtid=previous.stop.gtid)

    with pytest.raises(ServerSetupError, match="not in the server's information_schema"):
        capture(
            source,
            end,
            start=start,
            sequence=2,
            known=known_after(previous),
            read_server_tables=reader(end),
        )


# ------------------------------------------------------------------- what may be known besides

FULL = a_table("t", "id", "a")
NULL = Default(None)


def defaults(manifest: Manifest) -> list[Default | None]:
    """Return the default of the last column in each part, in order."""
    (table,) = (each for each in manifest.tables if each.parts)
    return [table.schema(part.schema).fields[-1].write_default for part in table.parts]


def null_reader(position: Position, *tables: str) -> ServerTablesReader:
    """Return a reader of tables of two columns, the last of which is NULL by default."""
    inner = reader(position, **dict.fromkeys(tables, "id a"))

    def read(names: Collection[TableName]) -> ServerTables:
        found = inner(names)
        nullable = server_column("a", default=NULL)
        described = {
            name: replace(each, columns=(each.columns[0], nullable))
            for name, each in found.tables.items()
        }
        return replace(found, tables=described)

    return read


def locked(_: Collection[TableName]) -> ServerTables:
    raise TableLockedError("a table cannot be read")


def test_defaults_are_queried_where_they_are_wanted() -> None:
    files = a_log(FULL, FULL)
    end = end_of(files)

    asked = capture(
        file_source(files), end, read_server_tables=null_reader(end, "t"), wants_defaults=True
    )

    assert defaults(asked) == [NULL]
    assert defaults(capture(file_source(files), end, wants_defaults=True)) == [None]


@pytest.mark.parametrize("asked", ["nothing there", "another table"])
def test_without_the_table_defaults_are_unknown(asked: str) -> None:
    files = a_log(FULL, "ALTER TABLE x ADD c int", FULL)
    end = end_of(files)
    readers = {
        "nothing there": reader(end),
        "another table": reader(end, t="id b"),
    }
    source = CutSource(files, {NAME: range(60)})

    manifest = capture(source, end, read_server_tables=readers[asked], wants_defaults=True)

    assert defaults(manifest) == [None]


def test_a_table_that_is_locked_is_queried_again() -> None:
    files = a_log(FULL)
    end = end_of(files)

    with pytest.raises(TableLockedError) as caught:
        capture(file_source(files), end, read_server_tables=locked, wants_defaults=True)

    assert caught.value.retryable


def test_names_are_needed_even_without_defaults() -> None:
    sparse_u = sparse(a_table("u", "id", "a"))
    files = a_log(FULL, sparse_u)
    end = end_of(files)

    manifest = capture(
        file_source(files), end, read_server_tables=null_reader(end, "u"), wants_defaults=True
    )

    found = {
        table.table: [(each.name, each.write_default) for each in table.schemas[0].fields]
        for table in manifest.tables
    }
    assert found == {"t": [("id", None), ("a", None)], "u": [("id", None), ("a", NULL)]}
    with pytest.raises(TableLockedError):
        capture(file_source(files), end, read_server_tables=locked, wants_defaults=True)


@CUTS
def test_a_default_of_information_schema_does_not_hold_before_a_statement(
    cut: Sequence[int],
) -> None:
    files = a_log(FULL, "ALTER TABLE t ALTER a DROP DEFAULT", FULL)
    end = end_of(files)
    source = CutSource(files, {NAME: cut})

    with pytest.raises(ServerSetupError, match="names the table"):
        capture(source, end, read_server_tables=null_reader(end, "t"), wants_defaults=True)


def test_defaults_of_a_created_table_are_followed_without_the_server() -> None:
    files = a_log(
        "CREATE TABLE t (id int PRIMARY KEY, a int)",
        FULL,
        "ALTER TABLE t ALTER a SET DEFAULT 7",
        FULL,
    )

    manifest = capture(
        file_source(files), end_of(files), read_server_tables=never, wants_defaults=True
    )

    assert defaults(manifest) == [NULL, Default("7")]


def test_a_statement_after_the_range_that_cannot_be_understood_hides_defaults() -> None:
    files = a_log(FULL, "DROP TABLE t u v")
    stop = boundaries(files)[1]

    manifest = capture(
        file_source(files),
        stop,
        read_server_tables=null_reader(end_of(files), "t"),
        wants_defaults=True,
    )

    assert defaults(manifest) == [None]
