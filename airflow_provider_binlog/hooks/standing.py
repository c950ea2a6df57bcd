"""Where capture of a source stands: its checkpoint, or the start that the DAG's author chose."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.checkpoint import Checkpoint, CheckpointStore, load
from airflow_provider_binlog.errors import (
    CheckpointMissingError,
    ConfigurationError,
    ForeignPositionError,
)
from airflow_provider_binlog.hooks.start import maybe_gtids, resolve_position
from airflow_provider_binlog.transport.server import queries as questions

if TYPE_CHECKING:
    from airflow_provider_binlog.hooks.settings import ConnectionSettings
    from airflow_provider_binlog.hooks.start import Start
    from airflow_provider_binlog.position import Position, SourceIdentity


NO_START = (
    'there is no checkpoint: choose where to begin, start="now", "earliest", '
    '"file:offset" or a GTID set'
)


REFUSE, FOLLOW = FAILOVER = ("refuse", "follow")
"""What to do where the checkpoint belongs to another server."""


@dataclass(frozen=True)
class Standing:
    """What was found on looking.

    Attributes:
        identity: The server that was asked, or that files are of.
        checkpoint: None on the first run.
        start: The checkpoint's position, or on the first run the chosen start; None where that is
            a GTID set, which is looked up when it is needed and means the same then: on a first
            run, and where the server took over from the checkpoint's.
        log_end: Where the server's log ended.
        grown: Of a server that took over, whether it executed more than the checkpoint says.
    """

    identity: SourceIdentity
    checkpoint: Checkpoint | None
    start: Position | None
    log_end: Position
    grown: bool = False

    @property
    def has_work(self) -> bool:
        """Whether the log has grown, or the first checkpoint is to be made."""
        if self.checkpoint is None:
            return True
        if self.start is None:
            return self.grown
        return self.log_end.coordinates > self.checkpoint.position.coordinates


def look(
    settings: ConnectionSettings,
    store: CheckpointStore,
    key: str,
    *,
    start: Start | None,
    failover: str = REFUSE,
) -> Standing:
    """Return where capture stands; changes nothing.

    Raises:
        CheckpointMissingError: There is no checkpoint, and `start` is None.
        ConfigurationError: `failover` is none of `FAILOVER`.
        ForeignPositionError: The position was issued by another server, and `failover` does not say
            to follow, or what it executed is not in this server's log; or by a log since reset.
        PositionPurgedError: The server no longer has the log at the position.
    """
    if failover not in FAILOVER:
        raise ConfigurationError(f"failover is one of {', '.join(FAILOVER)}", given=failover)
    saved = load(store, key)
    position = saved.position if saved else _first_position(settings, start, key)
    with closing(settings.connect()) as connection:
        here = questions.identify(connection)
        if saved is not None and saved.identity != here:
            gtids = _gtids_of(saved, here, failover)
            questions.check_gtids(connection, gtids)
            grown = questions.gtid_executed(connection) != gtids
            return Standing(here, saved, None, questions.log_end(connection), grown)
        if position is not None:
            questions.check_position(connection, here, position)
        return Standing(here, saved, position, questions.log_end(connection))


def _gtids_of(saved: Checkpoint, here: SourceIdentity, failover: str) -> str:
    """Return the GTIDs at which another server takes over from the checkpoint's."""
    issued_by = f"{saved.identity.flavor.value} {saved.identity.server}"
    found = {"position": saved.position, "issued_by": issued_by, "this_is": here.server}
    if failover != FOLLOW:
        raise ForeignPositionError(
            "the checkpoint belongs to another server, or to a log of another name: if this server "
            'took over from it, failover="follow" finds the place by GTID',
            log_name=here.log_name,
            **found,
        )
    if here.flavor is not saved.identity.flavor:
        raise ForeignPositionError("a server of another family cannot take over", **found)
    if not saved.position.gtid:
        raise ForeignPositionError(
            "the checkpoint has no GTIDs by which its place could be found on another server: take "
            "a new snapshot there",
            **found,
        )
    return saved.position.gtid


def _first_position(settings: ConnectionSettings, start: Start | None, key: str) -> Position | None:
    if start is None:
        raise CheckpointMissingError(NO_START, key=key)
    return None if maybe_gtids(start) else resolve_position(settings, start)
