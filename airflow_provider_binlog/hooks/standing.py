"""Where capture of a source stands: its checkpoint, or the start that the DAG's author chose."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.checkpoint import Checkpoint, CheckpointStore, load
from airflow_provider_binlog.errors import CheckpointMissingError
from airflow_provider_binlog.hooks.start import maybe_gtids, resolve_position
from airflow_provider_binlog.transport import questions

if TYPE_CHECKING:
    from airflow_provider_binlog.hooks.settings import ConnectionSettings
    from airflow_provider_binlog.hooks.start import Start
    from airflow_provider_binlog.position import Position, SourceIdentity


@dataclass(frozen=True)
class Standing:
    """What was found on looking.

    Attributes:
        identity: The server that was asked.
        checkpoint: None on the first run.
        start: The checkpoint's position, or on the first run the chosen start; None where that is
            a GTID set, which is looked up when it is needed and means the same then.
        log_end: Where the server's log ended.
    """

    identity: SourceIdentity
    checkpoint: Checkpoint | None
    start: Position | None
    log_end: Position

    @property
    def has_work(self) -> bool:
        """Whether the log has grown, or the first checkpoint is to be made."""
        if self.checkpoint is None:
            return True
        return self.log_end.place > self.checkpoint.position.place


def look(
    settings: ConnectionSettings, store: CheckpointStore, key: str, *, start: Start | None
) -> Standing:
    """Return where capture stands; changes nothing.

    Raises:
        CheckpointMissingError: There is no checkpoint, and `start` is None.
        ForeignPositionError: The position was issued by another server, or by a log since reset.
        PositionPurgedError: The server no longer has the log at the position.
    """
    saved = load(store, key)
    position = saved.position if saved else _first_position(settings, start, key)
    with closing(settings.connect()) as connection:
        here = questions.identify(connection)
        if position is not None:
            questions.check_position(connection, saved.identity if saved else here, position)
        return Standing(here, saved, position, questions.log_end(connection))


def _first_position(settings: ConnectionSettings, start: Start | None, key: str) -> Position | None:
    if start is None:
        raise CheckpointMissingError(
            'there is no checkpoint: choose where to begin, start="now", "earliest", '
            '"file:offset" or a GTID set',
            key=key,
        )
    return None if maybe_gtids(start) else resolve_position(settings, start)
