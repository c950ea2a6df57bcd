"""Logged statements without a log."""

from __future__ import annotations

from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.blocks.captured import LoggedStatement
from airflow_provider_binlog.position import Flavor


def a_statement(
    sql: str,
    *,
    row: int = 0,
    offset: int = 4,
    flavor: Flavor = Flavor.MYSQL,
    database: str = "shop",
    sql_mode: int | None = 0,
    error: int = 0,
) -> LoggedStatement:
    """Return a statement as the log has it."""
    query = Query(7, database, error, sql, 255, sql_mode)
    return LoggedStatement(row, "binlog.000001", offset, query, flavor)
