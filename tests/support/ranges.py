"""Ranges of a real server's log: something happens, is staged, and is compared with SELECT."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.capture import TableFilter, extract
from airflow_provider_binlog.changes import CHANGE_COLUMNS
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.schema import DropTable, TruncateTable
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from airflow_provider_binlog.transport.server.queries import identify, log_end
from airflow_provider_binlog.transport.stream.live import ServerBlockStream
from tests.fixtures.mysql import Database, connect
from tests.services.servers import Server
from tests.support.requests import a_request
from tests.support.staged import changes_of
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
    changes: list[tuple[tuple[int, int, int], TableChanges | None, Any]] = []
    for number, staged in enumerate(ranges):
        changes += [
            ((number, int(row["_row"]), 1), table, row)
            for table in staged.manifest.tables
            for row in staged.rows(table)
        ]
        # A statement applies after the rows with a smaller number.
        changes += [((number, each.row, 0), None, each) for each in staged.manifest.statements]
    tables: dict[str, dict[Any, Counter[tuple[Any, ...]]]] = {}
    for _, table, change in sorted(changes, key=lambda each: each[0]):
        if table is None:
            for action in change.actions:
                if isinstance(action, TruncateTable | DropTable):
                    tables.pop(action.table, None)
            continue
        content = tables.setdefault(table.id, {})
        key = table.schemas[-1].key_names
        values = tuple(value for name, value in change.items() if name not in CHANGE_COLUMNS)
        row = Counter([values])
        row_key = tuple(change[name] for name in key)
        kind = change["_change_type"]
        if key and kind in ("insert", "update_postimage"):
            content[row_key] = row
        elif key:
            del content[row_key]
        elif kind in ("insert", "update_postimage"):
            content[row_key] = content.get(row_key, Counter()) + row
        else:
            assert content[row_key][values] > 0
            content[row_key] = content[row_key] - row
    names = {table.id: table.table for staged in ranges for table in staged.manifest.tables}
    return {
        names[table]: sum(content.values(), start=Counter())
        for table, content in tables.items()
        if content
    }


def select(database: Database) -> dict[str, Counter[tuple[Any, ...]]]:
    names = [name for (name,) in database.query("SHOW TABLES")]
    found = {name: Counter(database.query(f"SELECT * FROM `{name}`")) for name in names}
    return {name: rows for name, rows in found.items() if rows}


def plain(value: Any) -> Any:
    """Return a staged value as PyMySQL returns it."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def assert_equal_to_select(staged: Staged, database: Database) -> None:
    applied = {
        name: Counter({tuple(map(plain, row)): count for row, count in rows.items() if count})
        for name, rows in apply(staged).items()
    }
    assert {name: rows for name, rows in applied.items() if rows} == select(database)
