"""The statements of a log that took effect; after a range all of them, however it is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_binlog.binlog.header import THREAD_SPECIFIC, EventType
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from airflow_provider_binlog.schema_history.statements import (
    LoggedChange,
    changes_of,
    read_statements,
)
from airflow_provider_binlog.sql.ddl import Altered, Created, Dropped, TableChange, Truncated
from airflow_provider_binlog.sql.definitions import (
    AddColumn,
    Opaque,
)
from tests.support import builder
from tests.support.logs import TABLES, Made, insert, maps, query, write_files
from tests.support.statements import a_statement
from tests.unit.capture.staging import CutSource, end_of

NAME = "binlog.000001"
T = ("shop", "t")
CUTS = pytest.mark.parametrize("cut", [(), range(60)], ids=["whole", "single"])


def changes_between(source: CutSource, start: Position, stop: Position) -> list[LoggedChange]:
    return [each for logged in read_statements(source, start, stop) for each in changes_of(logged)]


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
    assert (found[-1].file, found[-1].offset) == (NAME, last)
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

    change = found[0].change
    assert len(found) == 1
    assert isinstance(change, Altered)
    (added,) = change.alterations
    assert isinstance(added, AddColumn)
    assert added.name == "c2"


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


def statement(sql: str) -> Made:
    """Return a statement of a session that uses a temporary table."""
    return Made(EventType.QUERY, builder.query(sql), flags=THREAD_SPECIFIC)


UNCLEAR = (Opaque("it may be about a temporary table of the same name"),)


@pytest.mark.parametrize("flavor", Flavor)
def test_a_statement_that_used_a_temporary_table_may_be_about_it(flavor: Flavor) -> None:
    statements = [
        statement("CREATE TEMPORARY TABLE t (a int)"),
        *(statement(f"{sql} t") for sql in ("TRUNCATE", "CREATE INDEX i ON", "DROP INDEX i ON")),
        statement("ALTER TABLE t DROP a, RENAME TO v"),
        # CREATE and DROP TABLE say what they are about.
        statement("DROP TABLE t"),
        statement("CREATE TABLE t (a int PRIMARY KEY)"),
        statement("DROP TEMPORARY TABLE t"),
    ]

    *found, created = found_changes(statements, flavor)

    # A plain index is nothing; the one that is dropped may be a unique key.
    assert found == [*[Altered(T, UNCLEAR)] * 3, Dropped(T)]
    assert isinstance(created, Created)


def test_a_statement_of_mysql_with_a_transaction_is_about_a_base_table() -> None:
    logged = a_statement("TRUNCATE t")
    used = replace(logged.query, used_temporary=True)

    unclear, plain = (
        replace(logged, query=query).ddl for query in (used, replace(used, ddl_xid=7))
    )

    assert unclear is not None
    assert plain is not None
    assert unclear.changes == (Altered(T, UNCLEAR),)
    assert plain.changes == (Truncated(T),)


def test_a_statement_that_failed_half_way_did_something_unknown() -> None:
    failed = a_statement("DROP TABLE t, u", error=5)

    first, second = (each.change for each in changes_of(failed))

    assert isinstance(first, Altered)
    assert isinstance(second, Altered)
    assert isinstance(first.alterations[0], Opaque)
    assert (first.table, second.table) == (("shop", "t"), ("shop", "u"))
