"""How values that a lake's types do not hold are handled: from the log to the manifest."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import BinlogError, ConfigurationError
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from airflow_provider_binlog.staging.paths import part_key
from tests.support import builder
from tests.support.logs import Made, maps, query, write_files
from tests.support.requests import a_request
from tests.unit.capture.staging import capture, end_of, file_source, new_store
from tests.unit.rows import wire

if TYPE_CHECKING:
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from tests.unit.capture.staging import Files

TABLE = TableMap(
    7,
    0,
    "shop",
    "orders",
    (
        wire.column(ColumnType.LONG, name="id", nullable=False, collation=None),
        wire.column(ColumnType.DATE, name="day", collation=None, unsigned=None),
        wire.varchar(40, name="note"),
    ),
    ((0, 0),),
)
ROWS: list[list[Any]] = [
    [1, (2024, 2, 29), b"good"],
    [2, (0, 0, 0), b"good"],
    [3, None, b"bad \xff"],
    [4, (2023, 2, 31), b"\xc3"],
]


def a_log(rows: list[list[Any]]) -> Files:
    """Return a log with a transaction per row."""
    events = []
    for number, row in enumerate(rows, start=1):
        events += [
            Made(EventType.GTID, builder.gtid(number)),
            query("BEGIN"),
            maps(TABLE, Flavor.MYSQL),
            Made(
                EventType.WRITE_ROWS,
                builder.rows(EventType.WRITE_ROWS, 7, 3, wire.image(TABLE, row), flags=1),
            ),
            Made(EventType.XID, builder.xid(number)),
        ]
    return write_files([events], Flavor.MYSQL)


def staged(policies: Policies, rows: list[list[Any]]) -> tuple[Manifest, list[tuple[Any, ...]]]:
    """Return the manifest, and the table's columns of the staged rows."""
    files, store = a_log(rows), new_store()
    manifest = capture(file_source(files), end_of(files), store=store, policies=policies)
    assert Manifest.decode(manifest.encode()) == manifest
    return manifest, _rows(manifest, store)


def _rows(manifest: Manifest, store: ObjectStore) -> list[tuple[Any, ...]]:
    (table,) = manifest.tables
    (part,) = table.parts
    read = pq.read_table(io.BytesIO(store.read(part_key("shop", part.path))))
    columns = [field.name for field in table.schemas[0].fields]
    return list(zip(*(read[name].to_pylist() for name in columns), strict=True))


@pytest.mark.parametrize(
    ("invalid_text", "notes", "arrow_type", "counted"),
    [
        (InvalidText.REPLACE, ["good", "good", "bad \ufffd", "\ufffd"], "string", {"note": 2}),
        (InvalidText.BINARY, [b"good", b"good", b"bad \xff", b"\xc3"], "binary", {}),
    ],
)
def test_invalid_text(
    invalid_text: InvalidText, notes: list[Any], arrow_type: str, counted: dict[str, int]
) -> None:
    manifest, rows = staged(Policies(invalid_text=invalid_text), ROWS)

    assert [note for _, _, note in rows] == notes
    (table,) = manifest.tables
    assert manifest.invalid_text is invalid_text
    assert table.schemas[0].fields[2].arrow_type == arrow_type
    assert table.schemas[0].fields[2].charset == "utf8mb4"
    assert table.invalid_text == counted
    assert table.unrepresentable == {"day": 2}
    assert table.parts[0].replaced == counted | {"day": 2}


def test_zero_dates_as_text() -> None:
    policies = Policies(ZeroDates.TEXT, InvalidText.REPLACE)
    manifest, rows = staged(policies, ROWS)

    assert [day for _, day, _ in rows] == ["2024-02-29", "0000-00-00", None, "2023-02-31"]
    assert manifest.zero_dates is ZeroDates.TEXT
    assert manifest.tables[0].unrepresentable == {}
    assert manifest.tables[0].schemas[0].fields[1].mysql_type == "date"


@pytest.mark.parametrize(
    ("policies", "column", "row"),
    [
        (Policies(), "note", 2),
        (Policies(ZeroDates.FAIL, InvalidText.REPLACE), "day", 1),
        (Policies(zero_dates=ZeroDates.TEXT), "note", 2),
    ],
)
def test_what_is_refused_says_where(policies: Policies, column: str, row: int) -> None:
    files = a_log(ROWS)
    # Of each transaction the fourth event, after the file's first two.
    offset = files["binlog.000001"].offsets[2 + 5 * row + 3]

    with pytest.raises(BinlogError) as refused:
        capture(file_source(files), end_of(files), policies=policies)

    assert refused.value.context == {
        "table": "shop.orders",
        "column": column,
        "file": "binlog.000001",
        "offset": offset,
    } | {key: value for key, value in refused.value.context.items() if key == "charset"}


def test_another_policy_gives_other_parts() -> None:
    policies = [Policies(), Policies(ZeroDates.TEXT), Policies(invalid_text=InvalidText.BINARY)]
    paths = {staged(each, ROWS[:1])[0].tables[0].parts[0].path for each in policies}

    assert len(paths) == 3


def test_what_was_staged_under_another_policy_is_not_reused() -> None:
    files, store = a_log(ROWS[:1]), new_store()

    def run(policies: Policies) -> Any:
        return extract(
            a_request(Position("binlog.000001", FIRST_OFFSET), end_of(files), policies=policies),
            file_source(files),
            store,
        )

    first = run(Policies(zero_dates=ZeroDates.TEXT))
    assert run(Policies(zero_dates=ZeroDates.TEXT)) == first
    with pytest.raises(ConfigurationError, match=r"previous settings.*zero_dates=text"):
        run(Policies())
