"""`check`, `status`: what a server and its tables are like for capture, how far it is staged."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from airflow_provider_binlog.checkpoint import Checkpoint, checkpoint_key, load
from airflow_provider_binlog.cli.output import print_record, print_records
from airflow_provider_binlog.cli.source import (
    MetastoreVariableStore,
    read_settings,
)
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.sources.lag import read_lag
from airflow_provider_binlog.sources.settings import Connections, ConnectionSettings
from airflow_provider_binlog.transport.server import queries, setup
from airflow_provider_binlog.transport.server.driver import Connection
from airflow_provider_binlog.transport.server.information_schema import describe_tables
from airflow_provider_binlog.transport.server.setup import Level

_NOT_READY = 1


def check(arguments: argparse.Namespace) -> int:
    """Print everything that is checked; return 1 if an extract of the tables would be refused."""
    # Here, because it loads NumPy.
    from airflow_provider_binlog.sources.findings import (
        LOG,
        is_ready,
        list_checkpoint_findings,
        list_findings,
    )

    settings = read_settings(arguments.source)
    findings = list_findings(settings, arguments.tables or (), arguments.exclude or ())
    if arguments.name is not None and any(finding.name == LOG for finding in findings):
        saved = load(MetastoreVariableStore(), checkpoint_key(arguments.name))
        findings += list_checkpoint_findings(settings, saved)
    if arguments.output in ("json", "yaml"):
        print_records([finding.to_json() for finding in findings], arguments.output)
    else:
        records = [
            {
                "level": finding.level.value,
                "check": finding.name,
                "found": finding.found,
                "what to do": str(finding),
                "tables": finding.tables,
            }
            for finding in findings
        ]
        print_records(records, arguments.output)
    return 0 if is_ready(findings) else _NOT_READY


def status(arguments: argparse.Namespace) -> int:
    """Print where a server's log ends, and how far a source's checkpoint is from there.

    Returns 1 if the server cannot be captured.
    """
    settings = read_settings(arguments.source)
    with closing(settings.connect()) as connection:
        of = queries.server_version(connection)
        record: dict[str, Any] = {"server": settings.address, "version": of.text}
        findings = setup.list_findings(connection)
        wrong = [str(finding) for finding in findings if finding.level is Level.ERROR]
        if not wrong:
            record |= _describe_log(connection)
            unreadable = setup.find_unreadable(connection)
            wrong = [] if unreadable is None else [str(unreadable)]
    record["capture"] = "ready" if not wrong else "not ready"
    record["not checked"] = "the captured tables, and SELECT on them: `check --tables` does"
    record["problems"] = wrong
    record["warnings"] = [str(finding) for finding in findings if finding.level is Level.WARNING]
    if "end" in record and arguments.name is not None:
        record |= _describe_checkpoint(settings, arguments.name)
    print_record(record, arguments.output)
    return 0 if not wrong else _NOT_READY


def _describe_log(connection: Connection) -> dict[str, Any]:
    logs = queries.binary_logs(connection)
    return {
        "identity": str(queries.identify(connection)),
        "log files": len(logs),
        "log bytes": sum(log.size for log in logs),
        "oldest": str(queries.first_position(connection)),
        "end": str(queries.log_end(connection)),
        "executed": queries.gtid_executed(connection),
        "tables": describe_tables(connection),
    }


def _describe_checkpoint(settings: ConnectionSettings, name: str) -> dict[str, Any]:
    saved = load(MetastoreVariableStore(), checkpoint_key(name))
    if saved is None:
        return {"checkpoint": None}
    return {
        "checkpoint": str(saved.position),
        "manifest": saved.sequence,
        "saved at": saved.saved_at,
        **_describe_lag(settings, saved),
    }


def _describe_lag(settings: ConnectionSettings, saved: Checkpoint) -> dict[str, Any]:
    try:
        lag = read_lag(Connections(settings).open, saved.position, saved.identity)
    except BinlogError as error:
        return {"lag": str(error)}
    return {
        "lag bytes": lag.bytes,
        "lag seconds": round(lag.seconds),
        "head-room seconds": lag.head_room_seconds,
    }
