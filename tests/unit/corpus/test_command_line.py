"""Every log of the corpus through the command line: rows are printed as they are staged."""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.changes import CHANGE_TYPE, FILE, ROW
from airflow_provider_binlog.cli.commands import main
from tests.corpus.capture import capture
from tests.corpus.case import Recorded, recorded
from tests.support.mysqlbinlog import microseconds

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_binlog.schema import Field

READ = [log for log in recorded() if log.case.refused is None]

# Changes are printed in the order of the log, also those that are rolled back later: the id and
# value of their rows, by case.
ROLLED_BACK = {"xa": [("update_preimage", 2, 2), ("update_postimage", 2, 20)]}


def paths(log: Recorded) -> list[str]:
    return [str(file) for file in log.files]


def printed(log: Recorded, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["rows", *paths(log)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("log", [log for log in READ if log.case.name not in ROLLED_BACK], ids=str)
def test_rows_prints_what_is_staged(
    log: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    staged = capture(log, tmp_path)

    lines = printed(log, capsys)

    assert [heading(line) for line in lines] == [
        (each.table, each.row[CHANGE_TYPE], each.row[FILE], each.row[ROW]) for each in staged
    ]
    for line, change in zip(lines, staged, strict=True):
        columns = {field.name: field for field in change.schema.fields}
        values = {name: read(value, columns[name]) for name, value in line["values"].items()}
        assert values == change.values


def heading(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["table"], line["change"], line["file"], line["row"]


def test_rows_prints_images_that_lack_generated_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (log,) = [each for each in recorded() if each.case.name == "generated_columns_in_inserts"]

    values = [line["values"] for line in printed(log, capsys)]

    assert values[0] == {"id": 1, "a": 1, "hidden": 9, "twice": 2, "thrice": 3}
    assert values[3] == {"id": 1, "a": 5, "hidden": 8}


@pytest.mark.parametrize("log", [log for log in READ if log.case.name in ROLLED_BACK], ids=str)
def test_rows_prints_what_is_rolled_back_too(
    log: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    staged = Counter(
        (each.table, each.row[CHANGE_TYPE], *each.values.values())
        for each in capture(log, tmp_path)
    )

    lines = Counter(
        (each["table"], each["change"], *each["values"].values()) for each in printed(log, capsys)
    )

    assert lines == staged + Counter(("corpus.t", *each) for each in ROLLED_BACK[log.case.name])


@pytest.mark.parametrize("log", recorded(), ids=str)
def test_verify_refuses_what_capture_refuses(
    log: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["rows", "--verify", *paths(log)])

    report = capsys.readouterr().out
    assert code == (0 if log.case.refused is None else 1)
    assert (log.case.refused or "refused   0\n") in report


def read(value: Any, column: Field) -> Any:
    """Return a printed value as it is staged."""
    if value is None:
        return None
    if column.arrow_type == "int64" and isinstance(value, str):
        return microseconds(value)
    mysql_type, arrow_type = column.mysql_type or "", column.arrow_type or ""
    if mysql_type.startswith("bit") and arrow_type == "binary":
        return int(value).to_bytes((int(mysql_type[4:-1]) + 7) // 8, "big")
    return READERS.get(arrow_type.partition("(")[0], lambda each: each)(value)


def read_bytes(value: dict[str, Any]) -> bytes:
    if "srid" in value:
        return int(value["srid"]).to_bytes(4, "little") + bytes.fromhex(value["wkb"])
    return base64.b64decode(value["base64"], validate=True)


def read_float(value: float) -> float:
    (single,) = struct.unpack("<f", struct.pack("<f", value))
    return float(single)


READERS: dict[str, Callable[[Any], Any]] = {
    "binary": read_bytes,
    "date32[day]": date.fromisoformat,
    "decimal128": Decimal,
    "float": read_float,
    "timestamp[us]": datetime.fromisoformat,
    "timestamp[us, tz=UTC]": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
}
"""By the type of what is staged; all others are printed as they are."""
