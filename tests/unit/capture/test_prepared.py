"""PreparedTransactions: changes stand at their XA COMMIT, from wherever they are taken."""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.event_types import IGNORABLE, EventType
from airflow_provider_binlog.capture import extract
from airflow_provider_binlog.capture.capture_range import prepared_at
from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.changes import ROW
from airflow_provider_binlog.errors import (
    ConnectionLostError,
    ForeignPositionError,
    PositionPurgedError,
    UnsupportedError,
)
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.manifest import Prepared
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from tests.support import builder
from tests.support.builder import SERVER_UUID
from tests.support.compression import single_events, whole_transactions
from tests.support.logs import TABLES, Made, cuts, insert, maps, query, write_files
from tests.support.requests import a_request
from tests.unit.capture.staging import CutSource, Files, capture, end_of, file_source, new_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.staging.object_store import ObjectStore

A, B = TABLES[:2]
BEGIN = Position("binlog.000001", FIRST_OFFSET)
FLAVORS = pytest.mark.parametrize("flavor", list(Flavor))
HELD = pytest.mark.parametrize("held", [1, 1 << 24], ids=["read again", "from memory"])


@dataclass(frozen=True)
class Writer:
    """Writes what a server of a family logs, transaction by transaction."""

    flavor: Flavor

    def start(self, number: int, flags: int = 0x0C, name: str | None = None) -> Made:
        """Return the GTID."""
        stamp = 1_700_000_000 + number
        if self.flavor is Flavor.MYSQL:
            micros = stamp * 1_000_000
            return Made(
                EventType.GTID, builder.gtid(number, commit_timestamp_us=micros), timestamp=stamp
            )
        xa = (1, name.encode(), b"") if name is not None else None
        body = builder.mariadb_gtid(number, flags=flags, xa=xa)
        return Made(EventType.MARIADB_GTID, body, timestamp=stamp)

    def changes(self, *ids: int, table: Any = A) -> list[Made]:
        """Return TABLE_MAP and rows event."""
        version = 1 if self.flavor is Flavor.MARIADB else 2
        return [maps(table, self.flavor), insert(table, ids, version=version)]

    def plain(self, number: int, *events: Made) -> list[Made]:
        """Return a transaction."""
        begin = [query("BEGIN")] if self.flavor is Flavor.MYSQL else []
        return [self.start(number), *begin, *events, Made(EventType.XID, builder.xid(number))]

    def prepare(self, number: int, name: str, *events: Made, one_phase: bool = False) -> list[Made]:
        """Return an XA transaction up to its XA PREPARE or XA COMMIT ... ONE PHASE."""
        if one_phase and self.flavor is Flavor.MARIADB:
            return self.plain(number, *events)
        xid = a_xid(name)
        begin = [query(f"XA START {xid}")] if self.flavor is Flavor.MYSQL else []
        prepared = builder.xa_prepare(name.encode(), one_phase=one_phase)
        return [
            self.start(number, 0x4C, name),
            *begin,
            *events,
            query(f"XA END {xid}"),
            Made(EventType.XA_PREPARE, prepared),
        ]

    def decide(self, number: int, verb: str, name: str) -> list[Made]:
        """Return XA COMMIT or XA ROLLBACK."""
        return [self.start(number, 0x8D, name), query(f"XA {verb} {a_xid(name)}")]


def a_xid(name: str) -> str:
    return f"X'{name.encode().hex()}',X'',1"


def a_log(flavor: Flavor, *files: Sequence[Made]) -> Files:
    return write_files(files, flavor)


def run(files: Files, flavor: Flavor, held: int = 1 << 24, **arguments: Any) -> Manifest:
    source = file_source(files, block_bytes=arguments.pop("block_bytes", 1 << 22))
    limits = Limits(prepared_bytes_max=held)
    stop = arguments.pop("stop", end_of(files))
    return capture(source, stop, flavor=flavor, limits=limits, **arguments)


def rows_of(store: ObjectStore, *manifests: Manifest) -> list[dict[str, Any]]:
    """Return the change rows of all tables in the order of manifests and `_row`."""
    result = []
    for manifest in manifests:
        rows: list[dict[str, Any]] = []
        for table in manifest.tables:
            for part in table.parts:
                rows += pq.read_table(io.BytesIO(store.read(f"shop/{part.path}"))).to_pylist()
        result += sorted(rows, key=lambda row: int(row[ROW]))
    return result


def ids_of(files: Files, flavor: Flavor, **arguments: Any) -> list[int]:
    store = new_store()
    manifest = run(files, flavor, store=store, **arguments)
    return [row["id"] for row in rows_of(store, manifest)]


# ------------------------------------------------------------------- where changes stand


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


# ------------------------------------------------------------------- tables that are not wanted


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


# ------------------------------------------------------------------- in a later range


@FLAVORS
def test_a_later_range_commits(flavor: Flavor) -> None:
    w = Writer(flavor)
    files = a_log(
        flavor,
        [*w.prepare(1, "x", *w.changes(1)), *w.prepare(2, "y", *w.changes(2, table=B))],
        w.plain(3, *w.changes(3)),
        [*w.decide(4, "COMMIT", "y"), *w.decide(5, "ROLLBACK", "x")],
    )
    store = new_store()
    bounds = [Position(name, len(file.data)) for name, file in files.items()]

    staged = [stage(files, store, flavor, bounds[0])]
    for stop in bounds[1:]:
        start, sequence = staged[-1].stop, staged[-1].sequence + 1
        staged.append(stage(files, store, flavor, stop, start=start, sequence=sequence))

    offsets = files["binlog.000001"].offsets
    first = offsets[2]
    second = offsets[2 + len(w.prepare(1, "x", *w.changes(1)))]
    names = (
        (f"{SERVER_UUID}:1", f"{SERVER_UUID}:2") if flavor is Flavor.MYSQL else ("0-1-1", "0-1-2")
    )
    in_doubt = (
        Prepared(a_xid("x"), names[0], "binlog.000001", first, (("shop", "a"),)),
        Prepared(a_xid("y"), names[1], "binlog.000001", second, (("shop", "b"),)),
    )
    assert [each.prepared for each in staged] == [in_doubt, in_doubt, ()]
    assert [row["id"] for row in rows_of(store, *staged)] == [3, 2]


def stage(
    files: Files,
    store: ObjectStore,
    flavor: Flavor,
    stop: Position,
    *,
    start: Position = BEGIN,
    sequence: int = 1,
) -> Manifest:
    (manifest,) = extract(
        a_request(start, stop, flavor=flavor, sequence=sequence),
        file_source(files),
        store,
    ).manifests
    return manifest


@FLAVORS
def test_a_first_range_begins_with_what_is_prepared_in_its_file(flavor: Flavor) -> None:
    w = Writer(flavor)
    before = [
        *w.prepare(1, "x", *w.changes(1)),
        *w.prepare(2, "y", *w.changes(2)),
        *w.decide(3, "ROLLBACK", "y"),
        *w.decide(4, "COMMIT", "of an earlier file"),
    ]
    files = a_log(flavor, [*before, *w.plain(5, *w.changes(5)), *w.decide(6, "COMMIT", "x")])
    start = Position("binlog.000001", files["binlog.000001"].offsets[2 + len(before)])
    store = new_store()

    manifest = stage(files, store, flavor, end_of(files), start=start)

    assert [row["id"] for row in rows_of(store, manifest)] == [5, 1]


def test_what_was_prepared_where_nothing_can_be_decoded_is_not_known() -> None:
    w = Writer(Flavor.MYSQL)
    damaged = [w.start(1), Made(EventType.TRANSACTION_PAYLOAD, b"?")]
    files = a_log(Flavor.MYSQL, [*damaged, *w.plain(2, *w.changes(1))])

    assert prepared_at(file_source(files), end_of(files)) == ()


@FLAVORS
def test_a_commit_of_what_was_prepared_before_the_start_is_refused(flavor: Flavor) -> None:
    w = Writer(flavor)
    files = a_log(flavor, [*w.plain(1, *w.changes(1)), *w.decide(2, "COMMIT", "x")])

    with pytest.raises(UnsupportedError, match="begin before its XA PREPARE") as raised:
        run(files, flavor)

    assert raised.value.context == {
        "xid": a_xid("x"),
        "file": "binlog.000001",
        "offset": files["binlog.000001"].offsets[-1],
    }


@FLAVORS
def test_a_rollback_of_what_was_prepared_before_the_start_is_nothing(flavor: Flavor) -> None:
    w = Writer(flavor)

    assert ids_of(a_log(flavor, w.decide(1, "ROLLBACK", "x")), flavor) == []


def a_commit(flavor: Flavor) -> tuple[Files, Prepared]:
    """Return a file that commits what was prepared in an earlier one, and what that was."""
    w = Writer(flavor)
    files = a_log(flavor, w.prepare(1, "x", *w.changes(1)), w.decide(2, "COMMIT", "x"))
    first = files["binlog.000001"].offsets[2]
    return files, Prepared(a_xid("x"), None, "binlog.000001", first, (("shop", "a"),))


SECOND = Position("binlog.000002", FIRST_OFFSET)


@FLAVORS
def test_a_log_that_was_purged_meanwhile_is_reported(flavor: Flavor) -> None:
    files, prepared = a_commit(flavor)
    del files["binlog.000001"]

    with pytest.raises(PositionPurgedError, match="take a new snapshot") as raised:
        run(files, flavor, start=SECOND, prepared=(prepared,))

    assert raised.value.context["tables"] == "shop.a"
    assert raised.value.context["xid"] == a_xid("x")


@FLAVORS
def test_another_transaction_at_its_coordinates_is_refused(flavor: Flavor) -> None:
    files, prepared = a_commit(flavor)
    offsets = files["binlog.000001"].offsets
    commit = end_of(files)

    for wrong in (
        replace(prepared, offset=offsets[3]),
        replace(prepared, file="binlog.000002", offset=files["binlog.000002"].offsets[2]),
        replace(prepared, xid=a_xid("y")),
    ):
        named = replace(wrong, xid=a_xid("x"))
        given = (wrong, named) if wrong.xid == a_xid("y") else (named,)
        log = files
        if wrong.xid == a_xid("y"):
            w = Writer(flavor)
            log = a_log(flavor, w.prepare(1, "x", *w.changes(1)), w.decide(2, "COMMIT", "y"))
            given = (wrong,)
        with pytest.raises(ForeignPositionError, match="not where it was"):
            run(log, flavor, start=SECOND, prepared=given, stop=commit)


@FLAVORS
def test_a_log_that_ends_early_when_it_is_read_again(flavor: Flavor) -> None:
    files, prepared = a_commit(flavor)

    class Short(CutSource):
        """A server that is not there when the log is read again."""

        def blocks(self, start: Position, stop: Position | None = None) -> Iterator[Any]:
            if start.file == SECOND.file:
                yield from file_source(files).blocks(start, stop)

    with pytest.raises(ConnectionLostError, match="read again"):
        capture(Short(files, {}), end_of(files), flavor=flavor, start=SECOND, prepared=(prepared,))


# ------------------------------------------------------------------- any log

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["plain", "prepare", "prepare", "one phase", "COMMIT", "COMMIT", "ROLLBACK", "file"]
        ),
        st.sampled_from("xyz"),
        st.lists(st.integers(1, 4), max_size=3),
    ),
    max_size=16,
)


def play(
    operations: Any, flavor: Flavor, data: st.DataObject
) -> tuple[Files, list[int], list[Position]]:
    """Return a log, the ids of its changes in order, and its boundaries between transactions."""
    compress = whole_transactions if flavor is Flavor.MYSQL else single_events
    chosen = data.draw(st.lists(st.booleans(), max_size=20))
    coins = itertools.chain(chosen, itertools.repeat(False))
    w = Writer(flavor)
    numbers, ids = itertools.count(1), itertools.count(1)
    waiting: dict[str, list[int]] = {}
    expected: list[int] = []
    groups: list[list[list[Made]]] = [[]]
    for kind, name, sizes in operations:
        mine = [[next(ids) for _ in range(size)] for size in sizes]
        events = [
            event
            for index, each in enumerate(mine)
            for event in w.changes(*each, table=(A, B)[index % 2])
        ]
        flat = list(itertools.chain.from_iterable(mine))
        if kind == "file":
            groups.append([])
        elif kind == "plain":
            groups[-1].append(w.plain(next(numbers), *events))
            expected += flat
        elif kind == "one phase" and name not in waiting:
            groups[-1].append(w.prepare(next(numbers), name, *events, one_phase=True))
            expected += flat
        elif kind == "prepare" and name not in waiting:
            groups[-1].append(w.prepare(next(numbers), name, *events))
            waiting[name] = flat
        elif kind in {"COMMIT", "ROLLBACK"} and name in waiting:
            groups[-1].append(w.decide(next(numbers), kind, name))
            decided = waiting.pop(name)
            expected += decided if kind == "COMMIT" else []
    groups = [[list(compress(each, lambda: next(coins))) for each in file] for file in groups]
    files = a_log(flavor, *(list(itertools.chain.from_iterable(each)) for each in groups))
    boundaries = []
    for (name, file), each in zip(files.items(), groups, strict=True):
        first = itertools.accumulate(map(len, each), initial=2)
        offsets = [*file.offsets, len(file.data)]
        boundaries += [Position(name, offsets[index]) for index in first]
    return files, expected, boundaries


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
