"""Rollbacks: changes that are rolled back later in the log are refused, however it is cut."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.changes import ROW
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor
from tests.support import builder
from tests.support.logs import TABLES, Made, insert, maps, query, write_files
from tests.unit.capture.staging import CutSource, Files, capture, end_of, new_store

if TYPE_CHECKING:
    from collections.abc import Sequence

A = TABLES[1]
XID = Made(EventType.XID, builder.xid(1))


def change(number: int) -> list[Made]:
    return [maps(A, Flavor.MARIADB), insert(A, [number], version=1)]


def transaction(sequence: int, *steps: int | str, end: Made = XID) -> list[Made]:
    """Return a transaction that inserts these numbers, and executes these statements."""
    events = [Made(EventType.MARIADB_GTID, builder.mariadb_gtid(sequence))]
    for step in steps:
        events += [query(step)] if isinstance(step, str) else change(step)
    return [*events, end]


def staged(files: Files, cut: Sequence[int] = ()) -> list[int]:
    """Return the numbers that are staged."""
    store = new_store()
    source = CutSource(files, dict.fromkeys(files, cut))
    manifest = capture(source, end_of(files), flavor=Flavor.MARIADB, store=store)
    rows: list[Any] = []
    for part in (part for table in manifest.tables for part in table.parts):
        read = pq.read_table(io.BytesIO(store.read(f"shop/{part.path}")))
        rows += zip(read[ROW].to_pylist(), read["id"].to_pylist(), strict=True)
    return [number for _, number in sorted(rows)]


def save(name: str) -> str:
    return f"SAVEPOINT `{name}`"


def back(name: str) -> str:
    return f"ROLLBACK TO `{name}`"


@pytest.mark.parametrize("cut", [(), range(40)])
def test_a_rollback_of_changes_is_refused(cut: Sequence[int]) -> None:
    events = transaction(1, 1, save("s"), 2, end=query("ROLLBACK"))

    with pytest.raises(UnsupportedError, match="rolled back, but for changes that cannot be"):
        staged(write_files([events], Flavor.MARIADB), cut)


@pytest.mark.parametrize("cut", [(), range(40)])
def test_a_rollback_to_a_savepoint_is_refused(cut: Sequence[int]) -> None:
    events = transaction(1, 1, save("s"), 2, back("s"), 3)

    with pytest.raises(UnsupportedError, match="rolled back to a savepoint") as caught:
        staged(write_files([events], Flavor.MARIADB), cut)

    assert str(caught.value.context["statement"]).startswith("ROLLBACK TO")


@pytest.mark.parametrize("cut", [(), range(40)])
def test_unless_nothing_stands_before_it(cut: Sequence[int]) -> None:
    events = [*transaction(1, 1), *transaction(2, back("s"), 2)]

    assert staged(write_files([events], Flavor.MARIADB), cut) == [1, 2]
