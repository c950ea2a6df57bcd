"""Rows are cut at actions on their table, and every way to cut the log gives the same manifests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, SourceIdentity
from airflow_provider_binlog.schema import (
    AddField,
    CreateTable,
    DropField,
    DropTable,
    RenameTable,
    TruncateTable,
)
from tests.support.logs import a_table
from tests.support.requests import a_request
from tests.unit.capture.staging import CutSource, capture, end_of, file_source, new_store
from tests.unit.schema_history.test_schemas import a_log, boundaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.manifest import TableChanges
    from airflow_provider_binlog.schema import Action
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from tests.unit.capture.staging import Files

T, U, WIDE = a_table("t", "id", "a"), a_table("u", "id", "a"), a_table("t", "id", "a", "b")
SAME = "ALTER TABLE t DROP a, ADD a INT"


def extracted(
    files: Files, store: ObjectStore, *stops: Position, tables: Sequence[str] = ("*.*",)
) -> list[Manifest]:
    """Return the manifests of ranges that end at these positions, one after the other."""
    found: list[Manifest] = []
    start = Position("binlog.000001", FIRST_OFFSET)
    identity = SourceIdentity(Flavor.MYSQL, "a-server", "binlog")
    for stop in stops:
        request = a_request(
            start, stop, identity=identity, sequence=len(found) + 1, tables=TableFilter(tables)
        )
        found += extract(request, file_source(files), store).manifests
        start = found[-1].stop
    return found


def actions(manifests: Sequence[Manifest]) -> list[Action]:
    return [
        action
        for manifest in manifests
        for statement in manifest.statements
        for action in statement.actions
    ]


def table_named(manifest: Manifest, name: str) -> TableChanges:
    (found,) = (each for each in manifest.tables if each.table == name and not each.dropped)
    return found


@pytest.mark.parametrize("statement", [SAME, "TRUNCATE t", "ALTER TABLE t DROP PARTITION p"])
@pytest.mark.parametrize("cut", [(), range(60)], ids=["whole", "single"])
def test_no_action_lies_between_two_rows_of_a_part(statement: str, cut: Sequence[int]) -> None:
    files = a_log(T, U, T, statement, U, T, T)

    manifest = capture(CutSource(files, {"binlog.000001": cut}), end_of(files))

    (entry,) = manifest.statements
    t, u = table_named(manifest, "t"), table_named(manifest, "u")
    assert [(part.rows, part.first_row > entry.row) for part in t.parts] == [(2, False), (2, True)]
    assert [part.rows for part in u.parts] == [2]
    assert (t.parts[0].schema == t.parts[1].schema) == (statement != SAME)


def test_an_alter_that_leaves_the_table_map_as_it_was_gives_other_fields() -> None:
    files = a_log(T, SAME, T)

    (manifest,) = extracted(files, new_store(), end_of(files))

    (t,) = manifest.tables
    ids = [[field.id for field in t.schema(part.schema).fields] for part in t.parts]
    assert ids == [[1, 2], [1, 3]]
    assert t.images == ((1, 2), (1, 3))
    assert actions([manifest]) == [DropField(t.id, 2, "a"), AddField(t.id, 3, "a")]


HISTORY: list[Any] = [
    "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
    T,
    U,
    SAME,
    T,
    "ALTER TABLE t ADD b INT",
    WIDE,
    "RENAME TABLE t TO v, u TO t",
    T,
    U,  # a table of the name that was left
    "DROP TABLE v",
    "TRUNCATE t",
    T,
    "ALTER TABLE t DROP a",
    "ALTER TABLE t ADD a INT",
    T,
    "DROP DATABASE shop",
    "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
    T,
    # The log has not mentioned it: with its database it was dropped all the same.
    "CREATE TABLE IF NOT EXISTS w (id INT PRIMARY KEY, a INT)",
]


@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_however_the_ranges_are_cut_the_ids_and_actions_are_the_same(every: int) -> None:
    files = a_log(*HISTORY)
    stops = boundaries(files)[1:]
    (whole,) = extracted(files, new_store(), stops[-1])
    chosen = [*stops[:-1][::every], stops[-1]]

    manifests = extracted(files, new_store(), *chosen)

    assert actions(manifests) == actions([whole])
    by_id = {table.id: table for manifest in manifests for table in manifest.tables}
    for table in whole.tables:
        last = by_id[table.id]
        assert (last.name, last.dropped, last.last_field_id) == (
            table.name,
            table.dropped,
            table.last_field_id,
        )
        assert (last.current, last.logged) == (table.current, table.logged)
        mine = [
            part for each in manifests for t in each.tables if t.id == table.id for part in t.parts
        ]
        assert sum(part.rows for part in mine) == table.rows
    again = extracted(files, new_store(), *chosen)
    assert [replace(each, created_at="") for each in again] == [
        replace(each, created_at="") for each in manifests
    ]


def test_a_table_that_was_touched_long_ago_is_known_by_its_schema_file() -> None:
    files = a_log(T, SAME, T, U, U, "RENAME TABLE t TO v", U, U, "RENAME TABLE v TO t", T)
    stops = boundaries(files)[1:]
    store = new_store()

    manifests = extracted(files, store, *stops)

    t = table_named(manifests[0], "t")
    last = table_named(manifests[-1], "t")
    assert (last.id, last.changed) == (t.id, False)
    assert [field.id for field in last.schema(last.parts[0].schema).fields] == [1, 3]
    assert [type(each) for each in actions(manifests)] == [
        DropField, AddField, RenameTable, RenameTable,
    ]  # fmt: skip
    listed = store.list("shop/schemas/shop/t")
    # First seen, altered, confirmed by rows, renamed away; the last one is not committed to yet.
    assert [int(each.partition(".")[0]) for each in listed] == [1, 2, 3, 6, 9]


def test_a_table_touched_in_every_range_costs_no_request() -> None:
    files = a_log(T, T, T, T)
    stops = boundaries(files)[1:]
    store = new_store()
    asked: list[str] = []
    listing, reading = store.list, store.read

    def list_names(folder: str) -> list[str]:
        asked.append(folder)
        return listing(folder)

    def read(key: str) -> bytes:
        asked.append(key)
        return reading(key)

    store.list, store.read = list_names, read  # type: ignore[method-assign]

    extracted(files, store, *stops)

    assert not [key for key in asked if "/schemas/" in key]


def test_a_table_that_was_left_out_for_a_while_is_another_one() -> None:
    files = a_log(T, U, T, U, T)
    stops = boundaries(files)[1:]

    store = new_store()
    first = extracted(files, store, stops[0])
    t = table_named(first[0], "t").id
    narrowed = _further(files, store, first, stops[1], ["*.u"])
    widened = _further(files, store, narrowed, stops[2], ["*.*"])

    assert [each.captured_since for each in widened] == [1, 2, 3]
    assert table_named(widened[2], "t").id != t
    assert table_named(widened[2], "t").created is None


def _further(
    files: Files, store: ObjectStore, before: list[Manifest], stop: Position, tables: list[str]
) -> list[Manifest]:
    request = a_request(
        before[-1].stop,
        stop,
        identity=before[-1].identity,
        sequence=len(before) + 1,
        tables=TableFilter(tables),
    )
    return [*before, *extract(request, file_source(files), store).manifests]


def test_creation_and_drop_are_noted_by_the_manifest() -> None:
    files = a_log("CREATE TABLE t (id INT PRIMARY KEY, a INT)", T, "DROP TABLE t", U)
    stops = boundaries(files)[1:]

    one, two, three, four = extracted(files, new_store(), *stops)

    (created,), (written,), (dropped,) = one.tables, two.tables, three.tables
    assert (created.created, created.logged, created.dropped) == (1, None, False)
    assert (written.created, written.changed, written.dropped) == (1, True, False)
    assert (dropped.created, dropped.changed, dropped.dropped) == (1, True, True)
    assert created.id == written.id == dropped.id
    assert [each.table for each in four.tables] == ["u"]
    assert actions([one, three]) == [
        CreateTable(created.id, ("shop", "t")),
        DropTable(created.id, ("shop", "t")),
    ]
    assert not [each for each in actions([two, four]) if isinstance(each, TruncateTable)]
