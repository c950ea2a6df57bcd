"""Ranges of a log about one database, staged under any `binlog_row_metadata`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from airflow_provider_binlog.transport.server.queries import identify, log_end
from airflow_provider_binlog.transport.stream.live import ServerBlockStream
from tests.fixtures.mysql import connect
from tests.services.servers import Account, Server
from tests.support.requests import a_request
from tests.support.staged import held_by, named_in, parts_of
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.transport.server.information_schema import ServerTables

numbers = count(1)


@dataclass(frozen=True)
class Logged:
    """A range of a server's log, about one database."""

    server: Server
    database: str
    start: Position
    stop: Position


def happen(server: Server, metadata: str, *statements: str, database: str | None = None) -> Logged:
    """Execute statements, in a new database if need be; their range of the log is returned."""
    prelude = [f"SET GLOBAL binlog_row_metadata = {metadata}"]
    if database is None:
        database = f"past_{next(numbers)}"
        # The beginning of the file is read for transactions in doubt: it is kept short.
        prelude += ["FLUSH BINARY LOGS", f"CREATE DATABASE {database} CHARACTER SET utf8mb4"]
    with closing(connect(server, ssl_disabled=True)) as connection:
        cursor = connection.cursor()
        for statement in (*prelude, f"USE {database}"):
            cursor.execute(statement)
        start = log_end(connection)
        for statement in statements:
            cursor.execute(statement)
        return Logged(server, database, start, log_end(connection))


@dataclass(frozen=True)
class Staging:
    """Where ranges are staged, one after the other."""

    store: ObjectStore = field(default_factory=lambda: open_store(f"memory://past{next(numbers)}"))

    def stage(
        self,
        logged: Logged,
        *,
        sequence: int = 1,
        account: Server | Account | None = None,
        tables: str = "*",
        exclude: tuple[str, ...] = (),
    ) -> Manifest:
        server, asked = logged.server, account or logged.server

        def read_tables(names: Collection[TableName]) -> ServerTables:
            with closing(connect(asked, ssl_disabled=True)) as connection:
                return read_server_tables(connection, names)

        flavor = Flavor.MARIADB if server.name.startswith("mariadb") else Flavor.MYSQL
        source = ServerBlockStream(lambda: connect(server, ssl_disabled=True), flavor=flavor)
        with closing(connect(server, ssl_disabled=True)) as connection:
            identity = identify(connection)
        with closing(source):
            (manifest,) = extract(
                a_request(
                    logged.start,
                    logged.stop,
                    identity=identity,
                    sequence=sequence,
                    tables=TableFilter([f"{logged.database}.{tables}"], exclude),
                    source_name="past",
                    before_images=BeforeImages.ALL,
                    read_server_tables=read_tables,
                    wants_defaults=True,
                ),
                source,
                self.store,
            ).manifests
        return manifest

    def changes(self, manifest: Manifest) -> list[tuple[Any, ...]]:
        """Return all changes in order: table, columns, and the row without its offsets."""
        found = []
        for table in manifest.tables:
            for part, rows in parts_of(self.store, "past", table):
                for row in rows:
                    offsets = row.pop("_row"), row.pop("_pos"), row.pop("_gtid"), row.pop("_file")
                    del row["_commit_ts"]
                    row["_image"] = held_by(table, table.schema(part.schema), row["_image"])
                    columns = [
                        (each.name, each.mysql_type, each.charset, each.nullable)
                        for each in table.schema(part.schema).fields
                    ]
                    found.append((offsets[0], named_in(part), columns, row))
        return [each[1:] for each in sorted(found, key=lambda each: each[0])]


def staged_content(staging: Staging, manifest: Manifest) -> tuple[Any, ...]:
    """Return what a manifest holds, without what differs between two runs of the same history."""
    statements = [
        (each.type, each.text, [type(action) for action in each.actions])
        for each in manifest.statements
    ]
    return staging.changes(manifest), statements
