"""What concerns one table quarantines it for the range, and the others are staged."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import OnTableError
from airflow_provider_binlog.errors import BinlogError, PositionPurgedError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.manifest import Manifest, QuarantinedTable
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.schema import QuarantineTable, TruncateTable
from airflow_provider_binlog.schema_history.tables import NOTHING_KNOWN
from tests.support import builder
from tests.support.logs import Made, a_table, insert, maps, query, write_files
from tests.support.requests import a_request
from tests.unit.capture.staging import CutSource, capture, end_of, known_after, new_store
from tests.unit.rows import wire

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from airflow_provider_binlog.staging.object_store import ObjectStore
    from tests.unit.capture.staging import Files

GOOD = a_table("good", "id", "x", table_id=8)
TEXTS = TableMap(
    7,
    0,
    "shop",
    "texts",
    (
        wire.column(ColumnType.LONG, name="id", nullable=False, collation=None),
        wire.varchar(40, name="note"),
    ),
    ((0, 0),),
)
OLD = TableMap(
    9,
    0,
    "shop",
    "old",
    (
        wire.column(ColumnType.LONG, name="id", nullable=False, collation=None),
        wire.column(ColumnType.DECIMAL, b"\x05\x02", name="price", collation=None),
    ),
    ((0, 0),),
)
CUTS = pytest.mark.parametrize("cut", [(), range(60), (9, 14), (11, 23)])
NAME = "binlog.000001"


def good(number: int) -> list[Made]:
    return [maps(GOOD, Flavor.MYSQL), insert(GOOD, [number])]


def text(number: int, note: bytes = b"fine") -> list[Made]:
    image = wire.image(TEXTS, [number, note])
    rows = builder.rows(EventType.WRITE_ROWS, 7, 2, image, flags=1)
    return [maps(TEXTS, Flavor.MYSQL), Made(EventType.WRITE_ROWS, rows)]


def bad(number: int) -> list[Made]:
    return text(number, b"\xff")


def old(number: int) -> list[Made]:
    rows = builder.rows(EventType.WRITE_ROWS, 9, 2, b"\0" + bytes([number]) * 8, flags=1)
    return [maps(OLD, Flavor.MYSQL), Made(EventType.WRITE_ROWS, rows)]


def a_log(*steps: list[Made] | str) -> Files:
    """Return a log of statements, and of transactions with these changes."""
    events: list[Made] = []
    for number, step in enumerate(steps, start=1):
        begin = Made(EventType.GTID, builder.gtid(number))
        if isinstance(step, str):
            events += [begin, query(step)]
        else:
            events += [begin, query("BEGIN"), *step, Made(EventType.XID, builder.xid(number))]
    return write_files([events], Flavor.MYSQL)


def run(
    files: Files, cut: Sequence[int] = (), store: ObjectStore | None = None, **arguments: Any
) -> Manifest:
    source, stop = CutSource(files, dict.fromkeys(files, cut)), end_of(files)
    arguments = {"on_table_error": OnTableError.QUARANTINE, **arguments}
    manifest = capture(source, stop, store=store, **arguments)
    assert Manifest.decode(manifest.encode()) == manifest
    return manifest


def staged(manifest: Manifest, store: ObjectStore) -> dict[str, list[Any]]:
    """Return the ids of the staged rows, by table."""
    found: dict[str, list[Any]] = {}
    for table in manifest.tables:
        ids = found.setdefault(table.table, [])
        for part in table.parts:
            ids += pq.read_table(io.BytesIO(store.read(f"shop/{part.path}")))["id"].to_pylist()
    return found


def event_of(files: Files, step: int, event: int = 3) -> int:
    """Return the offset of an event of a transaction, both counted from 1."""
    file = files[NAME]
    kinds = [file.data[offset + 4] for offset in file.offsets]
    begins = [index for index, kind in enumerate(kinds) if kind == EventType.GTID]
    return int(file.offsets[begins[step - 1] + event])


@CUTS
@pytest.mark.parametrize(
    ("limits", "description"), [(Limits(), "one part"), (Limits(part_bytes_max=1), "many")]
)
def test_a_quarantined_table_has_no_rows_and_the_others_are_complete(
    cut: Sequence[int], limits: Limits, description: str
) -> None:
    files, store = a_log(good(1), text(1), bad(2), good(3), text(4), bad(5), good(6)), new_store()

    manifest = run(files, cut, store, limits=limits)

    assert staged(manifest, store) == {"good": [1, 3, 6], "texts": []}, description
    (found,) = manifest.quarantined
    assert found[:3] == ("shop", "texts", f"{NAME}:{event_of(files, 3)}")
    assert found.reason == "text is not UTF-8 (column=note)"
    texts = manifest.tables[1]
    assert (texts.created, texts.rows, texts.images) == (None, 0, ())


@CUTS
def test_a_range_with_a_quarantined_table_is_the_same_however_it_is_read(
    cut: Sequence[int],
) -> None:
    files = a_log(good(1), text(1), old(1), bad(2), good(3), old(2), text(4), good(6))
    limits = Limits(part_bytes_max=1)
    first, second = new_store(), new_store()

    whole, again = run(files, (), first, limits=limits), run(files, cut, second, limits=limits)

    assert replace(again, created_at=whole.created_at) == whole
    for part in (part for table in whole.tables for part in table.parts):
        assert first.read(f"shop/{part.path}") == second.read(f"shop/{part.path}")
    assert [each.table for each in whole.quarantined] == ["old", "texts"]


def test_parts_of_a_range_that_leaves_out_other_rows_have_other_names() -> None:
    files = a_log(good(1), old(2), good(3), good(4))

    manifest = run(files, range(60), limits=Limits(part_bytes_max=1))

    ranges = [part.path[-20:] for part in manifest.tables[0].parts]
    assert ranges[0] != ranges[1] == ranges[2]  # The first one was written before.


def test_parts_of_other_tables_are_what_they_are_without_the_quarantine() -> None:
    limits, stores = Limits(part_bytes_max=1), [new_store(), new_store()]

    left_out, whole = (
        run(a_log(good(1), *steps, good(4)), (), store, limits=limits)
        for steps, store in zip(([text(2, b"\xff")], [text(2, b"z")]), stores, strict=True)
    )

    parts = [each.tables[0].parts for each in (left_out, whole)]
    assert [part.sha256 for part in parts[0]] == [part.sha256 for part in parts[1]]


@CUTS
def test_a_type_that_is_not_decoded_quarantines_its_table(cut: Sequence[int]) -> None:
    files, store = a_log(good(1), old(1), "ALTER TABLE old ADD n INT", old(2), good(3)), new_store()

    manifest = run(files, cut, store)

    assert staged(manifest, store) == {"good": [1, 3], "old": []}
    (found,) = manifest.quarantined
    assert found[:3] == ("shop", "old", f"{NAME}:{event_of(files, 2)}")
    assert found.reason.startswith("a column of this type is not decoded")


@CUTS
def test_a_type_of_a_newer_server_concerns_its_table_alone(cut: Sequence[int]) -> None:
    novel = replace(GOOD, table="novel")
    table_map = maps(novel, Flavor.MYSQL)
    unknown = replace(table_map, body=table_map.body.replace(b"\x02\x03\x03", b"\x02\x63\x63", 1))
    files, store = a_log(good(1), [unknown, insert(novel, [7])], good(2)), new_store()

    manifest = run(files, cut, store)
    without = run(files, cut, tables=TableFilter(["*.*"], ["*.novel"]))

    assert staged(manifest, store) == {"good": [1, 2], "novel": []}
    assert manifest.quarantined[0].reason == (
        "a column type that no known server logs: leave the table out (type=UNKNOWN_99)"
    )
    assert (without.rows, without.quarantined) == (2, ())


@CUTS
def test_a_table_that_is_truncated_later_is_quarantined_for_the_whole_range(
    cut: Sequence[int],
) -> None:
    files, store = a_log(text(1), bad(2), "TRUNCATE texts", text(3)), new_store()

    manifest = run(files, cut, store)

    assert staged(manifest, store) == {"texts": []}
    actions = [action for each in manifest.statements for action in each.actions]
    assert [type(each) for each in actions] == [TruncateTable, QuarantineTable]
    (quarantined,) = manifest.quarantined
    assert quarantined.position == f"{NAME}:{event_of(files, 2)}"


@CUTS
def test_a_table_that_is_created_again_is_another_one(cut: Sequence[int]) -> None:
    create = "CREATE TABLE texts (id INT PRIMARY KEY, note VARCHAR(10))"
    files, store = a_log(bad(1), "DROP TABLE texts", create, text(3)), new_store()

    manifest = run(files, cut, store)

    assert sorted((each.dropped, each.rows) for each in manifest.tables) == [(False, 1), (True, 0)]
    assert len(manifest.quarantined) == 1


@CUTS
def test_a_quarantined_table_stays_so_under_another_name(cut: Sequence[int]) -> None:
    files, store = a_log(bad(1), "RENAME TABLE texts TO t2, good TO texts", good(2)), new_store()

    manifest = run(files, cut, store)

    assert [each[:2] for each in manifest.quarantined] == [("shop", "t2")]
    assert staged(manifest, store) == {"good": [2], "t2": [], "texts": []}


@CUTS
@pytest.mark.parametrize(
    ("broken", "event", "kept"),
    [
        ([*text(2), *good(2), query("ROLLBACK TO `s`"), *good(3)], 6, []),
        (
            [*text(2), query("SAVEPOINT `s`"), *text(3), query("ROLLBACK TO `s`"), *good(3)],
            7,
            [3, 4],
        ),
    ],
    ids=["both tables", "one table"],
)
def test_a_rollback_to_a_savepoint_quarantines_the_tables_that_it_may_concern(
    cut: Sequence[int], broken: list[Made], event: int, kept: list[int]
) -> None:
    files, store = a_log(text(1), broken, text(4), good(4)), new_store()

    manifest = run(files, cut, store)

    assert staged(manifest, store) == {"texts": [], "good": kept}
    assert ("shop", "texts", f"{NAME}:{event_of(files, 2, event)}") in [
        quarantined[:3] for quarantined in manifest.quarantined
    ]


@CUTS
def test_a_transaction_that_a_crash_truncated_quarantines_its_tables(cut: Sequence[int]) -> None:
    begin = Made(EventType.GTID, builder.gtid(2))
    first = [Made(EventType.GTID, builder.gtid(1)), query("BEGIN"), *text(1), *good(1)]
    events = [*first, Made(EventType.XID, builder.xid(1)), begin, query("BEGIN"), *text(2)]
    third = [Made(EventType.GTID, builder.gtid(3)), query("BEGIN"), *good(3), *text(3)]
    files = write_files([events, [*third, Made(EventType.XID, builder.xid(3))]], Flavor.MYSQL)
    store = new_store()

    manifest = run(files, cut, store)

    assert staged(manifest, store) == {"texts": [], "good": [1, 3]}
    assert "ends inside a transaction" in manifest.quarantined[0].reason


def test_a_statement_that_failed_half_way_quarantines_its_tables() -> None:
    body = bytearray(builder.query("DROP TABLE texts, good"))
    body[9] = 5  # the error code
    failed = [Made(EventType.GTID, builder.gtid(3)), Made(EventType.QUERY, bytes(body))]
    files = write_files(
        [[*_transaction(1, *text(1)), *failed, *_transaction(4, *good(4))]], Flavor.MYSQL
    )
    store = new_store()

    manifest = run(files, (), store, tables=TableFilter(["shop.texts", "shop.g*"]))

    assert staged(manifest, store) == {"good": [], "texts": []}
    assert sorted(each.table for each in manifest.quarantined) == ["good", "texts"]
    assert manifest.quarantined[0].reason == (
        "a statement on captured tables failed half-way on the server: reload them "
        "(error=5, statement=DROP TABLE)"
    )


def test_a_database_that_was_dropped_half_way_quarantines_its_tables() -> None:
    body = bytearray(builder.query("DROP DATABASE shop"))
    body[9] = 5
    failed = [Made(EventType.GTID, builder.gtid(3)), Made(EventType.QUERY, bytes(body))]
    events = [*_transaction(1, *text(1)), *_transaction(2, *good(1)), *failed]
    files, store = write_files([events], Flavor.MYSQL), new_store()

    manifest = run(files, (), store)

    assert [each.table for each in manifest.quarantined] == ["good", "texts"]
    assert [each.dropped for each in manifest.tables] == [False, False]


def _transaction(number: int, *changes: Made) -> list[Made]:
    begin = [Made(EventType.GTID, builder.gtid(number)), query("BEGIN")]
    return [*begin, *changes, Made(EventType.XID, builder.xid(number))]


@CUTS
def test_changes_of_an_xa_transaction_that_were_purged_quarantine_its_tables(
    cut: Sequence[int],
) -> None:
    xid = "X'61',X'',1"
    begin = [Made(EventType.GTID, builder.gtid(1)), query(f"XA START {xid}")]
    end = [query(f"XA END {xid}"), Made(EventType.XA_PREPARE, builder.xa_prepare(b"a"))]
    commit = [Made(EventType.GTID, builder.gtid(3)), query(f"XA COMMIT {xid}")]
    prepare = [*begin, *text(1), *end]
    later = [*_transaction(2, *text(2), *good(2)), *commit, *_transaction(4, *text(4), *good(4))]
    files = write_files([prepare, later], Flavor.MYSQL)
    first = run({NAME: files[NAME]})
    store = new_store()

    class Purged(CutSource):
        """The second file, and nothing before it."""

        def blocks(self, start: Position, stop: Position | None = None) -> Any:
            if start.file == NAME:
                raise PositionPurgedError("purged", position=start)
            yield from super().blocks(start, stop)

    second = {"binlog.000002": files["binlog.000002"]}
    manifest = capture(
        Purged(second, {"binlog.000002": cut}),
        end_of(files),
        start=Position("binlog.000002", 4, first.stop.gtid),
        prepared=first.prepared,
        store=store,
        on_table_error=OnTableError.QUARANTINE,
    )

    assert staged(manifest, store) == {"good": [2, 4], "texts": []}
    (found,) = manifest.quarantined
    assert found.table == "texts"
    assert found.position == f"binlog.000002:{files['binlog.000002'].offsets[-8]}"
    assert "the log was purged where a transaction was prepared" in found.reason


def test_the_next_range_tries_again() -> None:
    files, store = a_log(bad(1), good(1)), new_store()
    first = run(files, (), store)
    known = known_after(first)
    second = run(a_log(text(1), good(1)), (), store, known=known, sequence=2)

    assert [each.table for each in first.quarantined] == ["texts"]
    assert second.quarantined == ()
    assert staged(second, store) == {"good": [1], "texts": [1]}
    (before,) = (each for each in first.tables if each.table == "texts")
    (now,) = (each for each in second.tables if each.table == "texts")
    assert (before.id, before.created) == (now.id, now.created)
    assert known is not NOTHING_KNOWN


@pytest.mark.parametrize(
    "steps", [[text(1), bad(2)], [old(1)], [[*text(1), query("ROLLBACK TO `s`")]]], ids=str
)
def test_it_fails_the_range_where_the_author_says_so(steps: list[Any]) -> None:
    with pytest.raises(BinlogError) as raised:
        run(a_log(*steps), on_table_error=OnTableError.FAIL)

    assert raised.value.context["file"] == NAME
    assert raised.value.retryable is False


def test_a_quarantined_table_is_listed_by_its_last_name() -> None:
    manifest = run(a_log(bad(1), "RENAME TABLE texts TO t2"))

    (found,) = manifest.quarantined
    assert isinstance(found, QuarantinedTable)
    assert found.table == "t2"


def test_quarantine_is_no_part_of_what_names_a_range() -> None:
    stop = Position(NAME, 99)
    one, other = (
        a_request(Position(NAME, 4), stop, on_table_error=each).range_id for each in OnTableError
    )

    assert one == other


def test_the_tables_of_a_range_are_named_before_it_is_committed() -> None:
    named: list[tuple[int, list[str]]] = []

    def note(sequence: int, tables: Collection[tuple[str, str]]) -> None:
        named.append((sequence, sorted(map(".".join, tables))))

    files = a_log(good(1), bad(2), "CREATE TABLE fresh (id INT)")
    run(files, tables=TableFilter(["shop.t*", "shop.f*"]), on_tables=note)

    assert named == [(1, ["shop.fresh", "shop.good", "shop.texts"])]
