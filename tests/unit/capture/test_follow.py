"""Ranges of a log that grows: one after another, each up to the end of its time, without a gap."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.follow import Schedule, follow
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.errors import ForeignPositionError
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from airflow_provider_binlog.sources.next_range import check_globs
from tests.support.requests import a_request
from tests.unit.capture.staging import end_of, file_source, new_store
from tests.unit.capture.whole_logs import CHANGE, IDENTITY, a_log, stage, transaction
from tests.unit.sources.test_next_range import Shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.blocks.block import EventBlock
    from tests.support.builder import BinlogFile

START = Position("binlog.000001", FIRST_OFFSET)


class Clock:
    """A monotonic clock that only sleep moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class GrowingLog:
    """A log whose end is the next of some positions with each query, and stays at the last one."""

    def __init__(self, files: dict[str, BinlogFile], *ends: Position) -> None:
        self._files = files
        self._ends = list(ends)
        self.queries = 0

    def blocks(self, start: Position, stop: Position | None = None) -> Iterator[EventBlock]:
        return file_source(self._files).blocks(start, stop)

    def close(self) -> None:
        """Nothing to let go of."""

    def end(self) -> Position:
        self.queries += 1
        return self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]

    def logs_partial_images(self) -> bool:
        return False


def a_growing_log() -> tuple[dict[str, BinlogFile], Position, Position]:
    """Return a log of two transactions, where the first one ends, and where the second one does."""
    files = a_log(transaction(1, *CHANGE) + transaction(2, *CHANGE))
    return files, Position("binlog.000001", files["binlog.000001"].offsets[7]), end_of(files)


def test_what_is_followed_are_the_ranges_of_ordinary_runs() -> None:
    files, middle, end = a_growing_log()
    clock, store, ordinary = Clock(), new_store(), new_store()
    log = GrowingLog(files, middle, middle, middle, end)
    request = a_request(START, START, identity=IDENTITY)

    followed = list(
        follow(
            request,
            log,
            store,
            schedule=Schedule(until=130, every=5, clock=clock, sleep=clock.sleep),
        )
    )

    one = stage(files, START, middle, ordinary).manifests[0]
    two = stage(files, one.stop, end, ordinary, sequence=2).manifests[0]
    made = [manifest for extracted in followed for manifest in extracted.manifests]
    assert [(each.sequence, each.start, each.stop) for each in made] == [
        (each.sequence, each.start, each.stop) for each in (one, two)
    ]
    assert [[table.parts for table in each.tables] for each in made] == [
        [table.parts for table in each.tables] for each in (one, two)
    ]


def test_a_range_starts_no_sooner_than_its_time_and_none_after_the_end() -> None:
    files, middle, end = a_growing_log()
    clock = Clock()
    log = GrowingLog(files, middle, end)
    schedule = Schedule(until=112, every=5, clock=clock, sleep=clock.sleep)

    request = a_request(START, START, identity=IDENTITY)
    ranges = list(follow(request, log, new_store(), schedule=schedule))

    assert len(ranges) == 2
    # Two ranges five seconds apart; then a query each second that is left.
    assert clock.slept[:2] == [5, 5]
    assert clock.now < 112


@pytest.mark.parametrize("end", [("binlog.000007", 499), ("binlog.000001", 900)])
def test_a_log_that_ends_before_the_position_is_refused(end: tuple[str, int]) -> None:
    clock = Clock()
    schedule = Schedule(until=130, every=5, clock=clock, sleep=clock.sleep)

    with pytest.raises(ForeignPositionError, match="is after the end of"):
        schedule.wait(clock(), Position("binlog.000007", 500), lambda: Position(*end))


def test_a_position_of_another_server_is_not_compared_with_this_log() -> None:
    """After a failover nothing is new at first: the position of the checkpoint stays."""
    files, middle, end = a_growing_log()
    clock, store = Clock(), new_store()
    there = {"binlog.000009": a_log(transaction(1, *CHANGE))["binlog.000001"]}
    start = Position("binlog.000009", FIRST_OFFSET)
    before = stage(there, start, end_of(there), store).manifests[0]
    request = a_request(
        before.stop,
        middle,
        identity=replace(IDENTITY, server="promoted"),
        issued_by=IDENTITY,
        sequence=2,
        find_gtids=lambda _: middle,
    )
    log = GrowingLog(files, middle, end)
    first = extract(request, log, store)
    schedule = Schedule(until=112, every=5, clock=clock, sleep=clock.sleep)

    followed = follow(request, log, store, schedule=schedule, after=first.stop)

    assert first.manifests == ()
    (made,) = [manifest for extracted in followed for manifest in extracted.manifests]
    assert (made.start.coordinates, made.stop.coordinates) == (middle.coordinates, end.coordinates)
    assert made.rows == 1


def test_globs_are_compared_with_the_tables_of_the_server_once() -> None:
    files, middle, end = a_growing_log()
    clock, server = Clock(), Shown(("crm", "people"))
    tables = TableFilter(["*.*", "crm.people"])
    request = a_request(
        START,
        START,
        identity=IDENTITY,
        tables=tables,
        on_tables=check_globs(logging.getLogger("globs"), "shop", tables, server.table_names),
    )
    log = GrowingLog(files, middle, end)
    schedule = Schedule(until=112, every=5, clock=clock, sleep=clock.sleep)

    assert len(list(follow(request, log, new_store(), schedule=schedule))) == 2
    assert server.queries == 1


def test_without_time_nothing_is_queried() -> None:
    files, middle, _ = a_growing_log()
    clock = Clock()
    log = GrowingLog(files, middle)
    schedule = Schedule(until=clock(), every=5, clock=clock, sleep=clock.sleep)

    assert not list(
        follow(a_request(START, START, identity=IDENTITY), log, new_store(), schedule=schedule)
    )
    assert log.queries == 0
