"""Stage one range after another while the log grows: a loop over `extract`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from airflow_provider_binlog.capture.extract import Extracted, extract
from airflow_provider_binlog.capture.log_range import ExtractRequest
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.transport.block_stream import BlockStream
from airflow_provider_binlog.transport.server.queries import BinaryLog, check_file

# How often the end of the log is queried while nothing is logged.
_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Schedule:
    """When ranges of a log that is followed start, in seconds of a monotonic clock.

    Attributes:
        until: No range starts after it.
        every: From the start of one range to the start of the next one, at least.
    """

    until: float
    every: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep

    def wait(
        self, began: float, after: Position, find_end: Callable[[], Position]
    ) -> Position | None:
        """Return the end of the log once it is after a position; None if that is not in time.

        The range before began at `began`.

        Raises:
            ForeignPositionError: The log ends before the position: it was reset.
        """
        pause = began + self.every - self.clock()
        while self.clock() + max(pause, 0.0) < self.until:
            if pause > 0:
                self.sleep(pause)
            end = find_end()
            if end.coordinates > after.coordinates:
                return end
            check_file([BinaryLog(end.file, end.offset)], after)
            pause = _POLL_SECONDS
        return None


class FollowedLog(BlockStream, Protocol):
    """A log that grows while it is read."""

    def end(self) -> Position:
        """Return where the log ends now."""

    def logs_partial_images(self) -> bool:
        """Return whether row images may lack columns by now."""


def follow(
    request: ExtractRequest,
    log: FollowedLog,
    store: ObjectStore,
    *,
    schedule: Schedule,
    after: Position | None = None,
) -> Iterator[Extracted]:
    """Yield what is staged of each range, from the start of the request on.

    Each stops where the log ends when it starts. `after` is the start's position in this log, if
    another server issued it. Raises as `extract` and `Schedule.wait`.
    """
    began, after = schedule.clock(), after or request.start
    while stop := schedule.wait(began, after, log.end):
        began = schedule.clock()
        request = replace(request, stop=stop, wants_defaults=log.logs_partial_images())
        extracted = extract(request, log, store)
        yield extracted
        request, after = request_next(request, extracted), extracted.stop


def request_next(request: ExtractRequest, extracted: Extracted) -> ExtractRequest:
    """Return the request of what follows the last manifest that was staged.

    Its globs are not checked again: tables that few ranges name would be looked up for each range.
    """
    last = extracted.manifests[-1]
    return replace(
        request,
        start=last.stop,
        sequence=last.sequence + 1,
        issued_by=last.identity,
        bytes_total=None,
        on_tables=None,
    )
