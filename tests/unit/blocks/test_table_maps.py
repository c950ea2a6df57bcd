"""TableMapReader: the table of every rows event is the one that the event before it describes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.header import ROWS, EventType
from airflow_provider_binlog.binlog.transactions import TransactionScanner
from airflow_provider_binlog.blocks.captured import NO_TABLE, TableMapReader
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.errors import (
    BinlogError,
    FormatError,
    TableMapMissingError,
    UnsupportedError,
)
from airflow_provider_binlog.position import Flavor
from tests.reference.events import read_file
from tests.reference.rows_header import RowsHeader
from tests.support import builder, logs
from tests.support.builder import BinlogFile
from tests.support.logs import TABLES, Made, cuts, insert, maps, query, split_blocks, write_files

if TYPE_CHECKING:
    from collections.abc import Sequence

FLAVORS = st.sampled_from(list(Flavor))
Found = list[tuple[str, int, TableMap | None]]
"""Of each rows event: file, offset and table; None for one without a table."""


def follow(files: dict[str, BinlogFile]) -> tuple[Found, tuple[str, int] | None]:
    """Return what the log says, event by event, and where it stops to make sense."""
    scanner = TransactionScanner()
    found: Found = []
    known: dict[int, TableMap] = {}
    missing: tuple[str, int] | None = None
    for name, file in files.items():
        for event in read_file(bytes(file)):
            seen = scanner.feed(event.header, event.body, event.format)
            kind = event.header.type
            if seen.gtid is not None:
                known = {}
            if kind == EventType.TABLE_MAP:
                table = TableMap.parse(event.body, event.format)
                known[table.table_id] = replace(table, table_id=0)
            elif kind in ROWS:
                header = RowsHeader.parse(kind, event.body, event.format)
                if header.table_id not in known and not header.is_dummy:
                    missing = missing or (name, event.offset)
                found.append((name, event.offset, known.get(header.table_id)))
    return found, missing


def read(
    files: dict[str, BinlogFile], cut: dict[str, list[int]]
) -> tuple[Found, tuple[str, int] | None]:
    """Return the same, block by block."""
    transactions, tables = TransactionReader(), TableMapReader()
    found: Found = []
    for name, file in files.items():
        for block in split_blocks(name, file, cut.get(name, ())):
            seen = transactions.read(block)
            try:
                rows, table = tables.read(block, seen.of_event, ends_open=seen.ends_open)
            except TableMapMissingError as error:
                return found, (str(error.context["file"]), int(str(error.context["offset"])))
            assert rows.tolist() == [
                i for i, kind in enumerate(block.type.tolist()) if kind in ROWS
            ]
            for event, index in zip(rows.tolist(), table.tolist(), strict=True):
                table_map = None if index == NO_TABLE else tables.table_maps[index]
                at = int(block.offset[event])
                found.append((name, at, table_map and replace(table_map, table_id=0)))
    return found, None


def check(files: Sequence[Sequence[Made]], flavor: Flavor, data: st.DataObject) -> None:
    written = write_files(files, flavor)
    try:
        expected, missing = follow(written)
    except BinlogError:
        assume(False)  # the transactions are wrong: refused before tables are looked at
        raise
    found, refused = read(written, {name: data.draw(cuts(file)) for name, file in written.items()})

    assert refused == missing
    # Nothing is returned of a block that is refused.
    assert found == (expected if missing is None else expected[: len(found)])


@settings(max_examples=70)
@given(FLAVORS, st.data())
def test_any_log_in_any_blocks(flavor: Flavor, data: st.DataObject) -> None:
    check(data.draw(logs.group_lists(flavor)), flavor, data)


@settings(max_examples=50)
@given(FLAVORS, st.data())
def test_a_table_map_that_is_missing_is_named(flavor: Flavor, data: st.DataObject) -> None:
    check(data.draw(logs.broken(flavor)), flavor, data)


BEGIN = [Made(EventType.GTID, builder.gtid(1)), query("BEGIN")]
XID = Made(EventType.XID, builder.xid(1))
ONE, TWO = replace(TABLES[0], table_id=1), replace(TABLES[1], table_id=2)


def names(events: Sequence[Made], cut: Sequence[int] = ()) -> list[str | None]:
    files = write_files([events], Flavor.MYSQL)
    found, missing = read(files, {"binlog.000001": list(cut)})
    assert missing is None
    return [table.table if table else None for _, _, table in found]


EVERYWHERE = range(40)


@pytest.mark.parametrize("cut", [(), EVERYWHERE])
def test_a_trigger_maps_two_tables_and_writes_in_turns(cut: Sequence[int]) -> None:
    rows = [insert(table, [1], ends=table is ONE) for table in (TWO, ONE, TWO, TWO, ONE)]

    assert names([*BEGIN, maps(ONE, Flavor.MYSQL), maps(TWO, Flavor.MYSQL), *rows, XID], cut) == [
        "b",
        "a",
        "b",
        "b",
        "a",
    ]


@pytest.mark.parametrize("cut", [(), EVERYWHERE])
def test_an_id_that_names_another_table_later(cut: Sequence[int]) -> None:
    reused = replace(TWO, table_id=ONE.table_id)
    events = [maps(ONE, Flavor.MYSQL), insert(ONE, [1]), maps(reused, Flavor.MYSQL)]

    assert names([*BEGIN, *events, insert(reused, [1]), XID], cut) == ["a", "b"]


@pytest.mark.parametrize("cut", [(), EVERYWHERE])
def test_an_event_that_only_ends_its_statement_has_no_table(cut: Sequence[int]) -> None:
    dummy = insert(replace(ONE, table_id=logs.DUMMY_TABLE_ID), [])

    assert names([*BEGIN, maps(ONE, Flavor.MYSQL), insert(ONE, [1]), dummy, XID], cut) == [
        "a",
        None,
    ]


@pytest.mark.parametrize("cut", [(), EVERYWHERE])
def test_a_map_does_not_outlive_its_transaction(cut: Sequence[int]) -> None:
    second = [Made(EventType.GTID, builder.gtid(2)), query("BEGIN")]
    events = [
        *BEGIN,
        maps(ONE, Flavor.MYSQL),
        insert(ONE, [1]),
        XID,
        *second,
        insert(ONE, [2]),
        XID,
    ]

    files = write_files([events], Flavor.MYSQL)

    _, missing = read(files, {"binlog.000001": list(cut)})
    assert missing == ("binlog.000001", files["binlog.000001"].offsets[9])


def test_repeated_maps_are_decoded_once() -> None:
    statement = [maps(ONE, Flavor.MYSQL), insert(ONE, [1]), maps(TWO, Flavor.MYSQL)]
    (name, file), *_ = write_files([[*BEGIN, *statement * 50, XID]], Flavor.MYSQL).items()
    transactions, tables = TransactionReader(), TableMapReader()

    for block in split_blocks(name, file, [30, 60]):
        seen = transactions.read(block)
        tables.read(block, seen.of_event, ends_open=seen.ends_open)

    assert sorted(table.table for table in tables.table_maps) == ["a", "b"]


@settings(max_examples=100)
@given(st.binary(max_size=40), st.sampled_from([EventType.TABLE_MAP, EventType.WRITE_ROWS]))
def test_any_body_gives_a_table_or_a_documented_error(body: bytes, kind: EventType) -> None:
    (name, file), *_ = write_files([[*BEGIN, Made(kind, body), XID]], Flavor.MYSQL).items()
    (block,) = split_blocks(name, file)
    tables = TableMapReader()

    try:
        tables.read(block, np.ones(len(block), dtype=np.int64), ends_open=False)
    except (FormatError, UnsupportedError) as error:
        assert error.context["file"] == name  # noqa: PT017
