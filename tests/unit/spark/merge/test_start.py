"""Notes of merges that run: those that were killed are noticed, and expire."""

from __future__ import annotations

import time

import pytest

from airflow_provider_binlog.errors import TargetConflictError
from airflow_provider_binlog.spark.merge.progress import RunningMerge, note_start, read_running
from tests.unit.spark.memory_files import Files

NAMES = frozenset({("shop", "t"), ("shop", "u")})
HOUR = 3600


def test_a_note_is_read_by_others_until_it_is_deleted() -> None:
    files = Files()
    note = note_start(files, "x", NAMES)

    (read,) = read_running(files, "x")
    assert (read.path, read.tables) == (note.path, NAMES)
    assert not read.has_ended
    read.check()
    files.delete(note.path)
    assert read_running(files, "x") == []


@pytest.mark.parametrize(("hours", "starts", "ended"), [(11, True, False), (13, False, False)])
def test_a_merge_stops_before_its_note_expires(hours: int, starts: bool, ended: bool) -> None:
    note = RunningMerge("x", time.time() - hours * HOUR, NAMES)

    assert note.has_ended == ended
    if not starts:
        with pytest.raises(TargetConflictError):
            note.check()
    assert RunningMerge("x", time.time() - 25 * HOUR, NAMES).has_ended


def test_a_note_that_is_not_written_to_its_end_names_no_table() -> None:
    files = Files()
    files.write("x/running/1.json", b'{"started": 1')

    (read,) = read_running(files, "x")

    assert not read.has_ended
    assert not read.tables
