"""Rollbacks: what is rolled back later in the log is left out, however the log is cut."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture.transaction_buffer import Intervals
from airflow_provider_binlog.changes import ROW
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor
from tests.support import builder
from tests.support.logs import TABLES, Made, cuts, insert, maps, query, write_files
from tests.unit.capture.staging import CutSource, Files, capture, end_of, new_store

if TYPE_CHECKING:
    from collections.abc import Sequence

A = TABLES[1]
XID = Made(EventType.XID, builder.xid(1))
ROLLBACK = query("ROLLBACK")


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


CASES: dict[str, tuple[tuple[int | str, ...], list[int]]] = {
    "once": ((1, save("s"), 2, back("s"), 3), [1, 3]),
    "nothing between": ((1, save("s"), back("s"), 3), [1, 3]),
    "twice to the same": ((1, save("s"), 2, back("s"), 3, back("s"), 4), [1, 4]),
    "nested": ((save("a"), 1, save("b"), 2, back("b"), 3, back("a"), 4), [4]),
    "the outer one alone": ((1, save("a"), 2, save("b"), 3, back("a"), 4), [1, 4]),
    "a name again": ((save("s"), 1, save("S"), 2, back("s"), 3), [1, 3]),
    "released": ((save("a"), 1, save("b"), "RELEASE SAVEPOINT `b`", 2, back("a"), 3), [3]),
    "quoted otherwise": ((1, 'SAVEPOINT "a`b"', 2, 'ROLLBACK TO "a`b"', 3), [1, 3]),
    "not quoted": ((1, "SAVEPOINT s", 2, "ROLLBACK TO s", 3), [1, 3]),
    "a quote in it": ((1, save("a``b"), 2, save("a"), 3, back("a``b"), 4), [1, 4]),
}


@pytest.mark.parametrize("cut", [(), range(40), (5,), (7, 9)])
@pytest.mark.parametrize(("steps", "expected"), CASES.values(), ids=CASES)
def test_what_was_rolled_back_to_a_savepoint_is_left_out(
    steps: tuple[int | str, ...], expected: list[int], cut: Sequence[int]
) -> None:
    events = transaction(1, *steps), transaction(2, 90, save("s"), 91), transaction(3, 92)

    assert staged(write_files(events, Flavor.MARIADB), cut) == [*expected, 90, 91, 92]


@pytest.mark.parametrize("cut", [(), range(40), (5,), (7, 9)])
def test_what_was_rolled_back_as_a_whole_after_a_savepoint_is_left_out(cut: Sequence[int]) -> None:
    events = [
        *transaction(1, save("s"), 1, 2, end=ROLLBACK),
        *transaction(2, 3),
        *transaction(3, 4, end=query("COMMIT")),
        *transaction(4, save("s"), 5, 6, back("s"), 7, end=ROLLBACK),
    ]

    assert staged(write_files([events, events], Flavor.MARIADB), cut) == [3, 4, 3, 4]


@pytest.mark.parametrize("cut", [(), range(40)])
def test_a_rollback_of_what_was_emitted_is_refused(cut: Sequence[int]) -> None:
    events = transaction(1, 1, save("s"), 2, end=ROLLBACK)

    with pytest.raises(UnsupportedError, match="rolled back, but for changes that cannot be"):
        staged(write_files([events], Flavor.MARIADB), cut)


@pytest.mark.parametrize(
    "steps",
    [
        (1, back("s"), 2),
        (1, save("s"), 2, "ROLLBACK TO s t", 3),
        (1, save("s"), 2, save("é"), 3, back("s")),
        (1, save("é"), 2, back("é")),
        (1, save("a"), 2, save("b"), "RELEASE SAVEPOINT `a`", 3, back("b")),
    ],
    ids=["none", "unreadable", "others", "not ascii", "released"],
)
@pytest.mark.parametrize("cut", [(), range(40)])
def test_a_savepoint_that_cannot_be_identified_is_refused(
    steps: tuple[int | str, ...], cut: Sequence[int]
) -> None:
    with pytest.raises(UnsupportedError, match="cannot be identified") as caught:
        staged(write_files([transaction(1, *steps)], Flavor.MARIADB), cut)

    assert str(caught.value.context["statement"]).startswith("ROLLBACK TO")


@pytest.mark.parametrize("cut", [(), range(40)])
def test_unless_nothing_stands_before_it(cut: Sequence[int]) -> None:
    events = [*transaction(1, 1), *transaction(2, back("s"), 2)]

    assert staged(write_files([events], Flavor.MARIADB), cut) == [1, 2]


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[int | str], list[int]]:
    """Return what a transaction does, and the numbers that stay."""
    done: list[int | str] = []
    stays: list[int] = []
    savepoints: dict[str, int] = {}
    for number in range(draw(st.integers(0, 12))):
        match draw(st.sampled_from(["insert", "insert", "save", "back"])):
            case "insert":
                done.append(number)
                stays.append(number)
            case "save":
                name = draw(st.sampled_from("abc"))
                savepoints.pop(name, None)
                savepoints[name] = len(stays)
                done.append(save(name))
            case _ if savepoints:
                name = draw(st.sampled_from(list(savepoints)))
                del stays[savepoints[name] :]
                while list(savepoints)[-1] != name:
                    savepoints.popitem()
                done.append(back(name))
    return done, stays


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(steps(), st.booleans()), min_size=1, max_size=3), st.data())
def test_any_savepoints_in_any_blocks(
    transactions: list[tuple[tuple[list[int | str], list[int]], bool]], data: st.DataObject
) -> None:
    events: list[Made] = []
    expected: list[int] = []
    for sequence, ((done, stays), commits) in enumerate(transactions, start=1):
        first = [] if commits else [save("first")]
        events += transaction(sequence, *first, *done, end=XID if commits else ROLLBACK)
        expected += stays if commits else []
    files = write_files([events], Flavor.MARIADB)

    assert staged(files, data.draw(cuts(files["binlog.000001"]))) == expected


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=8))
def test_intervals_that_meet_are_joined(added: list[tuple[int, int]]) -> None:
    intervals, expected = Intervals(), set[int]()
    for start, size in added:
        intervals.add(start, start + size)
        expected |= set(range(start, start + size))

    assert set(np.flatnonzero(intervals.contain(np.arange(50))).tolist()) == expected
