"""Lake tables as Python's rows: the plainest `Target`, in a few dictionaries.

target = MemoryTarget()
target.commit(TableChange(..., rows=WholeRows([SourceRow({"id": 1})])))
target.tables["shop.orders"].read()
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import ReloadNeededError, TargetConflictError
from airflow_provider_binlog.spark.target.properties import (
    announce_fills,
    fields_property,
    find_first_properties,
    find_last_properties,
    new_fields_property,
)
from airflow_provider_binlog.spark.target.protocol import (
    Commit,
    CountedRows,
    VersionedRows,
    WholeRows,
)
from airflow_provider_binlog.spark.target.state import (
    NOTHING,
    TABLE_ID,
    Comments,
    Contents,
    TargetState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Row = dict[str, Any]

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.plan.evolution import Evolution
    from airflow_provider_binlog.spark.target.protocol import TableChange


@dataclass(frozen=True)
class SourceRow:
    """The final change of one row.

    Attributes:
        values: The row by column name; of a delete at least its key.
        deleted: Whether the key is to be deleted.
        lacks: Columns that the row does not hold.
        copies: Of a counted row, how many more of it there are to be.
    """

    values: dict[str, Any]
    deleted: bool = False
    lacks: frozenset[str] = frozenset()
    copies: int = 1


@dataclass
class MemoryTable:
    """One table; its rows by the ids of the columns, so that a renamed one keeps its values."""

    properties: dict[str, str]
    columns: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    contents: Contents = field(default_factory=lambda: Contents(NOTHING))
    version: int = 0
    last_id: int = 0
    comment: str = ""
    comments: dict[str, str] = field(default_factory=dict)

    def read(self) -> list[dict[str, Any]]:
        """Return the rows by column name."""
        return [{name: row.get(id_) for name, id_ in self.ids.items()} for row in self.rows]

    def add(self, columns: Mapping[str, str]) -> None:
        for name, type_ in columns.items():
            self.last_id += 1
            self.columns[name], self.ids[name] = type_, str(self.last_id)

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename columns, all at once."""
        self.columns = {names.get(name, name): type_ for name, type_ in self.columns.items()}
        self.ids = {names.get(name, name): id_ for name, id_ in self.ids.items()}

    def drop(self, name: str) -> None:
        del self.columns[name], self.ids[name]


class MemoryTarget:
    """Tables in memory; a `Target`.

    Args:
        interrupt: Called between the steps of a commit; what it raises ends the commit there.
    """

    def __init__(self, interrupt: Callable[[], object] = lambda: None) -> None:
        self.tables: dict[str, MemoryTable] = {}
        self.history: dict[str, list[MemoryTable]] = {}
        self.committed: list[TableChange[list[SourceRow]]] = []
        self.interrupt = interrupt

    def locate(self, name: TableName) -> str:
        return ".".join(name)

    def read_state(self, table: str) -> TargetState | None:
        stored = self.tables.get(table)
        if stored is None:
            return None
        return TargetState(
            columns=dict(stored.columns),
            column_ids=dict(stored.ids),
            properties=dict(stored.properties),
            contents=stored.contents,
            files=len(stored.rows),
            bytes=0,
            is_empty=not stored.rows,
            snapshot=stored.version,
            comments=Comments(
                stored.comment,
                {
                    name: stored.comments[id_]
                    for name, id_ in stored.ids.items()
                    if id_ in stored.comments
                },
            ),
        )

    def set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        self.tables[table].properties |= properties

    def set_comments(self, table: str, comments: Comments) -> None:
        stored = self.tables[table]
        if comments.table is not None:
            stored.comment = comments.table
        for name, text in comments.columns.items():
            stored.comments[stored.ids[name]] = text

    def commit(self, change: TableChange[list[SourceRow]]) -> Commit | None:
        if change.before is None:
            self._create(change)
        else:
            self._prepare(change, change.before)
        self.interrupt()
        table = self.tables[change.table]
        state = self.read_state(change.table)
        rows, done = write_rows(table, change)
        contents, meanwhile = change.contents, table.contents.foreign_write
        if meanwhile is not None and change.base is not None and meanwhile.version > change.base:
            contents = replace(contents, foreign_write=contents.foreign_write or meanwhile)
        table.rows, table.contents, table.version = rows, contents, table.version + 1
        self.history.setdefault(change.table, []).append(deepcopy(table))
        self.committed.append(change)
        self.interrupt()
        assert state is not None
        table.properties |= find_last_properties(change, state)
        return done

    def _create(self, change: TableChange[Any]) -> None:
        if change.table in self.tables:
            raise TargetConflictError("another merge created the target", target=change.table)
        table = self.tables[change.table] = MemoryTable(find_first_properties(change))
        table.add(change.columns)
        if change.follows is not None:
            table.properties |= new_fields_property(change.evolution.fields, table.ids)

    def _prepare(self, change: TableChange[Any], before: TargetState) -> None:
        """Change columns and properties, step by step."""
        table, state = self.tables.get(change.table), self.read_state(change.table)
        if table is None or state is None or not _is_unchanged(before, state):
            raise TargetConflictError("another merge committed meanwhile", target=change.table)
        replaces = isinstance(change.rows, WholeRows)
        assert replaces or before.applied < change.mark, "a mark does not decrease"
        table.properties |= {**before.blanks} | find_first_properties(change)
        evolution = change.evolution
        filled = {id_ for id_, name in evolution.fields.items() if name in evolution.filled}
        if filled:
            before = replace(before, properties=table.properties)
            table.properties |= announce_fills(before, filled, change.mark)
        for step in _steps(table, evolution):
            self.interrupt()
            step()
        state = self.read_state(change.table)
        if state is not None and change.follows is not None and change.follows == state.table:
            claims = {TABLE_ID: change.follows} | fields_property(state, evolution.fields)
            table.properties |= claims


def _is_unchanged(before: TargetState, state: TargetState) -> bool:
    known = before.applied, before.loaded, before.column_ids
    return known == (state.applied, state.loaded, state.column_ids)


def _steps(table: MemoryTable, evolution: Evolution) -> list[Callable[[], object]]:
    return [
        *(lambda name=name: table.drop(name) for name in evolution.dropped),
        lambda: table.rename(evolution.renamed),
        lambda: table.columns.update(evolution.widened),
        lambda: table.add(evolution.added),
    ]


def as_number(value: Any, type_: str) -> Any:
    """Return the digits of a DECIMAL as the number that rows have."""
    return int(Decimal(value)) if isinstance(value, str) and type_.startswith("decimal") else value


def _write_copies(
    table: MemoryTable, changes: Sequence[SourceRow], filled: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], Commit]:
    rows, done = [{**row, **filled} for row in table.rows], {"inserted": 0, "deleted": 0}
    for change in changes:
        assert change.copies, "a row that there is as often as before"
        row = {id_: change.values[name] for name, id_ in table.ids.items()}
        for _ in range(-change.copies):
            same = next((at for at, each in enumerate(rows) if _is_equal(each, row)), None)
            if same is None:
                raise ReloadNeededError("rows were deleted that the lake table does not have")
            del rows[same]
            done["deleted"] += 1
        rows += [dict(row) for _ in range(change.copies)]
        done["inserted"] += max(change.copies, 0)
    return rows, Commit(**done, updated=0, version=table.version + 1)


def _is_equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    # As text: 0 is another value than -0.
    return all(repr(one.get(id_)) == repr(value) for id_, value in other.items())


EPOCH, MICROSECOND = datetime.fromtimestamp(0, UTC), timedelta(microseconds=1)


def fold_versions(
    versions: Sequence[Row],
    rows: Sequence[SourceRow],
    *,
    key: Sequence[str],
    start: str,
    end: str,
    tracked: Sequence[str],
    rest: int | None = None,
) -> list[Row]:
    """Return the versions of all keys after the changes of some, row after row."""
    folded = [dict(version) for version in versions]
    by_key: dict[tuple[Any, ...], list[SourceRow]] = {}
    for row in rows:
        by_key.setdefault(tuple(row.values[name] for name in key), []).append(row)
    for version in folded:
        is_other = tuple(version[name] for name in key) not in by_key
        if rest is not None and is_other and version[end] is None:
            removed_at = EPOCH + rest * MICROSECOND
            version[end] = max(removed_at, version[start] + MICROSECOND)
    for at, changes in by_key.items():
        own = [version for version in folded if tuple(version[name] for name in key) == at]
        folded += _fold_key(own, changes, start=start, end=end, tracked=tracked)
    return folded


def _fold_key(
    own: Sequence[Row],
    changes: Sequence[SourceRow],
    *,
    start: str,
    end: str,
    tracked: Sequence[str],
) -> list[Row]:
    """Change the versions of a key, and return those that are added."""
    added: list[Row] = []
    times = [time for each in own for time in (each[start], each[end]) if time is not None]
    last = max(times, default=None)
    current = next((version for version in own if version[end] is None), None)
    for change in changes:
        if change.lacks and not change.deleted and current is None:
            raise ReloadNeededError("a change of a row that the lake table does not have")
        given = {name: change.values[name] for name in change.values.keys() - change.lacks}
        values = (current or {}) | given
        is_other = change.deleted != (current is None)
        if current is not None and not change.deleted:
            is_other = any(repr(values[name]) != repr(current[name]) for name in tracked)
        if not is_other:
            if current is not None:
                current |= values | {start: current[start], end: None}
            continue
        last = max(given[start], given[start] if last is None else last + MICROSECOND)
        if current is not None:
            current[end], current = last, None
        if not change.deleted:
            current = values | {start: last, end: None}
            added.append(current)
    return added


def _write_versions(
    table: MemoryTable, changes: VersionedRows[list[SourceRow]], filled: Row
) -> tuple[list[Row], Commit]:
    held = [row | filled for row in table.rows]
    before = [{name: row.get(id_) for name, id_ in table.ids.items()} for row in held]
    after = fold_versions(
        before,
        changes.rows,
        key=changes.key,
        start=changes.start,
        end=changes.end,
        tracked=changes.tracked,
        rest=changes.rest,
    )
    updated = sum(old != new for old, new in zip(before, after, strict=False))
    done = Commit(len(after) - len(before), updated, 0, table.version + 1)
    return [{table.ids[name]: value for name, value in row.items()} for row in after], done


def write_rows(
    table: MemoryTable, change: TableChange[list[SourceRow]]
) -> tuple[list[dict[str, Any]], Commit]:
    """Return the rows after a change, and what it did to them."""
    changes, ids = change.rows, table.ids
    if isinstance(changes, WholeRows):
        kept = [row for row in changes.rows if not row.deleted]
        rows = [{id_: row.values[name] for name, id_ in ids.items()} for row in kept]
        return rows, Commit(len(rows), 0, None, table.version + 1)
    filled = {
        ids[name]: as_number(value, table.columns[name])
        for name, value in change.evolution.filled.items()
    }
    if isinstance(changes, CountedRows):
        return _write_copies(table, changes.rows, filled)
    if isinstance(changes, VersionedRows):
        return _write_versions(table, changes, filled)
    marks = None if changes.marks is None else ids[changes.marks]
    key = [ids[name] for name in changes.key]
    old_rows = [row | filled for row in table.rows]
    by_key = {tuple(row.get(id_) for id_ in key): row for row in old_rows}
    counts = {"inserted": 0, "updated": 0, "deleted": 0}
    changed = {}
    for row in changes.rows:
        at = tuple(row.values[name] for name in changes.key)
        assert at not in changed, "one change of a key"
        old = by_key.pop(at, None)
        if row.deleted and marks is None:
            counts["deleted"] += old is not None
            continue
        if row.lacks and old is None:
            if row.deleted:
                continue
            raise ReloadNeededError(
                "a change of a row that the lake table does not have",
                key=at,
            )
        assert row.lacks <= {name for group in changes.groups for name in group}
        counts["inserted" if old is None else "updated"] += 1
        changed[at] = (old or {}) | {
            ids[name]: value for name, value in row.values.items() if name not in row.lacks
        }
    if changes.rest is not None:
        removed = {ids[name]: value for name, value in changes.rest.items()}
        by_key = {
            at: row | removed if marks and row.get(marks) is None else row
            for at, row in by_key.items()
        }
    return [*by_key.values(), *changed.values()], Commit(**counts, version=table.version + 1)
