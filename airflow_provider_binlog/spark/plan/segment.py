"""A segment: the changes of one commit to one lake table, and where in the log they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import ROW, ChangeType
from airflow_provider_binlog.manifest import count_changes
from airflow_provider_binlog.spark.staged.parts import CHANGELOG_COLUMNS, SEQUENCE

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, Part
    from airflow_provider_binlog.spark.plan.evolution import Evolution
    from airflow_provider_binlog.spark.plan.table_log import LogAction, Point
    from airflow_provider_binlog.spark.staged.parts import SchemaRows
    from airflow_provider_binlog.spark.target.state import Mark


@dataclass(frozen=True)
class StartWithin:
    """Where the first row is, in one manifest, that counts.

    Attributes:
        sequence: Number of the manifest.
        file_number, offset: Rows of events before these coordinates do not count.
    """

    sequence: int
    file_number: int
    offset: int


@dataclass(frozen=True)
class Segment:
    """Changes that one collapse folds and one commit brings into the lake table.

    Attributes:
        table: `database.table`, for messages.
        position: Where in the log its columns were last changed, for messages.
        mark: What is committed with it: how much of the log the lake table contains then.
        ends: Whether the table's name stands for no table afterwards.
        columns: Name and Spark type of each column of the source's table in the lake.
        key: Names of the columns that identify a row; empty for a changelog.
        reads: The parts to read, schema by schema.
        evolution: How the lake table has to change before; with no columns if it is to be created.
        fields: Names of the columns by field id.
        null_safe: Whether a key column may be NULL in what is read.
        starts_empty: Whether the rows that the lake has are removed.
        removals: The actions that removed all rows of a changelog's table, or its name.
        reloads: Whether it replaces all rows that the lake has.
        start: Where its rows start in one manifest, if not with that.
    """

    table: str
    position: str
    mark: Mark
    ends: bool
    columns: dict[str, str]
    key: tuple[str, ...]
    reads: tuple[SchemaRows, ...]
    evolution: Evolution
    fields: dict[int, str]
    null_safe: bool = False
    starts_empty: bool = False
    removals: tuple[LogAction, ...] = ()
    reloads: bool = False
    start: StartWithin | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that are read."""
        return tuple(part for rows in self.reads for part in rows.parts)

    @property
    def rows(self) -> int:
        """Change rows in the parts."""
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        """Size of the parts."""
        return sum(part.bytes for part in self.parts)

    @property
    def changes(self) -> dict[str, int]:
        """Change rows in the parts, by type."""
        return count_changes(self.parts)

    @property
    def growth(self) -> int:
        """How many rows more the table has after the changes; an update changes nothing of it."""
        changes = self.changes
        return changes.get(ChangeType.INSERT.value, 0) - changes.get(ChangeType.DELETE.value, 0)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The columns that rows may have no value in; together those that the same rows lack.

        Empty if every row is whole; also for a changelog, which keeps them as they are.
        """
        groups: dict[object, list[str]] = {}
        for column in self.columns if self.key else ():
            if column in self.key:
                # Checked when it is read.
                continue
            given = tuple(rows.gives(column) for rows in self.reads)
            if any(images for images, _ in given):
                groups.setdefault(given, []).append(column)
        return tuple(map(tuple, groups.values()))

    @property
    def has_before_images(self) -> bool:
        """Whether the parts hold before-images of updates."""
        return ChangeType.UPDATE_PREIMAGE.value in self.changes

    @property
    def is_changelog(self) -> bool:
        """Whether changes are appended, for want of a key to merge by."""
        return not self.key

    @property
    def target_columns(self) -> dict[str, str]:
        """Name and Spark type of the target's columns."""
        return self.columns | (CHANGELOG_COLUMNS if self.is_changelog else {})

    @property
    def target_key(self) -> tuple[str, ...]:
        """Names of the target's columns that identify a row."""
        return (SEQUENCE, ROW) if self.is_changelog else self.key


_TEXT_MAX = 200


@dataclass(frozen=True)
class Cut:
    """Where a segment ends.

    Attributes:
        mark: What a lake table has that contains everything before it.
        point: Rows from here on are after it.
        position: Where it is in the source's log.
    """

    mark: Mark
    point: Point
    position: str

    @classmethod
    def at_step(cls, step: LogAction) -> Cut:
        """Return the cut before an action."""
        return cls(step.mark, step.point, step.position)

    @classmethod
    def at_manifest(cls, manifest: Manifest, mark: Mark) -> Cut:
        """Return the cut before a manifest."""
        return cls(mark, (manifest.sequence, 0), str(manifest.start))


@dataclass(frozen=True)
class Stop:
    """The lake table keeps the rows from before this: it cannot follow what comes here.

    Attributes:
        cut: Where it is.
        reason: Why, in words.
        statement: The statement; empty where there is none.
    """

    cut: Cut
    reason: str
    statement: str = ""

    @classmethod
    def at_step(cls, step: LogAction, reason: str) -> Stop:
        """Return the stop at an action."""
        return cls(Cut.at_step(step), reason, step.statement.text[:_TEXT_MAX])

    @property
    def explanation(self) -> str:
        """What it is, and what to do, for people."""
        ran = f" ({self.statement})" if self.statement else ""
        return f"{self.reason}{ran}: reload the table"
