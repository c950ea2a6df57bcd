"""Transactions that were prepared before a range starts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture.capture_range import prepared_between
from airflow_provider_binlog.errors import (
    ConnectionLostError,
    ForeignPositionError,
    PositionPurgedError,
    UnsupportedError,
)
from airflow_provider_binlog.manifest import Prepared
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from tests.support.builder import SERVER_UUID
from tests.support.logs import Made
from tests.unit.capture.prepared_logs import (
    FLAVORS,
    B,
    Writer,
    a_log,
    a_xid,
    ids_of,
    rows_of,
    run,
    stage,
)
from tests.unit.capture.staging import CutSource, Files, capture, end_of, file_source, new_store

if TYPE_CHECKING:
    from collections.abc import Iterator


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

    assert prepared_between(file_source(files), end_of(files).file_start, end_of(files)) == ()


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
