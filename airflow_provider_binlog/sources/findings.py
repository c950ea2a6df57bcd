"""Whether a server and some of its tables are ready for capture: everything that is checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import timedelta

from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import BinlogError, ForeignPositionError
from airflow_provider_binlog.sources.lag import read_lag
from airflow_provider_binlog.sources.settings import Connections, ConnectionSettings
from airflow_provider_binlog.sources.table_findings import list_table_findings
from airflow_provider_binlog.transport.server import queries, setup
from airflow_provider_binlog.transport.server.driver import Connection
from airflow_provider_binlog.transport.server.setup import Finding, Level

LOG = "log"
"""Names the finding that a server which is ready has."""


def list_findings(
    settings: ConnectionSettings, include: Sequence[str], exclude: Sequence[str] = ()
) -> list[Finding]:
    """Return what a server, the account and the tables that globs match are like.

    Without globs, tables are not looked at, but for whether the account sees any where it has to.
    Where the server itself is not ready, neither its log nor its tables are.

    Raises:
        BinlogError: The server was not reached, or refused the account.
    """
    connections = Connections(settings)
    with closing(settings.connect()) as connection:
        findings = setup.list_findings(connection)
        if not is_ready(findings):
            return findings
        findings.append(_describe_log(connection))
        if not include:
            unreadable = setup.find_unreadable(connection)
            return findings if unreadable is None else [*findings, unreadable]
    return [*findings, *list_table_findings(connections.open, include, exclude)]


def _describe_log(connection: Connection) -> Finding:
    logs = queries.binary_logs(connection)
    size = sum(log.size for log in logs)
    first, end = queries.first_position(connection), queries.log_end(connection)
    return Finding(LOG, f"{first} to {end}: {len(logs)} files, {size:,} bytes")


def list_checkpoint_findings(
    settings: ConnectionSettings, saved: Checkpoint | None
) -> list[Finding]:
    """Return whether the server still has the log at a checkpoint, and for how long.

    Raises:
        ConnectionLostError: The server was not reached.
    """
    if saved is None:
        return [Finding("checkpoint", "none yet: the first run begins at the start of its source")]
    try:
        lag = read_lag(Connections(settings).open, saved.position, saved.identity)
    except BinlogError as error:
        if error.retryable:
            raise
        # With the section of the docs that says how to go on.
        error.name_section()
        why = str(error)
        if isinstance(error, ForeignPositionError):
            why += '; failover="follow" of the source continues on a promoted replica'
        return [Finding("checkpoint", str(saved.position), Level.ERROR, why)]
    waits = f"{saved.position}: {lag.bytes:,} bytes of log wait, for {lag.seconds:.0f} s"
    return [Finding("checkpoint", waits), _check_head_room(lag.head_room)]


def _check_head_room(kept: timedelta | None) -> Finding:
    name = "head-room"
    if kept is None:
        return Finding(name, "for ever")
    shown = str(timedelta(seconds=max(0, round(kept.total_seconds()))))
    if kept >= setup.KEPT_MIN:
        return Finding(name, shown)
    return Finding(
        name,
        shown,
        Level.WARNING,
        "the server keeps the log at the checkpoint for less than a day: after that, all tables "
        "have to be reloaded",
        "run the tasks that stage it, or raise binlog_expire_logs_seconds; on RDS and Aurora "
        "binlog retention hours",
    )


def is_ready(findings: Iterable[Finding]) -> bool:
    """Whether an extract is not refused, and quarantines no table for what is known now."""
    return all(finding.level is not Level.ERROR for finding in findings)
