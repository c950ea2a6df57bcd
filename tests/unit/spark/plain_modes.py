"""What lake tables are to hold in every mode, event by event in Python: what merges are held to.

model = PlainLakes(mode)
for event in source.events:
    model.apply(event)
model.lakes["shop", "orders"].rows
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.unit.spark.staged_changes import LOG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_binlog.schema import TableId, TableName
    from airflow_provider_binlog.spark.target.modes import TableMode
    from tests.unit.spark.history import Event

Row = dict[str, Any]
_TYPES = {"insert": "insert", "update": "update_postimage", "delete": "delete"}


def time_text(commit_ts: int) -> str:
    """Return microseconds since 1970 as merges write a time that no row has."""
    return f"{datetime.fromtimestamp(0, UTC) + timedelta(microseconds=commit_ts):%F %T.%f}"


def metadata(event: Event, kind: str) -> Row:
    """Return what is held of a change."""
    at = time_text(event.commit_ts)
    is_row = event.kind in _TYPES
    return {
        "change_type": _TYPES.get(kind, kind),
        "commit_ts": at,
        "gtid": event.gtid if is_row else None,
        "file": LOG,
        "pos": event.position,
    }


@dataclass
class PlainRow:
    """A row of a lake table: what the table has, or had, and what is held of its last change."""

    values: Row
    held: Row
    deleted_at: str | None = None
    is_removed: bool = False

    def copy(self) -> PlainRow:
        return PlainRow(dict(self.values), dict(self.held), self.deleted_at, self.is_removed)


@dataclass
class PlainTable:
    """A table of the source."""

    columns: list[str]
    rows: dict[Any, PlainRow] = field(default_factory=dict)


@dataclass
class PlainLake:
    """A lake table; its rows by their key."""

    mode: TableMode
    rows: dict[Any, PlainRow] = field(default_factory=dict)

    def upsert(self, key: Any, row: PlainRow) -> None:
        self.rows[key] = row.copy()

    def delete(self, key: Any, event: Event, kind: str = "delete") -> None:
        row = self.rows.get(key)
        if row is None or row.is_removed:
            return
        row.is_removed = True
        if self.mode.deletes == "hard":
            del self.rows[key]
        elif self.mode.deletes == "soft":
            row.held, row.deleted_at = metadata(event, kind), time_text(event.commit_ts)

    def delete_all(self, event: Event, kind: str) -> None:
        for key in list(self.rows):
            self.delete(key, event, kind)

    def replace_by(self, table: PlainTable, event: Event, kind: str) -> None:
        """Take the rows of another table at one moment."""
        for key in self.rows.keys() - table.rows.keys():
            self.delete(key, event, kind)
        for row in self.rows.values():
            row.values = {name: row.values.get(name) for name in table.columns}
        for key, other in table.rows.items():
            self.upsert(key, other)

    def alter(self, event: Event) -> None:
        assert event.origins is not None
        values = event.values or {}
        known = {name: values[name] for name in values.keys() - event.unknown}
        for row in self.rows.values():
            # Of what the log does not say only rows that are there are read again.
            row.values = alter(row.values, event.origins, known if row.is_removed else values)

    def read(self) -> list[Row]:
        """Return the rows by the names of their columns."""
        found = []
        for row in self.rows.values():
            held = row.held | {"deleted_at": row.deleted_at}
            found.append(row.values | {name: held[of] for of, name in self.mode.names.items()})
        return found


def alter(row: Row, origins: Mapping[str, str | None], values: Mapping[str, Any]) -> Row:
    return {
        name: values.get(name) if origin is None else row[origin]
        for name, origin in origins.items()
    }


class PlainLakes:
    """The lake tables of a source, by the names of its tables, in one mode."""

    def __init__(self, mode: TableMode) -> None:
        self.mode = mode
        self.tables: dict[TableId, PlainTable] = {}
        self.names: dict[TableName, TableId] = {}
        self.lakes: dict[TableName, PlainLake] = {}
        self.rewritten: set[TableId] = set()
        """Tables whose rows changed without events: the lake waits for a reload."""
        self.keyless: set[TableId] = set()

    def apply(self, event: Event) -> None:
        if event.table in self.keyless and event.kind in _TYPES:
            # Its rows are known by their number.
            return
        getattr(self, f"_{event.kind}")(event)

    def _lakes_of(self, event: Event) -> list[PlainLake]:
        names = [name for name, table in self.names.items() if table == event.table]
        return [self.lakes[name] for name in names if name in self.lakes]

    def _insert(self, event: Event) -> None:
        assert event.row is not None
        row = PlainRow(event.row, metadata(event, "insert"))
        self.tables[event.table].rows[event.key] = row
        for lake in self._lakes_of(event):
            lake.upsert(event.key, row)

    def _update(self, event: Event) -> None:
        assert event.row is not None
        rows = self.tables[event.table].rows
        del rows[event.key]
        rows[event.after] = row = PlainRow(event.row, metadata(event, "update"))
        for lake in self._lakes_of(event):
            if event.after != event.key:
                lake.delete(event.key, event)
            lake.upsert(event.after, row)

    def _delete(self, event: Event) -> None:
        del self.tables[event.table].rows[event.key]
        for lake in self._lakes_of(event):
            lake.delete(event.key, event)

    def _truncate(self, event: Event) -> None:
        self.tables[event.table].rows.clear()
        for lake in self._lakes_of(event):
            lake.delete_all(event, "truncate")

    def _drop(self, event: Event) -> None:
        self.tables[event.table].rows.clear()
        for lake in self._lakes_of(event):
            # Where deletes are not marked, the rows stay until the name is used again.
            if self.mode.deletes != "hard":
                lake.delete_all(event, "drop")
        del self.names[event.name]

    def _create(self, event: Event) -> None:
        assert event.row is not None
        self.tables[event.table] = table = PlainTable(list(event.row))
        self.names[event.name] = event.table
        lake = self.lakes.setdefault(event.name, PlainLake(self.mode))
        lake.replace_by(table, event, "create")

    def _rename(self, event: Event) -> None:
        lakes, stood = dict(self.lakes), {table: name for name, table in self.names.items()}
        for table, old, new in event.names:
            del self.names[old]
            self.names[new] = table
        for name, table in self.names.items():
            old = stood[table]
            if old == name:
                continue
            if name in lakes:
                self.lakes[name].replace_by(self.tables[table], event, "rename")
            elif old in lakes:
                copied = {key: row.copy() for key, row in lakes[old].rows.items()}
                self.lakes[name] = PlainLake(self.mode, copied)

    def _alter(self, event: Event) -> None:
        assert event.origins is not None
        assert event.values is not None
        if not event.key:
            self.keyless.add(event.table)
            self.rewritten.add(event.table)
            return
        table = self.tables[event.table]
        rows = [
            PlainRow(alter(row.values, event.origins, event.values), row.held)
            for row in table.rows.values()
        ]
        table.columns = list(event.origins)
        table.rows = {_identify(row.values, event.key): row for row in rows}
        for lake in self._lakes_of(event):
            lake.alter(event)

    def _rewrite(self, event: Event) -> None:
        assert event.values is not None
        self.rewritten.add(event.table)
        self.tables[event.table].rows = {
            key: PlainRow(row, metadata(event, "rewrite")) for key, row in event.values.items()
        }


def _identify(row: Row, names: tuple[str, ...]) -> Any:
    key = tuple(row[name] for name in names)
    return key[0] if len(key) == 1 else key
