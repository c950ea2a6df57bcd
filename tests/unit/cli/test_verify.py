"""`rows --verify`: everything is read, and what capture would refuse is named, all of it."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.cli.commands import main
from airflow_provider_binlog.cli.source import Range
from airflow_provider_binlog.cli.verify import Refusals
from airflow_provider_binlog.cli.verify import verify as verify_range
from airflow_provider_binlog.errors import (
    AccessDeniedError,
    FormatError,
    TableLockedError,
    UnsupportedError,
)
from tests.support import builder
from tests.support.builder import BinlogFile
from tests.support.logs import TABLES, Made, a_table, insert
from tests.support.table_map_builder import table_map
from tests.unit.cli.served import FIRST, Served

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.errors import BinlogError


A, B = TABLES[:2]
NAMELESS = a_table("nameless", "id", table_id=7)
NAMELESS = replace(NAMELESS, columns=(replace(NAMELESS.columns[0], name=None),))
BEGIN = (EventType.QUERY, builder.query("BEGIN"))


def changes(table: TableMap, *ids: int) -> list[tuple[int, bytes]]:
    made: Made = insert(table, ids)
    return [(EventType.TABLE_MAP, table_map(table)), (made.type, made.body)]


def verify(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["rows", "--verify", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def write(folder: Path, *files: BinlogFile) -> Path:
    for number, file in enumerate(files, 1):
        (folder / f"binlog.{number:06}").write_bytes(bytes(file))
    return folder


def test_a_log_that_capture_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = BinlogFile(timestamp=1_700_000_000)
    file.add_transaction(1, changes(A, 1, 2, 3))
    file.add_transaction(2, [*changes(A, 4), *changes(B, 5)])
    size = len(file.data)

    code, out, err = verify(capsys, write(tmp_path, file))

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"read      1 files, {size - 4} bytes: binlog.000001:4 to binlog.000001:{size}",
        "time      2023-11-14 22:13:20 to 2023-11-14 22:13:20 UTC",
        "executed  -",
        "events    13",
        "  TABLE_MAP                                3",
        "  WRITE_ROWS                               3",
        "  QUERY                                    2",
        "  XID                                      2",
        "  GTID                                     2",
        "  FORMAT_DESCRIPTION                       1",
        "rows      5 in 2 tables",
        "  shop.a                                   4  4 inserts",
        "  shop.b                                   1  1 inserts",
        "refused   0",
    ]


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_program_reads_counts_and_refusals(
    form: str, read: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BinlogFile(timestamp=1_700_000_000)
    file.add_transaction(1, changes(A, 1, 2))
    incident = file.add(EventType.INCIDENT, builder.incident("lost"))

    code, out, err = verify(capsys, write(tmp_path, file), "-o", form)

    report = read(out)
    assert (code, report["bytes"]) == (1, len(file.data) - 4)
    assert "refused=1)" in err
    assert report["times"] == ["2023-11-14 22:13:20"] * 2
    assert report["tables"] == {"shop.a": {"inserts": 2}}
    assert report["events"]["WRITE_ROWS"] == 1
    (refused,) = report["refused"]
    assert (refused["position"], refused["count"]) == (f"binlog.000001:{incident}", 1)
    assert "the server lost events" in refused["reason"]


def test_executed_gtids_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = BinlogFile(builder.MARIADB)
    file.add(EventType.MARIADB_GTID_LIST, builder.mariadb_gtid_list([(0, 1, 7)]))
    file.add_mariadb_transaction(8, [])
    file.add_mariadb_transaction(3, [], domain=5)

    _, out, _ = verify(capsys, write(tmp_path, file))

    assert "executed  0-1-8,5-1-3\n" in out


def test_everything_refused_is_named_and_the_rest_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BinlogFile()
    file.add_transaction(1, changes(A, 1))
    file.add(EventType.GTID, builder.gtid(2))
    file.add(EventType.QUERY, builder.query("BEGIN"))
    statement = file.add(EventType.QUERY, builder.query("DELETE FROM a"))
    file.add(EventType.XID, builder.xid(2))
    nameless = file.add_transaction(3, changes(NAMELESS, 1))
    file.add_transaction(4, changes(NAMELESS, 2))
    file.add_transaction(5, changes(B, 9))
    incident = file.add(EventType.INCIDENT, builder.incident("lost"))
    file.add_transaction(6, changes(A, 2))

    code, out, err = verify(capsys, write(tmp_path, file))

    refused = out.partition("refused ")[2].splitlines()
    assert code == 1
    assert "refused=4)" in err
    assert refused[0].strip() == "4"
    assert f"binlog.000001:{statement}  " in refused[1]
    assert "binlog_format" in refused[1]
    assert "DELETE FROM a" in refused[1]
    # The order is that of the log within a block of it, walked first for its transactions.
    offsets = {line.split()[0]: line for line in refused[1:] if ":" in line.split()[0]}
    assert "the server lost events" in offsets[f"binlog.000001:{incident}"]
    (of_table,) = [line for line in refused if "shop.nameless" in line]
    assert "binlog_row_metadata" in of_table
    assert int(of_table.split()[0].partition(":")[2]) > nameless
    assert of_table.endswith("(2 times)")
    assert "  shop.nameless                            2  2 inserts" in out
    assert "  shop.a                                   2  2 inserts" in out
    assert "  shop.b                                   1  1 inserts" in out


def test_a_table_that_is_left_out_is_not_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BinlogFile()
    file.add_transaction(1, [*changes(NAMELESS, 1), *changes(A, 1)])

    code, out, _ = verify(capsys, write(tmp_path, file), "--table", "shop.a")

    assert code == 0
    assert "rows      1 in 1 tables" in out


def test_rows_before_a_damaged_one_and_those_of_other_tables_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BinlogFile()
    file.add_transaction(1, changes(A, 1, 2))
    mapped, (code, body) = changes(A, 3)
    file.add_transaction(2, [mapped, (code, body[:-1])])
    damaged = file.offsets[-2]
    file.add_transaction(3, [*changes(A, 4), *changes(B, 4)])

    exit_code, out, _ = verify(capsys, write(tmp_path, file))

    assert exit_code == 1
    assert "  shop.a                                   2  2 inserts" in out
    assert "  shop.b                                   1  1 inserts" in out
    assert f"  binlog.000001:{damaged}  " in out
    assert "not decoded: WRITE_ROWS, 2 events" in out


def test_the_transaction_after_rows_without_a_table_map_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BinlogFile()
    file.add_transaction(1, changes(A, 1))
    made = insert(B, [2])
    file.add_transaction(2, [(made.type, made.body)])
    lonely = file.offsets[-2]
    file.add_transaction(3, changes(A, 3))

    code, out, _ = verify(capsys, write(tmp_path, file))

    assert code == 1
    assert f"binlog.000001:{lonely}  a rows event without the TABLE_MAP" in out
    assert "  shop.a                                   2  2 inserts" in out


def test_the_file_after_a_damaged_one_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for number in range(3):
        file = BinlogFile()
        file.add_transaction(number + 1, changes(A, number))
        files.append(file)
    files[1].data[-3] ^= 1
    write(tmp_path, *files)
    third = tmp_path / "binlog.000003"
    (tmp_path / "binlog.000003.gz").write_bytes(gzip.compress(third.read_bytes())[:-30])
    third.unlink()

    code, out, err = verify(capsys, tmp_path)

    assert code == 1
    assert "refused=2)" in err
    assert "  shop.a                                   1  1 inserts" in out
    assert "an event is damaged" in out
    assert "the gzip file ends early" in out


def test_a_table_of_a_damaged_event_is_not_decoded_further(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BinlogFile()
    mapped, (code, body) = changes(A, 3)
    for number in range(1, 4):
        file.add_transaction(number, [mapped, (code, body[:-1])])

    _, out, _ = verify(capsys, write(tmp_path, file))

    assert "refused   1\n" in out
    assert "not decoded: WRITE_ROWS, 3 events" in out


def test_xa_is_counted_where_it_is_committed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BinlogFile()
    for number, name in ((1, "one"), (2, "two")):
        xid = f"X'{name.encode().hex()}',X'',1"
        file.add(EventType.GTID, builder.gtid(number))
        file.add(EventType.QUERY, builder.query(f"XA START {xid}"))
        for code, body in changes(A, number):
            file.add(code, body)
        file.add(EventType.QUERY, builder.query(f"XA END {xid}"))
        file.add(EventType.XA_PREPARE, builder.xa_prepare(name.encode()))
    file.add(EventType.GTID, builder.gtid(3))
    file.add(EventType.QUERY, builder.query(f"XA COMMIT X'{b'one'.hex()}',X'',1"))
    file.add(EventType.GTID, builder.gtid(4))
    unknown = file.add(EventType.QUERY, builder.query("XA COMMIT X'99',X'',1"))

    code, out, _ = verify(capsys, write(tmp_path, file))

    assert code == 1
    assert "  shop.a                                   1  1 inserts" in out
    assert f"prepared  X'{b'two'.hex()}',X'',1 at binlog.000001:" in out
    assert "in doubt: shop.a" in out
    assert f"binlog.000001:{unknown}  XA COMMIT of a transaction that was prepared before" in out


def statement(sql: str) -> tuple[int, bytes]:
    return EventType.QUERY, builder.query(sql)


def verify_served(capsys: pytest.CaptureFixture[str], log: Served) -> tuple[int, str]:
    """Return how much was refused, and what was printed."""
    refused = 0
    try:
        verify_range(Range(log, FIRST, None), None)
    except UnsupportedError as error:
        refused = int(str(error.context["refused"]))
    return refused, capsys.readouterr().out


def test_a_rollback_to_a_savepoint_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = BinlogFile()
    back = statement("ROLLBACK TO `s`")
    file.add_transaction(
        1, [*changes(A, 1), statement("SAVEPOINT `s`"), *changes(A, 2), back, *changes(A, 3)]
    )
    offset = file.offsets[-4]

    code, out, _ = verify(capsys, write(tmp_path, file))
    in_pieces = verify_served(capsys, Served(file))

    assert code == 1
    assert f"  binlog.000001:{offset}  a transaction was rolled back to a savepoint, and" in out
    assert "  shop.a                                   3  3 inserts" in out
    assert in_pieces == (1, out)


def test_a_server_names_what_its_log_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    file = BinlogFile()
    file.add_transaction(1, [*changes(NAMELESS, 1), *changes(A, 1)])
    file.add(EventType.GTID, builder.gtid(2))
    file.add(EventType.QUERY, builder.query("ALTER TABLE other RENAME COLUMN id TO x"))
    file.add_transaction(3, changes(NAMELESS, 2))

    refused, out = verify_served(capsys, Served(file, nameless="x", a="id x"))

    assert refused == 0
    assert "  shop.nameless                            2  2 inserts" in out
    assert "  shop.a                                   1  1 inserts" in out


@pytest.mark.parametrize(
    "failure", [AccessDeniedError("not for you"), TableLockedError("held", table="shop.nameless")]
)
def test_a_server_that_fails_is_not_asked_again(
    failure: BinlogError, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BinlogFile()
    for number in range(1, 121):
        file.add_transaction(number, [*changes(NAMELESS, number), *changes(A, number)])
    log = Served(file, nameless="id")
    log.fail(failure)

    refused, out = verify_served(capsys, log)

    assert log.asked == 1
    assert refused >= 120
    assert failure.args[0] in out
    assert "there is no server" not in out
    assert "  shop.nameless                          120  120 inserts" in out
    assert "  shop.a                                 120  120 inserts" in out


def test_one_reason_of_one_table_is_one_line() -> None:
    refusals = Refusals()
    refusals.file = "f.1"
    for offset in (4, 8):
        refusals.add(UnsupportedError("no", table="a.b", file="f.1", offset=offset))
    refusals.file = "f.2"
    refusals.add(UnsupportedError("no", table="a.c"), times=3)
    refusals.file = "f.3"
    refusals.add(FormatError("damaged", log_pos=7, wanted=2))

    assert refusals.describe() == [
        {"position": "f.1:4", "reason": "no (table=a.b)", "count": 2},
        {"position": "f.2", "reason": "no (table=a.c)", "count": 3},
        {"position": "f.3", "reason": "damaged (wanted=2)", "count": 1},
    ]
    assert refusals.counts.total() == 6
