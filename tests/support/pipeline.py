"""From a real server through capture and merge into a lake, range by range."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import DEFAULT_POLICIES, OnTableError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.table_options import TableRules
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from airflow_provider_binlog.transport.server.queries import identify, log_end
from airflow_provider_binlog.transport.stream.live import ServerBlockStream
from tests.fixtures.mysql import Database, connect
from tests.support.compare import compare, read_tables, select
from tests.support.requests import a_request

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from airflow_provider_binlog.changes import Policies
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.position import Position
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.transport.server.information_schema import ServerTables
    from tests.support.compare import Difference
    from tests.unit.spark.workplace import Workplace

in_either_pipeline = pytest.mark.parametrize(
    "pipeline",
    [("mysql97", "iceberg"), pytest.param(("mariadb118", "delta"), marks=pytest.mark.slow)],
    ids="-".join,
    indirect=True,
)
"""For what both pipelines do in the same way: on the quicker one, and with -m slow on the other."""


class Pipeline:
    """A database, captured and merged range by range."""

    def __init__(
        self, database: Database, workplace: Workplace, policies: Policies = DEFAULT_POLICIES
    ) -> None:
        self.database, self.workplace, self.policies = database, workplace, policies
        self.next_sequence, self.at = 1, self.end()
        self.on_table_error = OnTableError.FAIL
        self.manifests: list[Manifest] = []
        self.table_options = TableRules()
        self.after_capture: Callable[[], object] = lambda: None

    def run(self, *tables: str) -> None:
        """Capture and merge what happened since the last time; compare."""
        self.capture()
        self.workplace.merge(tables=tables or ["*"])
        assert self.differences() == []

    def capture(self) -> None:
        """Capture what happened since the last time."""
        server, stop = self.database.server, self.end()
        flavor = Flavor.MARIADB if server.name.startswith("mariadb") else Flavor.MYSQL
        source = ServerBlockStream(lambda: connect(server, ssl_disabled=True), flavor=flavor)
        with closing(connect(server)) as connection:
            identity = identify(connection)
        extracted = extract(
            a_request(
                self.at,
                stop,
                identity=identity,
                sequence=self.next_sequence,
                tables=TableFilter([f"{self.database.name}.*"]),
                source_name=self.workplace.source,
                policies=self.policies,
                on_table_error=self.on_table_error,
                read_server_tables=self._read_server_tables,
                wants_defaults=True,
            ),
            source,
            self.workplace.store,
        )
        self.manifests += extracted.manifests
        self.next_sequence += len(extracted.manifests)
        self.at = stop
        self.after_capture()

    def merge(self) -> dict[str, str]:
        """Merge what is captured; return, by table, why those were not merged that were not."""
        why = {
            each.table.partition(".")[2]: each.error or f"{each.reason} (position={each.position})"
            for each in self.workplace.try_merge(table_options=self.table_options).tables
            if each.error or each.reason
        }
        return dict(sorted(why.items()))

    def differences(self, *, but: Collection[str] = ()) -> list[tuple[str, Difference]]:
        """Compare every table whose name does not begin with `_` with its lake table."""
        found = []
        with closing(self.database.connect()) as connection:
            for table in read_tables(connection, self.database.name):
                if table.name.startswith("_") or table.name in but:
                    continue
                lake = self.workplace.read(table.database, table.name)
                differing = compare(table, select(connection, table), lake)
                found += [(table.name, each) for each in differing]
        return found

    def _read_server_tables(self, names: Collection[TableName]) -> ServerTables:
        with closing(connect(self.database.server)) as connection:
            return read_server_tables(connection, names)

    def end(self) -> Position:
        """Return where the server's log ends."""
        with closing(connect(self.database.server)) as connection:
            return log_end(connection)
