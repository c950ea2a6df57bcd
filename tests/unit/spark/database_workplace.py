"""A workplace whose lake is a database of PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_provider_binlog.spark.job.options import MergeOptions
from airflow_provider_binlog.spark.names import postgresql_name
from airflow_provider_binlog.spark.target.postgresql import marks
from airflow_provider_binlog.table_options import TableRules
from tests.support.postgresql import administer, read_table, settings_of
from tests.support.stores import open_store
from tests.unit.spark.workplace import Workplace

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.target.postgresql.connection import Connection
    from airflow_provider_binlog.spark.target.postgresql.marks import StoredTable
    from airflow_provider_binlog.spark.target.state import TargetState
    from tests.services.postgresql import PostgresServer
    from tests.unit.spark.history import Table


@dataclass
class DatabaseWorkplace(Workplace):
    """Where one test merges into PostgreSQL.

    Attributes:
        server: The server.
        other: A session of somebody else there, who may do everything.
    """

    server: PostgresServer = field(kw_only=True)
    other: Connection = field(init=False)

    def __post_init__(self) -> None:
        self.other = administer(self.spark, self.server)

    def options(self, **options: Any) -> MergeOptions:
        # A merge takes its own away, unless it is killed before.
        file = Path(self.root.removeprefix("file://")) / f"connection-{uuid4().hex}.json"
        settings_of(self.server).write(file)
        lake: dict[str, Any] = {"lake": "warehouse", "connection": str(file)}
        return super().options(**(lake | options))

    def target(self, table: Table) -> str:
        return postgresql_name(TableRules(), *table.name)

    def stored(self, table: Table) -> StoredTable:
        stored = marks.read_table(self.other, *table.name)
        assert stored is not None
        return stored

    def state(self, table: Table) -> TargetState:
        return self.stored(table).state

    def find_state(self, database: str, table: str) -> TargetState | None:
        stored = marks.read_table(self.other, database, table)
        return None if stored is None else stored.state

    def read(self, database: str, table: str) -> dict[str, list[Any]]:
        return read_table(self.other, database, table)

    def found(self, table: Table) -> list[dict[str, Any]]:
        values = self.read(*table.name)
        return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def database_workplace(spark: Any, server: PostgresServer, folder: Any) -> DatabaseWorkplace:
    """Return a workplace in a folder and a server."""
    store = open_store(f"file://{folder}/staging")
    return DatabaseWorkplace(spark, "postgresql", f"file://{folder}", store, server=server)
