"""The statements of a log that took effect; after a range all of them, however it is cut."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from airflow_provider_binlog.schema_history.ddl_reader import changes_between, changes_of
from airflow_provider_binlog.sql.alterations import AddColumn, Opaque
from airflow_provider_binlog.sql.ddl import Altered, Dropped
from tests.support import builder
from tests.support.logs import TABLES, Made, insert, maps, query, write_files
from tests.support.statements import a_statement
from tests.unit.capture.staging import CutSource, end_of

NAME = "binlog.000001"
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


def test_a_statement_that_failed_half_way_did_something_unknown() -> None:
    failed = a_statement("DROP TABLE t, u", error=5)

    first, second = (each.change for each in changes_of(failed))

    assert isinstance(first, Altered)
    assert isinstance(second, Altered)
    assert isinstance(first.alterations[0], Opaque)
    assert (first.table, second.table) == (("shop", "t"), ("shop", "u"))
