"""Whether a server and some of its tables are ready for capture: everything that is checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

from airflow_provider_binlog.capture.segments import check_names
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.schema_history.completion import describe
from airflow_provider_binlog.sources.settings import Connections, ConnectionSettings
from airflow_provider_binlog.sql.columns import PartialSchema
from airflow_provider_binlog.transport.server import queries, setup
from airflow_provider_binlog.transport.server.setup import Finding, Level
from airflow_provider_binlog.transport.server.table_findings import list_table_findings


def list_findings(
    settings: ConnectionSettings, include: Sequence[str], exclude: Sequence[str] = ()
) -> list[Finding]:
    """Return what a server, the account and the tables that globs match are like.

    Without globs, or where the server itself is not ready, tables are not looked at.

    Raises:
        BinlogError: The server was not reached, or refused the account.
    """
    connections = Connections(settings)
    with closing(settings.connect()) as connection:
        of = queries.server_version(connection)
        findings = setup.list_findings(connection)
    if not include or not is_ready(findings):
        return findings

    def find_refusal(name: TableName, schema: PartialSchema) -> str:
        return find_type_refusal(name, schema, of.flavor, of.version)

    tables = list_table_findings(connections.open, include, exclude, find_refusal=find_refusal)
    return [*findings, *tables]


def is_ready(findings: Iterable[Finding]) -> bool:
    """Whether an extract is not refused, and quarantines no table for what is known now."""
    return all(finding.level is not Level.ERROR for finding in findings)


def find_type_refusal(
    name: TableName, schema: PartialSchema, flavor: Flavor, version: tuple[int, ...]
) -> str:
    """Return why rows of a table cannot be read; empty if they can."""
    try:
        check_names(compile_layout(describe(name, schema, flavor, version)))
    except BinlogError as error:
        named = {name: error.context[name] for name in ("column", "type") if name in error.context}
        where = ", ".join(f"{key} {value}" for key, value in named.items())
        return f"{error.args[0]}{f' ({where})' if where else ''}"
    return ""
