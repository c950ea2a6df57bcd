"""Tables and columns keep their ids over ranges and names, on real servers."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.schema import (
    CreateTable,
    DropTable,
    RenameTable,
    TruncateTable,
)
from airflow_provider_binlog.transport.server.queries import identify
from tests.fixtures.mysql import connect
from tests.support.ranges import end_of, files
from tests.support.requests import a_request
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.manifest import Manifest, TableChanges
    from airflow_provider_binlog.position import Position
    from airflow_provider_binlog.schema import Action
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from tests.fixtures.mysql import Database

pytestmark = pytest.mark.server

Steps = list[str]
_stores = iter(range(10**6))


class Captured:
    """What happens in a database, one range for each step."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.bounds = [end_of(database.server)]

    def run(self, *statements: str) -> None:
        self.database.execute(*statements)
        self.bounds.append(end_of(self.database.server))

    def manifests(self, stops: Sequence[Position] | None = None) -> list[Manifest]:
        """Return the manifests of ranges with these stops; of every step by default."""
        self.store: ObjectStore = open_store(f"memory://identity{next(_stores)}")
        with closing(connect(self.database.server)) as connection:
            identity = identify(connection)
        found: list[Manifest] = []
        start = self.bounds[0]
        for stop in self.bounds[1:] if stops is None else stops:
            request = a_request(
                start,
                stop,
                identity=identity,
                sequence=len(found) + 1,
                tables=TableFilter([f"{self.database.name}.*"]),
            )
            found += extract(request, files(self.database.server), self.store).manifests
            start = found[-1].stop
        return [replace(each, created_at="") for each in found]


def actions(manifests: Sequence[Manifest]) -> list[Action]:
    return [
        action
        for manifest in manifests
        for statement in manifest.statements
        for action in statement.actions
    ]


def entry(manifest: Manifest, name: str) -> TableChanges:
    (found,) = (each for each in manifest.tables if each.table == name and not each.dropped)
    return found


def fields(table: TableChanges) -> dict[str, int]:
    schema = table.state.schema
    assert schema is not None
    return {field.name: field.id for field in schema.fields}


T = "CREATE TABLE t (id INT PRIMARY KEY, a INT, n INT)"
GHOST = [
    "CREATE TABLE _t_gho LIKE t",
    "ALTER TABLE _t_gho ADD c INT NOT NULL DEFAULT 7",
    "INSERT INTO _t_gho (id, a, n) SELECT id, a, n FROM t",
]


def test_a_chain_of_names_over_several_ranges(database: Database) -> None:
    log = Captured(database)
    log.run(T, "INSERT INTO t VALUES (1, 1, 1)")
    log.run("RENAME TABLE t TO u")
    log.run("ALTER TABLE u DROP n, ADD n INT, RENAME TO v")
    log.run("INSERT INTO v VALUES (2, 2, 2)")
    log.run("CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    log.run("RENAME TABLE v TO x, other TO v, x TO other")
    log.run("INSERT INTO other VALUES (3, 3, 3)", "INSERT INTO v VALUES (2)")

    manifests = log.manifests()

    first, last = entry(manifests[0], "t"), entry(manifests[-1], "other")
    assert first.id == last.id
    assert fields(first) == {"id": 1, "a": 2, "n": 3}
    assert fields(last) == {"id": 1, "a": 2, "n": 4}
    assert entry(manifests[-1], "v").id == entry(manifests[4], "other").id
    assert {each.created for each in (first, last)} == {1}


def test_a_ghost_table_takes_the_name(database: Database) -> None:
    log = Captured(database)
    log.run(T, "INSERT INTO t VALUES (1, 1, 1)")
    log.run(*GHOST)
    log.run("RENAME TABLE t TO _t_del, _t_gho TO t", "INSERT INTO t VALUES (2, 2, 2, 2)")
    log.run("DROP TABLE _t_del")

    manifests = log.manifests()

    old, ghost = entry(manifests[0], "t"), entry(manifests[1], "_t_gho")
    assert entry(manifests[2], "t").id == ghost.id != old.id
    assert ghost.created == 2
    assert actions(manifests[2:]) == [
        RenameTable(old.id, (database.name, "t"), (database.name, "_t_del")),
        RenameTable(ghost.id, (database.name, "_t_gho"), (database.name, "t")),
        DropTable(old.id, (database.name, "_t_del")),
    ]


def test_dropped_replaced_and_truncated_tables(database: Database) -> None:
    log = Captured(database)
    log.run(T, "INSERT INTO t VALUES (1, 1, 1)", "DROP TABLE t")
    log.run("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    log.run("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY)", "TRUNCATE t")
    log.run("INSERT INTO t VALUES (1)")

    manifests = log.manifests()

    (one,) = manifests[0].tables
    two = entry(manifests[1], "t")
    assert one.dropped
    assert one.id != two.id == entry(manifests[3], "t").id
    assert [type(each) for each in actions(manifests)] == [
        CreateTable, DropTable, CreateTable, TruncateTable,
    ]  # fmt: skip


def test_a_statement_that_is_not_logged_shows_in_the_rows(database: Database) -> None:
    log = Captured(database)
    log.run(T, "INSERT INTO t VALUES (1, 1, 1)")
    log.run(
        "SET sql_log_bin = 0",
        "ALTER TABLE t DROP n, ADD m INT DEFAULT 7",
        "SET sql_log_bin = 1",
        "INSERT INTO t VALUES (2, 2, 2)",
    )

    manifests = log.manifests()

    (statement,) = (each for each in manifests[1].statements if not each.type)
    assert re.findall("[A-Z][a-z]+", " ".join(type(e).__name__ for e in statement.actions)) == [
        "Drop", "Field", "Add", "Field",
    ]  # fmt: skip
    assert fields(entry(manifests[1], "t")) == {"id": 1, "a": 2, "m": 4}


def test_other_stops_give_the_same_ids_and_the_same_stops_the_same_bytes(
    database: Database,
) -> None:
    log = Captured(database)
    log.run(T, "INSERT INTO t VALUES (1, 1, 1)")
    log.run("ALTER TABLE t DROP n, ADD n INT", "INSERT INTO t VALUES (2, 2, 2)")
    log.run(*GHOST, "RENAME TABLE t TO u, _t_gho TO t")
    log.run("UPDATE t SET a = 9", "TRUNCATE u", "DELETE FROM t", "DROP TABLE u")

    whole, steps = log.manifests(log.bounds[-1:]), log.manifests()
    first = log.store
    again = log.manifests()

    assert actions(whole) == actions(steps)
    assert {each.id for each in whole[0].tables} == {t.id for m in steps for t in m.tables}
    assert again == steps
    for manifest in steps:
        for table in manifest.tables:
            for part in table.parts:
                assert first.read(f"shop/{part.path}") == log.store.read(f"shop/{part.path}")
