"""Ranges of a real server's log: something happens, is staged, and is compared with SELECT."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from airflow_provider_binlog.transport.server.queries import identify, log_end
from airflow_provider_binlog.transport.stream.live import ServerBlockStream
from tests.fixtures.mysql import Database, connect
from tests.services.servers import Server
from tests.support.requests import a_request
from tests.support.staged import Replay, changes_of
from tests.support.stores import open_store

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import TableChanges
    from airflow_provider_binlog.transport.block_stream import BlockStream

Row = dict[str, Any]
_numbers = count()

# ------------------------------------------------------------------- a range, and what is staged


@dataclass(frozen=True)
class Range:
    """What happened on a server between two moments."""

    database: Database
    start: Position
    stop: Position

    @property
    def server(self) -> Server:
        return self.database.server


@dataclass(frozen=True)
class Staged:
    """What a range was staged as."""

    manifest: Manifest
    store: ObjectStore

    def rows(self, table: TableChanges) -> list[Row]:
        """Return the change rows of a table, by `_row`."""
        return sorted(changes_of(self.store, "shop", table), key=lambda row: int(row["_row"]))


def end_of(server: Server) -> Position:
    with closing(connect(server)) as connection:
        return log_end(connection)


def happen(database: Database, *statements: str) -> Range:
    start = end_of(database.server)
    database.execute(*statements)
    return Range(database, start, end_of(database.server))


def live(server: Server, **options: Any) -> ServerBlockStream:
    flavor = Flavor.MARIADB if server.name.startswith("mariadb") else Flavor.MYSQL
    return ServerBlockStream(lambda: connect(server, ssl_disabled=True), flavor=flavor, **options)


def files(server: Server, **options: Any) -> FileBlockStream:
    return FileBlockStream(sorted(server.data.glob(f"binlog.{'[0-9]' * 6}")), **options)


def stage(source: BlockStream, happened: Range, **arguments: Any) -> Staged:
    with closing(connect(happened.server)) as connection:
        identity = identify(connection)
    store = arguments.pop("store", None) or open_store(f"memory://captured{next(_numbers)}")
    tables = TableFilter([f"{happened.database.name}.*"])
    defaults: dict[str, Any] = {"identity": identity, "tables": tables}
    start = arguments.pop("start", happened.start)
    request = a_request(start, happened.stop, **defaults | arguments)
    (manifest,) = extract(request, source, store).manifests
    return Staged(replace(manifest, created_at=""), store)


# ------------------------------------------------------------------- the same as SELECT


def apply(*ranges: Staged) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the tables after all changes, one after another; actions in their order."""
    replay = Replay()
    for staged in ranges:
        replay.apply(staged.store, "shop", staged.manifest)
    tables = replay.tables().items()
    counted = {name: Counter(tuple(row.values()) for row in rows) for name, rows in tables}
    return {name: rows for name, rows in counted.items() if rows}


def select(database: Database) -> dict[str, Counter[tuple[Any, ...]]]:
    names = [name for (name,) in database.query("SHOW TABLES")]
    found = {name: Counter(database.query(f"SELECT * FROM `{name}`")) for name in names}
    return {name: rows for name, rows in found.items() if rows}


def plain(value: Any) -> Any:
    """Return a staged value as PyMySQL returns it."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def assert_equal_to_select(staged: Staged, database: Database, *later: Staged) -> None:
    applied = {
        name: Counter({tuple(map(plain, row)): count for row, count in rows.items()})
        for name, rows in apply(staged, *later).items()
    }
    assert applied == select(database)
