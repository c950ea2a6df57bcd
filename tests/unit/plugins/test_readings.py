"""Reads in threads: once at a time, bounded, and never waited for longer than said."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_binlog.errors import StagingError
from airflow_provider_binlog.plugins.readings import Reading, Readings


def get(readings: Readings, read: Callable[[], Any], key: str = "key", **more: Any) -> Reading[Any]:
    given: dict[str, Any] = {"origin": "store", "seconds_kept": 60, "seconds_waited": 30} | more
    return asyncio.run(readings.get(key, given.pop("origin"), read, **given))


def fail(error: Exception) -> Callable[[], Any]:
    def read() -> Any:
        raise error

    return read


def test_a_value_is_read_once_while_it_is_new() -> None:
    readings, calls = Readings(), iter(range(10))

    assert get(readings, lambda: next(calls)) == Reading(0)
    assert get(readings, lambda: next(calls)) == Reading(0)
    assert get(readings, lambda: next(calls), "other") == Reading(1)
    assert get(readings, lambda: next(calls), seconds_kept=-1) == Reading(2)
    readings.drop("key")
    assert get(readings, lambda: next(calls)) == Reading(3)


def test_an_error_is_a_problem_beside_what_was_read_before() -> None:
    readings = Readings()
    assert get(readings, fail(StagingError("denied"))) == Reading(None, "denied")

    assert get(readings, lambda: 1, seconds_kept=-1) == Reading(1)
    assert get(readings, fail(StagingError("denied")), seconds_kept=-1) == Reading(1, "denied")
    assert get(readings, fail(StagingError("denied")), seconds_kept=-1) == Reading(1, "denied")


def test_a_bug_is_a_problem_too_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert get(Readings(), fail(KeyError("x"))) == Reading(None, "KeyError: 'x'")
    assert "could not be read" in caplog.text


def test_what_hangs_is_pending_and_serves_all_who_wait_for_it() -> None:
    readings, released, calls = Readings(), threading.Event(), []

    def hang() -> int:
        calls.append(1)
        released.wait(60)
        return 7

    assert get(readings, hang, seconds_waited=0.01) == Reading(is_pending=True)
    assert get(readings, hang, seconds_waited=0.01) == Reading(is_pending=True)
    released.set()
    assert get(readings, hang) == Reading(7)
    assert len(calls) == 1


def test_a_store_that_hangs_leaves_threads_to_the_others() -> None:
    readings, released = Readings(), threading.Event()

    def hang() -> None:
        released.wait(60)

    for number in range(40):
        get(readings, hang, f"hangs {number}", seconds_waited=0)
    assert get(readings, lambda: 1, "works", origin="another store") == Reading(1)
    assert sum(each.name == "binlog-page" for each in threading.enumerate()) < 10
    # Once it answers, what waited is read, too.
    released.set()
    assert get(readings, lambda: 2, "later") == Reading(2)


def test_a_thread_that_hangs_does_not_hold_up_the_end_of_the_process() -> None:
    readings, released = Readings(), threading.Event()
    get(readings, lambda: released.wait(60), seconds_waited=0.01)

    threads = [each for each in threading.enumerate() if each.name == "binlog-page"]
    released.set()
    assert threads
    assert all(thread.daemon for thread in threads)
