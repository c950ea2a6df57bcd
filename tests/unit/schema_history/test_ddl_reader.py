"""The statements of a log that took effect; after a range all of them, however it is cut."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from airflow_provider_binlog.schema_history.ddl_reader import changes_between, changes_of
from airflow_provider_binlog.sql.alterations import (
    AddColumn,
    AddPrimaryKey,
    DropColumn,
    DropPrimaryKey,
    Opaque,
)
from airflow_provider_binlog.sql.ddl import Altered, Created, Dropped, Renamed, TableChange
from tests.support import builder
from tests.support.logs import TABLES, Made, insert, maps, query, write_files
from tests.support.statements import a_statement
from tests.unit.capture.staging import CutSource, end_of

NAME = "binlog.000001"
T, V, W, X = (("shop", name) for name in "tvwx")
CUTS = pytest.mark.parametrize("cut", [(), range(60)], ids=["whole", "single"])


def gtid(number: int) -> Made:
    return Made(EventType.GTID, builder.gtid(number))


@CUTS
def test_only_statements_are_read(cut: range) -> None:
    rows = [query("BEGIN"), maps(TABLES[0], Flavor.MYSQL), insert(TABLES[0], [1])]
    # What a range would refuse is no matter of this one.
    incident = Made(EventType.INCIDENT, builder.incident("lost"))
    events = [
        *(gtid(1), *rows, Made(EventType.XID, builder.xid(1))),
        *(gtid(2), query("DROP TABLE t")),
        incident,
        *(gtid(3), query("GRANT ALL ON *.* TO x")),
        *(gtid(4), query("TRUNCATE u")),
        *(gtid(5), query("DROP TABLE u")),
    ]
    files = write_files([events], Flavor.MYSQL)
    source = CutSource(files, {NAME: cut})

    found = list(changes_between(source, Position(NAME, FIRST_OFFSET), end_of(files)))

    assert [each.change for each in found] == [Dropped(("shop", "t")), Dropped(("shop", "u"))]
    (file,) = files.values()
    last = file.offsets[-1]
    assert found[-1][1:3] == (NAME, last)
    before = changes_between(source, Position(NAME, FIRST_OFFSET), Position(NAME, last))
    assert len(list(before)) == 1
    assert list(changes_between(source, end_of(files), end_of(files))) == []


@CUTS
def test_of_two_phases_the_second_counts(cut: range) -> None:
    def phase(number: int, extra: bytes) -> list[Made]:
        body = builder.mariadb_gtid(number, flags=0x29, extra=extra)
        return [Made(EventType.MARIADB_GTID, body), query(f"ALTER TABLE t ADD c{number} int")]

    events = [*phase(1, b"\x02"), *phase(2, b"\x04" + bytes(8))]
    events += [*phase(3, b"\x02"), *phase(4, b"\x08" + bytes(8))]
    files = write_files([events], Flavor.MARIADB)

    found = changes_between(
        CutSource(files, {NAME: cut}), Position(NAME, FIRST_OFFSET), end_of(files)
    )

    ((*_, change),) = found
    assert isinstance(change, Altered)
    (added,) = change.alterations
    assert isinstance(added, AddColumn)
    assert added.name == "c2"


@CUTS
def test_statements_on_temporary_tables_that_are_logged_are_about_no_other_table(
    cut: range,
) -> None:
    statements = [
        (1, "CREATE TEMPORARY TABLE t (a int)"),
        (1, "ALTER TABLE t DROP a"),
        (1, "CREATE INDEX i ON t (a)"),
        (1, "ALTER TABLE t DROP a, RENAME TO u"),
        (1, "DROP TABLE t"),
        (2, "DROP TABLE u"),
        (1, "ALTER TABLE u RENAME v"),
        (1, "ALTER TABLE u DROP b"),
        (1, "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `v`"),
        (1, "DROP INDEX `PRIMARY` ON v"),
        (1, "CREATE TABLE t (PRIMARY KEY (a))"),
        (3, "DROP TEMPORARY TABLE"),
        (3, "ALTER TABLE t DROP c"),
    ]
    events = [
        made
        for number, (session, sql) in enumerate(statements)
        for made in (gtid(number + 1), Made(EventType.QUERY, builder.query(sql, thread_id=session)))
    ]
    files = write_files([events], Flavor.MYSQL)

    found = changes_between(
        CutSource(files, {NAME: cut}), Position(NAME, FIRST_OFFSET), end_of(files)
    )

    t, u, v = (("shop", name) for name in "tuv")
    assert [each.change for each in found] == [
        Dropped(t),
        Dropped(u),
        Altered(u, (DropColumn("b"),)),
        Altered(v, (DropPrimaryKey(),)),
        Created(t, (AddPrimaryKey((("a", 0),)),)),
        Altered(t, (DropColumn("c"),)),
    ]


def test_temporary_tables_end_with_the_server() -> None:
    def statement(number: int, sql: str) -> list[Made]:
        return [gtid(number), Made(EventType.QUERY, builder.query(sql, thread_id=1))]

    created = statement(1, "CREATE TEMPORARY TABLE t (a int)")
    logs = [created, statement(2, "ALTER TABLE t DROP a"), statement(3, "DROP INDEX i ON t")]
    for started, count in (((1,), 0), ((3,), 1), ((2,), 2)):
        files = write_files(logs, Flavor.MYSQL, started=started)
        source = CutSource(files, {})

        found = list(changes_between(source, Position(NAME, FIRST_OFFSET), end_of(files)))

        assert len(found) == count


def found_changes(statements: list[Made], flavor: Flavor) -> list[TableChange]:
    """Return what statements change, each of them logged as a transaction of its own."""
    is_mysql = flavor is Flavor.MYSQL
    events = [
        made
        for number, each in enumerate(statements, start=1)
        for made in (
            gtid(number)
            if is_mysql
            else Made(EventType.MARIADB_GTID, builder.mariadb_gtid(number, flags=0x29)),
            each,
        )
    ]
    files = write_files([events], flavor)
    found = changes_between(CutSource(files, {}), Position(NAME, FIRST_OFFSET), end_of(files))
    return [each.change for each in found]


def statement(sql: str, *, session: int = 1, server_id: int = 1, error: int = 0) -> Made:
    body = builder.query(sql, thread_id=session, error=error)
    return Made(EventType.QUERY, body, server_id=server_id)


def test_a_statement_that_has_the_word_temporary_in_it_is_about_no_temporary_table() -> None:
    statements = [
        statement("CREATE UNIQUE INDEX is_temporary ON t (a)"),
        statement("ALTER TABLE t DROP b"),
        statement("DROP INDEX is_temporary ON t"),
    ]

    assert len(found_changes(statements, Flavor.MYSQL)) == 3


def test_a_temporary_table_hides_no_table_from_the_same_session_id_of_another_server() -> None:
    statements = [
        statement("CREATE TEMPORARY TABLE t (a int)", server_id=1),
        statement("ALTER TABLE t DROP b", server_id=2),
        statement("ALTER TABLE t DROP a", server_id=1),
    ]

    assert found_changes(statements, Flavor.MYSQL) == [Altered(T, (DropColumn("b"),))]


def test_a_temporary_table_whose_creation_failed_hides_no_table() -> None:
    statements = [
        statement("CREATE TEMPORARY TABLE t SELECT 1", error=1),
        statement("ALTER TABLE t DROP b"),
    ]

    assert found_changes(statements, Flavor.MYSQL) == [Altered(T, (DropColumn("b"),))]


@pytest.mark.parametrize(
    ("flavor", "renames"),
    [
        # The table of this name, which the temporary one hides from all other statements.
        (Flavor.MYSQL, [Renamed(T, V)]),
        (Flavor.MARIADB, []),
    ],
)
def test_rename_table_renames_a_temporary_table_of_mariadb(
    flavor: Flavor, renames: list[TableChange]
) -> None:
    statements = [
        statement("CREATE TEMPORARY TABLE t (a int)"),
        statement("RENAME TABLE t TO v"),
        statement("RENAME TABLE w TO x"),
    ]

    assert found_changes(statements, flavor) == [*renames, Renamed(W, X)]


def test_a_statement_that_failed_half_way_did_something_unknown() -> None:
    failed = a_statement("DROP TABLE t, u", error=5)

    first, second = (each.change for each in changes_of(failed))

    assert isinstance(first, Altered)
    assert isinstance(second, Altered)
    assert isinstance(first.alterations[0], Opaque)
    assert (first.table, second.table) == (("shop", "t"), ("shop", "u"))
