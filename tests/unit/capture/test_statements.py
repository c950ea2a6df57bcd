"""Statements in a log: those on captured tables are reported, each at its coordinates, and once."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.manifest import Statement
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import TruncateTable, new_table_id
from tests.support import builder
from tests.support.logs import Made, query, write_files
from tests.unit.capture.staging import CutSource, capture, end_of

T = ("shop", "t")


def read(events: list[Made], flavor: Flavor, cut: list[int], *tables: str) -> tuple[Statement, ...]:
    files = write_files([events], flavor)
    source = CutSource(files, dict.fromkeys(files, cut))
    captured = TableFilter(tables or ["*.*"])
    return capture(source, end_of(files), flavor=flavor, tables=captured).statements


def gtid(number: int) -> Made:
    return Made(EventType.GTID, builder.gtid(number))


def test_its_row_number_is_that_of_its_event() -> None:
    files = write_files([[gtid(1)], [gtid(2), query("TRUNCATE t")]], Flavor.MYSQL)
    offset = files["binlog.000002"].offsets[-1]

    (found,) = capture(CutSource(files, {}), end_of(files)).statements

    assert found == Statement(
        file="binlog.000002",
        offset=offset,
        row=(1 << 44) + offset,
        type="TRUNCATE TABLE",
        text="TRUNCATE t",
        actions=(TruncateTable(new_table_id("a-server", "binlog.000002", offset, T)),),
        commit_ts=1_700_000_000_000_000,
    )


@pytest.mark.parametrize(
    ("tables", "found"),
    [(["shop.t"], 2), (["shop.*"], 2), (["crm.*"], 1), (["shop.u"], 1), (["x.*"], 0)],
)
def test_only_those_on_captured_tables(tables: list[str], found: int) -> None:
    events = [gtid(1), query("DROP TABLE t, crm.x"), gtid(2), query("DROP DATABASE shop")]

    assert len(read(events, Flavor.MYSQL, [], *tables)) == found


def test_a_statement_that_failed_half_way_is_refused_on_captured_tables() -> None:
    body = bytearray(builder.query("DROP TABLE t"))
    body[9] = 5  # the error code
    events = [gtid(1), Made(EventType.QUERY, bytes(body))]

    assert read(events, Flavor.MYSQL, [], "crm.*") == ()
    with pytest.raises(UnsupportedError, match=r"half-way.*error=5.*file=binlog.000001, offset="):
        read(events, Flavor.MYSQL, [], "shop.*")


@pytest.mark.parametrize("cut", [[], list(range(20))])
def test_an_alter_table_in_two_phases_is_reported_once(cut: list[int]) -> None:
    # START_ALTER, then COMMIT_ALTER; then one that is rolled back.
    def phase(number: int, extra: bytes) -> list[Made]:
        body = builder.mariadb_gtid(number, flags=0x29, extra=extra)
        return [Made(EventType.MARIADB_GTID, body), query(f"ALTER TABLE t ADD c{number} int")]

    begun, committed = phase(1, b"\x02"), phase(2, b"\x04" + bytes(8))
    begun_too, rolled_back = phase(3, b"\x02"), phase(4, b"\x08" + bytes(8))

    found = read([*begun, *committed, *begun_too, *rolled_back], Flavor.MARIADB, cut)

    assert [each.text for each in found] == ["ALTER TABLE t ADD c2 int"]
