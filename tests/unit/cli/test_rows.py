"""`rows`: what of a change is printed beyond its values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.cli.commands import main
from tests.support import builder
from tests.support.builder import BinlogFile
from tests.support.compression import inner_events, payload, zstd
from tests.support.logs import Made, insert
from tests.support.table_map_builder import table_map
from tests.unit.cli.served import A, a_log

if TYPE_CHECKING:
    from pathlib import Path

XID = "X'61',X'',1"


def number(value: int) -> bytes:
    return value.to_bytes(4, "little")


def printed(
    file: BinlogFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    path = tmp_path / "binlog.000001"
    path.write_bytes(bytes(file))
    assert main(["rows", str(path)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_an_absent_column_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = BinlogFile()
    update = builder.rows(
        EventType.UPDATE_ROWS,
        A.table_id,
        2,
        builder.row_image([number(7)]) + builder.row_image([None]),
        present=[True, False],
        present_after=[False, True],
    )
    file.add_transaction(1, [(EventType.TABLE_MAP, table_map(A)), (EventType.UPDATE_ROWS, update)])

    before, after = printed(file, tmp_path, capsys)

    assert before["values"] == {"id": 7}
    assert after["values"] == {"id": 7, "x": None}


@pytest.mark.parametrize("version", [builder.MYSQL, builder.MARIADB])
def test_changes_of_xa_name_it(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BinlogFile(version)
    made = insert(A, [1], version=2 if version == builder.MYSQL else 1)
    if version == builder.MYSQL:
        file.add(EventType.GTID, builder.gtid(1))
        file.add(EventType.QUERY, builder.query(f"XA START {XID}"))
    else:
        gtid = builder.mariadb_gtid(1, flags=0x4C, xa=(1, b"a", b""))
        file.add(EventType.MARIADB_GTID, gtid)
    file.add(EventType.TABLE_MAP, table_map(A))
    file.add(made.type, made.body)
    file.add(EventType.QUERY, builder.query(f"XA END {XID}"))
    file.add(EventType.XA_PREPARE, builder.xa_prepare(b"a"))
    events = [(int(EventType.TABLE_MAP), table_map(A)), (made.type, made.body)]
    if version == builder.MYSQL:
        file.add_transaction(2, events)
    else:
        file.add_mariadb_transaction(2, events)

    prepared, committed = printed(file, tmp_path, capsys)

    assert prepared["xa"] == XID
    assert "xa" not in committed


def test_changes_of_a_compressed_transaction_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BinlogFile()
    inner = inner_events(
        [
            Made(EventType.QUERY, builder.query("BEGIN")),
            Made(EventType.TABLE_MAP, table_map(A)),
            insert(A, [1, 2]),
            Made(EventType.XID, builder.xid(1)),
        ]
    )
    file.add(EventType.GTID, builder.gtid(1))
    packed = payload(zstd(inner), size=len(inner))
    at = file.add(EventType.TRANSACTION_PAYLOAD, packed.body)
    file.add_transaction(2, [(EventType.TABLE_MAP, table_map(A)), tuple_of(insert(A, [3]))])

    lines = printed(file, tmp_path, capsys)

    assert [line["values"]["id"] for line in lines] == [1, 2, 3]
    assert [line["pos"] for line in lines[:2]] == [at, at]
    rows = [line["row"] for line in lines]
    assert rows == sorted(set(rows))


def tuple_of(made: Made) -> tuple[int, bytes]:
    return made.type, made.body


def test_what_a_file_does_not_say_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(bytes(a_log("-", "ALTER TABLE a RENAME COLUMN id TO u", "-")))

    assert main(["rows", str(path)]) == 0

    out, err = capsys.readouterr()
    assert [json.loads(line)["values"] for line in out.splitlines()] == [{"@1": -1, "@2": -2}] * 2
    assert err == (
        "note: shop.a: the log does not say how its columns are called (@1, @2, ... stand for "
        "them), which integers are unsigned (all are printed as if signed)\n"
    )


def test_what_precedes_an_error_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = BinlogFile()
    for number in (1, 2):
        file.add_transaction(
            number, [(EventType.TABLE_MAP, table_map(A)), tuple_of(insert(A, [number]))]
        )
    file.add(EventType.GTID, builder.gtid(3))
    refused = file.add(EventType.QUERY, builder.query("DELETE FROM a"))
    file.add_transaction(4, [(EventType.TABLE_MAP, table_map(A)), tuple_of(insert(A, [4]))])
    path = tmp_path / "binlog.000001"
    path.write_bytes(bytes(file))

    code = main(["rows", str(path)])

    out, err = capsys.readouterr()
    assert code == 1
    assert [json.loads(line)["values"]["id"] for line in out.splitlines()] == [1, 2]
    assert f"offset={refused}" in err
