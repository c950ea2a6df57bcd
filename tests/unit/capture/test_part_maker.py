"""PartMaker: where parts end follows from the log alone, and what they hold is all of it."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture import part_maker
from airflow_provider_binlog.capture.part_maker import PartMaker
from airflow_provider_binlog.changes import ROW, BeforeImages
from airflow_provider_binlog.errors import (
    BinlogError,
    FormatError,
    ServerSetupError,
    UnsupportedError,
)
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.rows import decode
from airflow_provider_binlog.staging.object_store import ObjectStore
from tests.support import builder, logs
from tests.support.logs import Made, a_table, cuts, insert, maps, query, update, write_files
from tests.unit.capture.staging import (
    CutSource,
    Files,
    StreamSource,
    capture,
    end_of,
    file_source,
    new_store,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.binlog.events.table_map import TableMap
    from airflow_provider_binlog.manifest import TableChanges
    from airflow_provider_binlog.transport.block_stream import BlockStream

XID = Made(EventType.XID, builder.xid(1))
LIMITS = st.builds(
    Limits,
    part_bytes_max=st.sampled_from([1, 150, 400, 1 << 20]),
    pending_bytes_max=st.sampled_from([1, 300, 900, 1 << 20]),
)


def transaction(number: int, events: Sequence[Made]) -> list[Made]:
    begin = [Made(EventType.GTID, builder.gtid(number)), query("BEGIN")]
    return [*begin, *events, XID]


def a_log(*transactions: Sequence[Made]) -> Files:
    events = [event for n, each in enumerate(transactions, 1) for event in transaction(n, each)]
    return write_files([events], Flavor.MYSQL)


def written(table: TableMap, ids: Sequence[int]) -> list[Made]:
    return [maps(table, Flavor.MYSQL), insert(table, ids)]


def ids_of(store: ObjectStore, manifest: Manifest, table: str) -> list[int]:
    """Return the ids in a table's parts, in the order of `_row`."""
    rows: list[tuple[Any, Any]] = []
    for changes in manifest.tables:
        if f"{changes.database}.{changes.table}" == table:
            for part in changes.parts:
                read = pq.read_table(io.BytesIO(store.read(f"shop/{part.path}")))
                rows += zip(read[ROW].to_pylist(), read["id"].to_pylist(), strict=True)
    return [number for _, number in sorted(rows)]


def rows_of(store: ObjectStore, changes: TableChanges) -> list[dict[str, Any]]:
    """Return the rows in a table's parts, in the order of `_row`."""
    rows: list[dict[str, Any]] = []
    for part in changes.parts:
        rows += pq.read_table(io.BytesIO(store.read(f"shop/{part.path}"))).to_pylist()
    return sorted(rows, key=lambda row: int(row[ROW]))


def without_time(manifest: Manifest) -> Manifest:
    return replace(manifest, created_at="")


@settings(max_examples=60)
@given(st.sampled_from(list(Flavor)), LIMITS, st.sampled_from(list(BeforeImages)), st.data())
def test_any_blocks_give_the_same_parts(
    flavor: Flavor, limits: Limits, before_images: BeforeImages, data: st.DataObject
) -> None:
    files = write_files(data.draw(logs.group_lists(flavor)), flavor)
    arguments: dict[str, Any] = {"flavor": flavor, "limits": limits, "before_images": before_images}
    try:
        expected = capture(CutSource(files, {}), end_of(files), **arguments)
    except BinlogError as error:
        # Refused: then it is refused in any blocks.
        cut = {name: data.draw(cuts(file)) for name, file in files.items()}
        with pytest.raises(type(error)):
            capture(CutSource(files, cut), end_of(files), **arguments)
        return
    sources: list[BlockStream] = [
        CutSource(files, {name: data.draw(cuts(file)) for name, file in files.items()}),
        file_source(files, block_bytes=data.draw(st.integers(1, 400))),
        StreamSource(
            files, data.draw(st.lists(st.integers(1, 300))), data.draw(st.integers(30, 700))
        ),
    ]

    for source in sources:
        found = capture(source, end_of(files), **arguments)
        assert without_time(found) == without_time(expected)  # checksums of all parts among it


@settings(max_examples=60)
@given(st.sampled_from(list(Flavor)), LIMITS, st.sampled_from(list(BeforeImages)), st.data())
def test_tables_of_equal_columns_give_the_parts_that_each_gives_alone(
    flavor: Flavor, limits: Limits, before_images: BeforeImages, data: st.DataObject
) -> None:
    files = write_files(data.draw(logs.group_lists(flavor)), flavor)
    arguments: dict[str, Any] = {"flavor": flavor, "limits": limits, "before_images": before_images}

    def outcome() -> Manifest | str:
        try:
            return without_time(capture(CutSource(files, {}), end_of(files), **arguments))
        except BinlogError as error:
            return str(error)

    together = outcome()
    with patch.object(PartMaker, "_write_together", return_value=False):
        assert together == outcome()


@settings(max_examples=40)
@given(LIMITS, st.data())
def test_no_row_is_lost_or_doubled_whatever_the_limits(limits: Limits, data: st.DataObject) -> None:
    files = write_files(data.draw(logs.group_lists(Flavor.MYSQL)), Flavor.MYSQL)
    large, small = new_store(), new_store()
    try:
        whole = capture(CutSource(files, {}), end_of(files), store=large)
    except BinlogError:
        assume(False)  # it holds what is refused
        raise
    found = capture(CutSource(files, {}), end_of(files), store=small, limits=limits)

    for table in whole.tables:
        name = f"{table.database}.{table.table}"
        assert ids_of(small, found, name) == ids_of(large, whole, name)
    assert [table.rows for table in found.tables] == [table.rows for table in whole.tables]
    for table in found.tables:
        assert all(part.first_row <= part.last_row for part in table.parts)
        assert [p.first_row for p in table.parts] == sorted(p.first_row for p in table.parts)
    ordinals = [part.path.split("-")[1] for table in found.tables for part in table.parts]
    assert len(set(ordinals)) == len(ordinals)
    assert Manifest.decode(found.encode()) == found


def test_a_thousand_tables_with_three_rows_are_a_thousand_parts() -> None:
    tables = [a_table(f"t{n}", "id", table_id=n) for n in range(1, 1001)]
    files = a_log(*([*written(table, [1]), *written(table, [2])] for table in tables),
                  *(written(table, [3]) for table in tables))  # fmt: skip
    store = new_store()

    manifest = capture(file_source(files, block_bytes=5000), end_of(files), store=store)

    assert [len(table.parts) for table in manifest.tables] == [1] * 1000
    assert [table.rows for table in manifest.tables] == [3] * 1000
    assert ids_of(store, manifest, "shop.t500") == [1, 2, 3]


def test_a_part_ends_with_the_event_that_reaches_the_bound() -> None:
    table = a_table("t", "id")
    files = a_log(*(written(table, [number]) for number in range(10)))
    size = len(insert(table, [1]).body) + 19

    def rows(limits: Limits) -> list[int]:
        manifest = capture(CutSource(files, {}), end_of(files), limits=limits)
        return [part.rows for part in manifest.tables[0].parts]

    assert rows(Limits(part_bytes_max=4 * size)) == [4, 4, 2]
    assert rows(Limits(part_bytes_max=4 * size - 1)) == [4, 4, 2]
    assert rows(Limits(part_bytes_max=4 * size + 1)) == [5, 5]
    assert rows(Limits(pending_bytes_max=3 * size)) == [3, 3, 3, 1]


def test_an_event_that_fills_a_part_is_one_by_itself() -> None:
    table, other = a_table("t", "id"), a_table("u", "id", table_id=2)
    full = insert(table, range(3, 40))
    changes = [*written(table, [1]), *written(other, [1]), *written(table, [2]),
               maps(table, Flavor.MYSQL), full, *written(table, [40])]  # fmt: skip
    files = a_log(changes)
    limits = Limits(part_bytes_max=len(full.body) + 19)

    manifest = capture(CutSource(files, {}), end_of(files), limits=limits)

    parts = {each.table: [part.rows for part in each.parts] for each in manifest.tables}
    assert parts == {"t": [2, 37, 1], "u": [1]}


@settings(max_examples=30)
@given(st.sampled_from(list(BeforeImages)), st.data())
def test_large_rows_give_the_parts_that_they_give_together(
    before_images: BeforeImages, data: st.DataObject
) -> None:
    files = write_files(data.draw(logs.group_lists(Flavor.MYSQL)), Flavor.MYSQL)

    def outcome() -> Manifest | str:
        try:
            source = CutSource(files, {})
            return without_time(capture(source, end_of(files), before_images=before_images))
        except BinlogError as error:
            return str(error)

    together = outcome()
    with patch.object(decode, "_LARGE_ROW_BYTES", 0):
        assert together == outcome()


def test_where_all_tables_wait_for_too_much_the_largest_is_written() -> None:
    large, small = a_table("large", "id"), a_table("small", "id", table_id=2)
    files = a_log(*([*written(small, [n]), *written(large, range(40 * n, 40 * n + 40))]
                    for n in range(8)))  # fmt: skip
    events = 8 * (len(insert(large, range(40)).body) + len(insert(small, [1]).body) + 46)

    manifest = capture(
        CutSource(files, {}), end_of(files), limits=Limits(pending_bytes_max=events // 2)
    )

    parts = {table.table: [part.rows for part in table.parts] for table in manifest.tables}
    assert parts["small"] == [8]
    assert len(parts["large"]) > 1
    assert sum(parts["large"]) == 320


def test_rows_that_grow_when_decoded_become_several_parts() -> None:
    # Four bytes in the log, and a hundred times as much as staged rows.
    table = a_table("t", *(f"c{number}" for number in range(30)))
    table = replace(table, columns=tuple(replace(c, nullable=True) for c in table.columns))
    rows = builder.rows(EventType.WRITE_ROWS, 1, 30, b"\xff\xff\xff\x3f" * 2000)
    files = a_log([maps(table, Flavor.MYSQL), *[Made(EventType.WRITE_ROWS, rows)] * 20])

    limits = Limits(part_bytes_max=200_000)
    manifest = capture(CutSource(files, {}), end_of(files), limits=limits)

    (changes,) = manifest.tables
    assert changes.rows == 40_000
    row_bytes = 30 * 4 + part_maker._CHANGE_BYTES
    for part in changes.parts:
        # Two events more at most: the slice that reaches the bound.
        assert part.rows * row_bytes <= limits.decoded_bytes_max + 4000 * row_bytes
    assert len(changes.parts) >= 5


def test_parts_are_listed_by_their_rows_and_not_as_they_were_written() -> None:
    # The first schema waits; the second one is full at once.
    narrow, wide = a_table("t", "id"), a_table("t", "id", "x")
    files = a_log(written(narrow, [1]), written(wide, range(2, 90)), written(narrow, [90]))
    store = new_store()

    manifest = capture(
        CutSource(files, {}), end_of(files), store=store, limits=Limits(part_bytes_max=500)
    )

    (changes,) = manifest.tables
    # The wide one adds a column, and the second narrow one drops it.
    assert [part.schema for part in changes.parts] == [1, 2, 3]
    assert changes.parts[0].path > changes.parts[1].path
    assert changes.images == ((1, 2), (1,))
    assert ids_of(store, manifest, "shop.t") == list(range(1, 91))


def test_a_table_without_rows_has_no_parts() -> None:
    table = a_table("t", "id")
    files = a_log([maps(table, Flavor.MYSQL), insert(table, [])])

    (changes,) = capture(CutSource(files, {}), end_of(files)).tables

    assert (changes.parts, changes.rows) == ((), 0)


def test_a_log_that_names_no_columns_is_refused() -> None:
    table = a_table("t", "id")
    unnamed = replace(table, columns=(replace(table.columns[0], name=None),))
    files = a_log(written(unnamed, [1]))

    with pytest.raises(ServerSetupError, match=r"binlog_row_metadata=FULL.*table=shop\.t"):
        capture(CutSource(files, {}), end_of(files))


@pytest.mark.parametrize("name", ["_row", "_GTID", "_change_type"])
def test_a_column_with_a_name_of_ours_is_refused(name: str) -> None:
    files = a_log(written(a_table("t", "id", name), [1]))

    with pytest.raises(UnsupportedError, match=f"rename it.*column={name}"):
        capture(CutSource(files, {}), end_of(files))


def test_sets_of_columns_are_numbered_as_their_rows_come() -> None:
    table = a_table("t", "id", "x", "y")
    altered = a_table("t", "id", "x", "z", table_id=2)
    files = a_log(
        [maps(table, Flavor.MYSQL), update(table, [1], [2]), update(table, [2, 4], [0, 1])],
        [maps(table, Flavor.MYSQL), insert(table, [5]), update(table, [7], [2])],
        [maps(altered, Flavor.MYSQL), update(altered, [8], [2]), update(altered, [10], [0, 1])],
    )

    for limits in (Limits(), Limits(part_bytes_max=1)):
        store = new_store()
        manifest = capture(CutSource(files, {}), end_of(files), store=store, limits=limits)
        (changes,) = manifest.tables
        rows = rows_of(store, changes)
        assert [(row["id"], changes.images[row["_image"]]) for row in rows] == [
            (1, (1, 3)),
            (2, (1, 2)),
            (4, (1, 2)),
            (5, (1, 2, 3)),
            (7, (1, 3)),
            (8, (1, 4)),
            (10, (1, 2)),
        ]
        assert [(row["x"], row.get("y"), row.get("z")) for row in rows] == [
            (None, 2, None),
            (4, None, None),
            (8, None, None),
            (10, 10, None),
            (None, 14, None),
            (None, None, 16),
            (20, None, None),
        ]
        assert changes.images == ((1, 3), (1, 2), (1, 2, 3), (1, 4))


def test_short_images_of_wide_rows_become_several_parts() -> None:
    # Five bytes in the log, and a hundred columns of NULLs and a key as a staged row.
    table = a_table("t", *(f"c{number}" for number in range(100)))
    image = builder.row_image([struct.pack("<i", 1)])
    present = [number == 0 for number in range(100)]
    rows = builder.rows(EventType.DELETE_ROWS, 1, 100, image * 500, present=present)
    files = a_log([maps(table, Flavor.MYSQL), *[Made(EventType.DELETE_ROWS, rows)] * 20])

    limits = Limits(part_bytes_max=400_000)
    (changes,) = capture(CutSource(files, {}), end_of(files), limits=limits).tables

    assert changes.rows == 10_000
    row_bytes = 100 * 4 + part_maker._CHANGE_BYTES
    for part in changes.parts:
        # A piece that fits may be held when another one comes.
        assert part.rows * row_bytes <= 2 * limits.decoded_bytes_max
    assert len(changes.parts) >= 2


def test_a_row_that_is_cut_is_refused_with_its_coordinates() -> None:
    table = a_table("t", "id")
    body = builder.rows(EventType.WRITE_ROWS, 1, 1, b"\0\1\0")
    files = a_log([maps(table, Flavor.MYSQL), Made(EventType.WRITE_ROWS, body)])

    with pytest.raises(FormatError, match=r"file=binlog.000001, offset="):
        capture(CutSource(files, {}), end_of(files))
