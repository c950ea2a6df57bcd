"""Seam between merges and lakes: read the state of a table, and commit a `TableChange` to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from airflow_provider_binlog.errors import TargetConflictError
from airflow_provider_binlog.schema import TableId, TableName
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.staged.types import Value
from airflow_provider_binlog.spark.target.modes import TableMode
from airflow_provider_binlog.spark.target.state import (
    Comments,
    Contents,
    ForeignWrite,
    Mark,
    TargetState,
)

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.target.properties import Owner

Rows = TypeVar("Rows")
"""Rows as a target takes them: DataFrames with the columns below, or lists of Python's."""

DELETED = "deleted"
"""Column of the source rows: whether the row's key is to be deleted."""

COPIES = "copies"
"""Column of counted source rows: how many copies more there are to be; less if it is negative."""

NUMBER = "number"
"""Column of versioned source rows: orders those of a key, from 0 on."""

LACKS = "lacks"
"""Column of the source rows where images lack columns: what the row needs that the range does not
hold; NULL if it is whole."""


def held(group: int) -> str:
    """Return the name of the source rows' column that says whether they hold a group of columns."""
    return f"held{group}"


def source_column(index: int) -> str:
    """Return the name, among the source rows, of a table's column."""
    return f"c{index}"


@dataclass(frozen=True)
class KeyedRows(Generic[Rows]):
    """The final change of each key: a row that is to be there, or a delete.

    Those of a changelog are added: no two changes of a source have the same key.

    Attributes:
        rows: The changes.
        key: Columns that identify a row.
        null_safe: Whether a column of the key may be NULL, which then equals NULL.
        groups: Columns that rows may not hold, those together that the same rows lack. The table
            keeps its values in them; if it does not have the row, the commit fails.
        marks: Column in which deletes are marked. A row that is to be deleted is not: it has what
            the change says, its mark among that. If the table does not have the row, it is added,
            unless it lacks columns.
        rest: Values, by column, for the table's rows that are not marked, and not among the
            changes: they are removed, too.
    """

    rows: Rows
    key: tuple[str, ...]
    null_safe: bool = False
    groups: tuple[tuple[str, ...], ...] = ()
    marks: str | None = None
    rest: dict[str, Value] | None = None


@dataclass(frozen=True)
class CountedRows(Generic[Rows]):
    """Different rows, and how many copies of each there are to be more, or less.

    A table that has not as many copies as there are to be less needs a reload: the commit fails.
    """

    rows: Rows


@dataclass(frozen=True)
class VersionedRows(Generic[Rows]):
    """The change of each key by each transaction: the row after it, or a delete.

    The target folds these rows onto the versions that it has. A row is a boundary if it is deleted
    and the one before is not, or the other way round, or if it differs from that in a `tracked`
    column. At a boundary the version before it ends, and unless it is a delete another one starts.
    All other rows change the version that they are in. A boundary is at the time of its row, or a
    microsecond after the last time among the key's versions if that is later.

    Attributes:
        rows: The rows of a key, ordered by `NUMBER`. The column `start` holds the time of the
            transaction, `end` NULL.
        key: As of `KeyedRows`.
        null_safe: As of `KeyedRows`.
        groups: As of `KeyedRows`; the values are those of the key's current version.
        start: Column of the time from which on a version holds.
        end: Column of the time from which on it does not any more; NULL in a current one.
        tracked: Columns whose change is another version.
        rest: When current versions end that are of other keys, in microseconds since 1970, or a
            microsecond after their start if that is later; None if they do not end.
    """

    rows: Rows
    key: tuple[str, ...]
    null_safe: bool
    groups: tuple[tuple[str, ...], ...]
    start: str
    end: str
    tracked: tuple[str, ...]
    rest: int | None = None


@dataclass(frozen=True)
class WholeRows(Generic[Rows]):
    """All rows that the table has afterwards."""

    rows: Rows


RowChanges: TypeAlias = KeyedRows[Rows] | CountedRows[Rows] | VersionedRows[Rows] | WholeRows[Rows]


@dataclass(frozen=True)
class TableChange(Generic[Rows]):
    """One change of a lake table: its rows, its columns, and what is written down with them.

    Attributes:
        table: Name of the lake table, from `Target.locate`.
        owner: The source's table.
        before: The lake table when the change was planned; None if it is to be created.
        mark: How much of the log the lake table contains afterwards.
        stop: Where the range ends that the last manifest covers; for people.
        columns: Name and Spark type of each column afterwards.
        key: Columns that rows are merged by; none for a table without one.
        evolution: How the columns of `before` change, and which fields they are of.
        mode: What the lake table keeps of its table.
        rows: What happens to the rows.
        follows: Id of the table that the lake table follows afterwards; None if it keeps its own.
        lacks: What the lake table lacks afterwards, in words; empty if it lacks nothing.
        snapshot: Id of the snapshot that the rows are loaded from; None if from none.
        ends: Whether the name stands for no table afterwards, and the rows are only kept.
        claims: Value of `FIELDS` that `before` is to get ahead of its columns' change; else None.
        foreign_write: The commit of others that the lake table still has rows of; None if of none.
        source_types: The types of columns at the source, by name, where they are known.
    """

    table: str
    owner: Owner
    before: TargetState | None
    mark: Mark
    stop: str
    columns: dict[str, str]
    key: tuple[str, ...]
    evolution: Evolution
    mode: TableMode
    rows: RowChanges[Rows]
    follows: TableId | None
    lacks: str = ""
    snapshot: str | None = None
    ends: bool = False
    claims: str | None = None
    foreign_write: ForeignWrite | None = None
    source_types: dict[str, str] = field(default_factory=dict)

    @property
    def contents(self) -> Contents:
        """Contents of the lake table with the commit."""
        held = (None, "") if self.before is None else (self.before.table, self.before.loaded)
        table, loaded = self.follows or held[0], self.snapshot or held[1]
        return Contents(self.mark, table, loaded, self.foreign_write)

    @property
    def base(self) -> int | None:
        """The format's number of `before`; None if it has none, or the table is to be created."""
        return None if self.before is None else self.before.snapshot


def conflict(table: str) -> TargetConflictError:
    """Return the refusal of a change that was planned with another state of the lake table."""
    return TargetConflictError("another merge committed to the target meanwhile", target=table)


@dataclass(frozen=True)
class Commit:
    """Result of a commit: rows, None where that is not known.

    Attributes:
        version: Delta's version, or the id of Iceberg's snapshot, that holds them.
    """

    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    version: int | None = None

    @property
    def rows(self) -> dict[str, int | None]:
        """The rows by what was done to them."""
        return {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}


class Target(Protocol[Rows]):
    """Tables of a lake."""

    def locate(self, name: TableName) -> str:
        """Return the name of the lake table that follows a table of the source."""

    def read_state(self, table: str) -> TargetState | None:
        """Return the state of a lake table; None if there is no such table."""

    def commit(self, change: TableChange[Rows]) -> Commit | None:
        """Commit a change: the mark and the rows together, or neither.

        Columns and properties may change before the rows. A commit that is killed there is
        repeated with what `read_state` returns then. None if another merge has committed the mark.

        Raises:
            TargetConflictError: The lake table is not as it was when the change was planned.
            ReloadNeededError: Changes are of rows that the lake table does not have.
        """

    def set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        """Set properties of a lake table."""

    def set_comments(self, table: str, comments: Comments) -> None:
        """Set the comment of a lake table, if it is given, and those of columns of it."""


Staged = TypeVar("Staged")
"""A change whose rows are written where nobody reads them."""


@runtime_checkable
class TransactionalTarget(Target[Rows], Protocol[Rows, Staged]):
    """Tables that one transaction commits together, without those that fail."""

    def start(self) -> None:
        """Start a merge: connect again, where connections were lost since the one before."""

    def stage(self, change: TableChange[Rows]) -> Staged:
        """Write the rows of a change; threads call it at the same time."""

    def commit_staged(self, staged: Sequence[Staged]) -> list[Commit | Exception]:
        """Commit all changes but those that fail; return the outcome of each, in their order."""

    def close(self) -> None:
        """Close the connections."""
