"""PreparedTransactions: changes stand at their XA COMMIT, from wherever they are taken."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.header import IGNORABLE
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import Flavor, Position
from tests.support.builder import SERVER_UUID
from tests.support.logs import Made, cuts
from tests.unit.capture.prepared_logs import (
    BEGIN,
    FLAVORS,
    HELD,
    OPERATIONS,
    B,
    Writer,
    a_log,
    ids_of,
    play,
    rows_of,
    run,
    stage,
)
from tests.unit.capture.staging import CutSource, Files, capture, end_of, file_source, new_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.manifest import Manifest


@HELD
@FLAVORS
def test_changes_stand_at_their_commit(flavor: Flavor, held: int) -> None:
    w = Writer(flavor)
    files = a_log(
        flavor,
        [*w.prepare(1, "x", *w.changes(1, 2)), *w.plain(2, *w.changes(3))],
        [*w.decide(3, "COMMIT", "x"), *w.plain(4, *w.changes(4))],
    )
    store = new_store()

    manifest = run(files, flavor, held, store=store)

    rows = rows_of(store, manifest)
    commit = files["binlog.000002"].offsets[3]  # after FORMAT_DESCRIPTION, GTIDs so far, GTID
    third = f"{SERVER_UUID}:3" if flavor is Flavor.MYSQL else "0-1-3"
    assert [row["id"] for row in rows] == [3, 1, 2, 4]
    assert [row["_gtid"] for row in rows[1:3]] == [third] * 2
    assert {row["_file"] for row in rows[1:3]} == {"binlog.000002"}
    assert {row["_pos"] for row in rows[1:3]} == {commit}
    assert {row["_commit_ts"].timestamp() for row in rows[1:3]} == {1_700_000_003}
    assert len({row["_row"] for row in rows}) == 4
    assert manifest.prepared == ()
    executed = f"{SERVER_UUID}:1-4" if flavor is Flavor.MYSQL else "0-1-4"
    assert manifest.stop.gtid == executed


@HELD
@FLAVORS
def test_what_is_rolled_back_is_nowhere(flavor: Flavor, held: int) -> None:
    w = Writer(flavor)
    files = a_log(
        flavor,
        [*w.prepare(1, "x", *w.changes(1)), *w.plain(2, *w.changes(2))],
        [*w.decide(3, "ROLLBACK", "x"), *w.plain(4, *w.changes(4))],
    )

    assert ids_of(files, flavor, held=held) == [2, 4]


@HELD
@FLAVORS
def test_two_at_once_come_in_the_order_of_their_commits(flavor: Flavor, held: int) -> None:
    w = Writer(flavor)
    files = a_log(
        flavor,
        [
            *w.prepare(1, "x", *w.changes(1), *w.changes(2, table=B)),
            *w.prepare(2, "y", *w.changes(3)),
            *w.decide(3, "COMMIT", "y"),
            *w.decide(4, "COMMIT", "x"),
        ],
    )

    assert ids_of(files, flavor, held=held) == [3, 1, 2]


@HELD
@FLAVORS
def test_many_changes_keep_their_order_before_what_follows(flavor: Flavor, held: int) -> None:
    w = Writer(flavor)
    many = [event for number in range(1, 100) for event in w.changes(number)]
    files = a_log(
        flavor,
        [
            *w.prepare(1, "x", *many),
            *w.prepare(2, "y", *w.changes(100), *w.changes(101)),
            *w.decide(3, "COMMIT", "x"),
            *w.decide(4, "COMMIT", "y"),
            *w.plain(5, *w.changes(102)),
        ],
    )

    assert ids_of(files, flavor, held=held) == list(range(1, 103))
    assert ids_of(files, flavor, held=held, block_bytes=100) == list(range(1, 103))


@HELD
@FLAVORS
def test_a_name_is_used_again(flavor: Flavor, held: int) -> None:
    w = Writer(flavor)
    groups = [
        each
        for number in range(1, 9, 2)
        for each in (
            w.prepare(number, "x", *w.changes(number)),
            w.decide(number + 1, "COMMIT", "x"),
        )
    ]
    files = a_log(flavor, list(itertools.chain.from_iterable(groups)))

    assert ids_of(files, flavor, held=held) == [1, 3, 5, 7]


@HELD
def test_a_transaction_of_one_phase_stays_where_it_is(held: int) -> None:
    w = Writer(Flavor.MYSQL)
    changes = [*w.changes(1), *w.changes(2)]
    files = a_log(
        Flavor.MYSQL,
        [*w.prepare(1, "x", *changes, one_phase=True), *w.plain(2, *w.changes(3))],
    )
    store = new_store()

    rows = rows_of(store, run(files, Flavor.MYSQL, held, store=store))

    assert [row["id"] for row in rows] == [1, 2, 3]
    assert [row["_pos"] for row in rows] == [
        files["binlog.000001"].offsets[index] for index in (5, 7, 13)
    ]
    limits = Limits(prepared_bytes_max=held)
    for cut in range(3, 10):  # changes come before the block with the end, or in it
        other = new_store()
        source = Again(files, cut)
        assert rows_of(other, capture(source, end_of(files), store=other, limits=limits)) == rows


class Again(CutSource):
    """A log in two blocks, and whole where it is read again."""

    def __init__(self, files: Files, cut: int) -> None:
        super().__init__(files, {"binlog.000001": [cut]})

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[Any]:
        """Yield the blocks."""
        again = file_source(self._files).blocks(start, stop)
        yield from super().blocks(start, stop) if start == BEGIN else again


@FLAVORS
def test_what_is_refused_is_refused_where_it_stands(flavor: Flavor) -> None:
    w = Writer(flavor)
    unknown = Made(200, b"?")
    files = a_log(flavor, w.prepare(1, "x", *w.changes(1), unknown))

    with pytest.raises(UnsupportedError, match="UNKNOWN_200") as raised:
        run(files, flavor)

    offsets = files["binlog.000001"].offsets
    assert raised.value.context["offset"] == offsets[6 if flavor is Flavor.MYSQL else 5]


@FLAVORS
def test_events_are_counted_as_they_are_logged(flavor: Flavor) -> None:
    w = Writer(flavor)
    ignored = Made(200, b"?", flags=IGNORABLE)
    files = a_log(flavor, [*w.prepare(1, "x", *w.changes(1), ignored), *w.decide(2, "COMMIT", "x")])

    manifest = run(files, flavor, 1)

    assert manifest.events["TABLE_MAP"] == 1
    assert manifest.events["XA_PREPARE"] == 1
    assert manifest.skipped_events == {"UNKNOWN_200": 1}


@FLAVORS
def test_a_cut_transaction_is_still_refused(flavor: Flavor) -> None:
    w = Writer(flavor)
    files = a_log(flavor, w.prepare(1, "x", *w.changes(1))[:-1], w.plain(2, *w.changes(2)))

    for held in (1, 1 << 24):
        with pytest.raises(UnsupportedError, match="ends inside a transaction"):
            run(files, flavor, held)


@FLAVORS
def test_other_tables_are_not_read_again(flavor: Flavor) -> None:
    w = Writer(flavor)
    files = a_log(flavor, [*w.prepare(1, "x", *w.changes(1)), *w.decide(2, "COMMIT", "x")])

    class Once(CutSource):
        """A log that may be read once."""

        begun = 0

        def blocks(self, start: Position, stop: Position | None = None) -> Iterator[Any]:
            self.begun += 1
            yield from super().blocks(start, stop)

    source = Once(files, {})
    limits = Limits(prepared_bytes_max=1)
    tables = TableFilter(["crm.*"])
    manifest = capture(source, end_of(files), flavor=flavor, limits=limits, tables=tables)

    assert source.begun == 1
    assert manifest.tables == ()
    assert manifest.prepared == ()


@settings(max_examples=150)
@given(st.sampled_from(list(Flavor)), OPERATIONS, st.sampled_from([1, 9000, 1 << 24]), st.data())
def test_any_log_in_any_blocks_gives_what_was_committed_in_order(
    flavor: Flavor, operations: Any, held: int, data: st.DataObject
) -> None:
    files, expected, _ = play(operations, flavor, data)
    cut = {name: data.draw(cuts(file)) for name, file in files.items()}
    limits = Limits(prepared_bytes_max=held)

    class Source(CutSource):
        """Cut as drawn, and whole when it is read again."""

        def blocks(self, start: Position, stop: Position | None = None) -> Iterator[Any]:
            if start == BEGIN:
                yield from super().blocks(start, stop)
            else:
                yield from file_source(files, block_bytes=300).blocks(start, stop)

    stores = [new_store(), new_store()]
    found = capture(
        Source(files, cut), end_of(files), flavor=flavor, limits=limits, store=stores[0]
    )
    whole = capture(
        file_source(files), end_of(files), flavor=flavor, limits=limits, store=stores[1]
    )

    assert [row["id"] for row in rows_of(stores[0], found)] == expected
    assert replace(found, created_at="") == replace(whole, created_at="")
    positions = [row["_row"] for row in rows_of(stores[0], found)]
    assert len(set(positions)) == len(positions)


@settings(max_examples=60)
@given(st.sampled_from(list(Flavor)), OPERATIONS, st.data())
def test_any_log_cut_into_any_ranges_gives_the_same(
    flavor: Flavor, operations: Any, data: st.DataObject
) -> None:
    files, expected, boundaries = play(operations, flavor, data)
    chosen = data.draw(st.lists(st.sampled_from(boundaries), max_size=4))
    store = new_store()
    staged: list[Manifest] = []
    at = BEGIN

    for stop in sorted({*chosen, end_of(files)}, key=lambda each: each.coordinates):
        if stop.coordinates > at.coordinates:
            staged.append(stage(files, store, flavor, stop, start=at, sequence=len(staged) + 1))
            at = staged[-1].stop

    assert [row["id"] for row in rows_of(store, *staged)] == expected
