"""What lake tables are to hold in every mode, event by event in Python: what merges are held to.

model = PlainLakes(mode)
for event in source.events:
    model.apply(event)
model.lakes["shop", "orders"].rows
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.target.modes import END, START
from tests.support.memory_target import EPOCH, MICROSECOND
from tests.unit.spark.staged_changes import LOG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

    def copy(self) -> PlainLake:
        return PlainLake(self.mode, {key: row.copy() for key, row in self.rows.items()})

    def upsert(self, key: Any, row: PlainRow, event: Event) -> None:
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
            self.upsert(key, other, event)

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


@dataclass
class PlainHistory(PlainLake):
    """A lake table that keeps every version; `rows` are the current ones."""

    tracked: Sequence[str] | None = None
    log: dict[Any, list[tuple[Any, int, PlainRow | None]]] = field(default_factory=dict)
    """What each transaction left of a key, and when; None for no row."""
    lost_columns: bool = False
    """Whether columns were dropped: versions that differ in these alone are two, or one."""

    def copy(self) -> PlainLake:
        return deepcopy(self)

    def upsert(self, key: Any, row: PlainRow, event: Event) -> None:
        super().upsert(key, row, event)
        self._note(key, event, self.rows[key])

    def delete(self, key: Any, event: Event, kind: str = "delete") -> None:
        if self.rows.pop(key, None) is not None:
            self._note(key, event, None)

    def _note(self, key: Any, event: Event, row: PlainRow | None) -> None:
        log = self.log.setdefault(key, [])
        transaction = event.gtid if event.kind in _TYPES else event.position
        if log and log[-1][0] == transaction:
            log.pop()
        log.append((transaction, event.commit_ts, row))

    def replace_by(self, table: PlainTable, event: Event, kind: str) -> None:
        for row in self._rows():
            self.lost_columns |= not row.values.keys() <= {*table.columns}
            row.values = {name: row.values.get(name) for name in table.columns}
        super().replace_by(table, event, kind)

    def alter(self, event: Event) -> None:
        assert event.origins is not None
        values, current = event.values or {}, [*map(id, self.rows.values())]
        known = {name: values[name] for name in values.keys() - event.unknown}
        for row in self._rows():
            self.lost_columns |= not row.values.keys() <= {*event.origins.values()}
            new = values if id(row) in current else known
            row.values = alter(row.values, event.origins, new)

    def _rows(self) -> list[PlainRow]:
        return [row for log in self.log.values() for _, _, row in log if row is not None]

    def read(self) -> list[Row]:
        start, end = self.mode.names[START], self.mode.names[END]
        found: list[Row] = []
        for log in self.log.values():
            current: PlainRow | None = None
            last: int | None = None
            for _, at, row in log:
                is_other = (row is None) != (current is None) or (
                    row is not None and current is not None and self._differ(row, current)
                )
                if is_other:
                    last = at if last is None else max(at, last + 1)
                    if current is not None:
                        found[-1][end] = EPOCH + last * MICROSECOND
                    if row is not None:
                        found.append({start: EPOCH + last * MICROSECOND, end: None})
                if row is not None:
                    held = {name: row.held.get(of) for of, name in self.mode.names.items()}
                    found[-1] = held | row.values | {name: found[-1][name] for name in (start, end)}
                current = row
        return found

    def _differ(self, one: PlainRow, other: PlainRow) -> bool:
        names = one.values if self.tracked is None else self.tracked
        return any(one.values[name] != other.values[name] for name in names)


def alter(row: Row, origins: Mapping[str, str | None], values: Mapping[str, Any]) -> Row:
    return {
        name: values.get(name) if origin is None else row[origin]
        for name, origin in origins.items()
    }


class PlainLakes:
    """The lake tables of a source, by the names of its tables, in one mode."""

    def __init__(self, mode: TableMode, tracked: Sequence[str] | None = None) -> None:
        self.mode, self.tracked = mode, tracked
        self.tables: dict[TableId, PlainTable] = {}
        self.names: dict[TableName, TableId] = {}
        self.lakes: dict[TableName, PlainLake] = {}
        self.rewritten: set[TableId] = set()
        """Tables whose rows changed without events: the lake waits for a reload."""
        self.keyless: set[TableId] = set()

    def _make_lake(self) -> PlainLake:
        if self.mode.is_history:
            return PlainHistory(self.mode, tracked=self.tracked)
        return PlainLake(self.mode)

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
            lake.upsert(event.key, row, event)

    def _update(self, event: Event) -> None:
        assert event.row is not None
        rows = self.tables[event.table].rows
        del rows[event.key]
        rows[event.after] = row = PlainRow(event.row, metadata(event, "update"))
        for lake in self._lakes_of(event):
            if event.after != event.key:
                lake.delete(event.key, event)
            lake.upsert(event.after, row, event)

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
            # Where removed rows are not kept, the rows stay until the name is used again.
            if self.mode.keeps_removed:
                lake.delete_all(event, "drop")
        del self.names[event.name]

    def _create(self, event: Event) -> None:
        assert event.row is not None
        self.tables[event.table] = table = PlainTable(list(event.row))
        self.names[event.name] = event.table
        lake = self.lakes.setdefault(event.name, self._make_lake())
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
                self.lakes[name] = lakes[old].copy()

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
