"""What every `Log` does: subclass the cases and give the fixtures `log` and `write`.

`log` opens the log as it is now; `write` commits one more transaction to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import (
    CheckpointMissingError,
    ConfigurationError,
    ForeignPositionError,
)
from airflow_provider_binlog.position import Position, SourceIdentity, split_file_name
from airflow_provider_binlog.sources.state import Log

OpenLog = Callable[[], Log]
Write = Callable[[], None]


def saved(identity: SourceIdentity, position: Position) -> Checkpoint:
    return Checkpoint(identity, position, 1, "2026-11-21T00:00:00+00:00", "a test")


class LogCases:
    """Each test is a sentence of the contract."""

    def test_its_blocks_lead_from_first_to_end(self, log: OpenLog) -> None:
        opened = log()
        first, end = opened.first(), opened.end()
        blocks = list(opened.blocks(first, end))
        opened.close()

        assert (blocks[0].file, int(blocks[0].offset[0])) == (first.file, first.offset)
        assert (blocks[-1].file, blocks[-1].next_offset) == (end.file, end.offset)
        assert {block.format.flavor for block in blocks} == {opened.flavor()}

    def test_its_files_are_ordered(self, log: OpenLog) -> None:
        opened = log()
        files = [block.file for block in opened.blocks(opened.first(), opened.end())]
        opened.close()

        numbers = [split_file_name(file)[1] for file in files]
        assert numbers == sorted(numbers)
        assert len(set(numbers)) == len(set(files)) > 1

    def test_a_start_is_resolved(self, log: OpenLog) -> None:
        opened = log()
        first = opened.first()

        assert opened.resolve("earliest") == first
        assert opened.resolve("now") == opened.end()
        assert opened.resolve(f"{first.file}:{first.offset}") == first
        with pytest.raises(ConfigurationError):
            opened.resolve("yesterday")

    def test_a_first_run_needs_a_start(self, log: OpenLog) -> None:
        with pytest.raises(CheckpointMissingError, match="choose where"):
            log().read_state(None, start=None)

    def test_a_first_run_has_work(self, log: OpenLog) -> None:
        opened = log()
        state = opened.read_state(None, start="earliest")

        assert state.has_work
        assert (state.checkpoint, state.start) == (None, opened.first())
        assert state.log_end == opened.end()

    def test_there_is_work_when_the_log_has_grown(self, log: OpenLog, write: Write) -> None:
        before = log().read_state(None, start="now")
        store = saved(before.identity, before.log_end)
        assert not log().read_state(store, start=None).has_work

        write()
        state = log().read_state(store, start="ignored: there is a checkpoint")

        assert state.has_work
        assert (state.start, state.identity) == (before.log_end, before.identity)

    def test_a_position_of_another_log_is_refused(self, log: OpenLog) -> None:
        state = log().read_state(None, start="now")
        end = state.log_end
        past = replace(end, offset=end.offset + (1 << 20))
        other = replace(state.identity, log_name="other")

        for identity, position in (
            (state.identity, past),
            (other, Position("other.000001", 4)),
        ):
            with pytest.raises(ForeignPositionError):
                log().read_state(saved(identity, position), start=None)

    def test_it_can_be_checked_and_described(self, log: OpenLog) -> None:
        opened = log()
        opened.check()

        assert opened.describe()

    def test_closing_it_twice_is_harmless(self, log: OpenLog) -> None:
        opened = log()
        next(iter(opened.blocks(opened.first())))
        opened.close()
        opened.close()
