"""Reads of stores and servers in threads, which no request waits for longer than it says.

A thread that hangs holds up neither the api-server's event loop nor its end. What was read serves
every request for some seconds; who may see it is decided before.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from airflow_provider_binlog.errors import BinlogError

_log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

_THREADS = 16
_THREADS_PER_ORIGIN = 4
_KEPT = 400


@dataclass(frozen=True)
class Reading(Generic[_Value]):
    """Result of a read.

    Attributes:
        value: What was read, now or before; None if nothing was.
        problem: Why it could not be read now; empty if it was.
        is_pending: Whether there is no answer yet.
        error: What the problem was raised as.
    """

    value: _Value | None = None
    problem: str = ""
    is_pending: bool = False
    error: BaseException | None = field(default=None, compare=False)


class _Entry:
    def __init__(self, previous: Any) -> None:
        self.future: Future[Reading[Any]] = Future()
        self.previous = previous
        self.ended = 0.0


class Readings:
    """Reads by their keys, each once at a time."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, _Entry, Callable[[], Any]]] = deque()
        self._running: Counter[str] = Counter()

    async def get(
        self,
        key: Hashable,
        origin: str,
        read: Callable[[], _Value],
        *,
        seconds_kept: float,
        seconds_waited: float,
    ) -> Reading[_Value]:
        """Return the result of a read.

        Args:
            key: Names what is read.
            origin: Names the store or the server: one that hangs takes some threads, not all.
            read: Reads it, in a thread.
            seconds_kept: A result that is no older is returned again.
            seconds_waited: After that what was read before is returned, or nothing.
        """
        entry = self._start(key, origin, read, seconds_kept)
        # Unlike `wait_for`, it does not cancel what others wait for, too.
        await asyncio.wait([asyncio.wrap_future(entry.future)], timeout=seconds_waited)
        if entry.future.done():
            return entry.future.result()
        return Reading(entry.previous, is_pending=True)

    def drop(self, key: Hashable) -> None:
        """Keep what a key names no longer, unless it is being read."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.future.done():
                del self._entries[key]

    def _start(
        self, key: Hashable, origin: str, read: Callable[[], Any], seconds_kept: float
    ) -> _Entry:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                is_new = time.monotonic() - entry.ended <= seconds_kept
                if not entry.future.done() or is_new:
                    return entry
            entry = _Entry(None if entry is None else entry.future.result().value)
            self._entries[key] = entry
            while len(self._entries) > _KEPT:
                self._entries.popitem(last=False)
            self._waiting.append((origin, entry, read))
            self._start_threads()
            return entry

    def _start_threads(self) -> None:
        for item in list(self._waiting):
            origin = item[0]
            if self._running.total() >= _THREADS:
                return
            if self._running[origin] >= _THREADS_PER_ORIGIN:
                continue
            self._waiting.remove(item)
            self._running[origin] += 1
            # A pool of the standard library would wait for its threads at the end.
            threading.Thread(target=self._run, args=item, name="binlog-page", daemon=True).start()

    def _run(self, origin: str, entry: _Entry, read: Callable[[], Any]) -> None:
        try:
            reading = Reading(read())
        except Exception as error:  # noqa: BLE001  It is shown where it is waited for.
            problem = str(error)
            if not isinstance(error, BinlogError):
                _log.exception("The page of a source could not be read")
                problem = f"{type(error).__name__}: {problem}"
            reading = Reading(entry.previous, problem, error=error)
        with self._lock:
            entry.ended = time.monotonic()
            self._running[origin] -= 1
            self._start_threads()
        entry.future.set_result(reading)
