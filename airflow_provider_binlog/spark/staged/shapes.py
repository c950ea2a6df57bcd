"""The parts a merge reads, and in which shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    COMMIT_TS,
    FILE,
    GTID,
    IMAGE,
    POSITION,
    ROW,
)
from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.staged.row_images import (
    ShapeImages,
    default_values,
    maybe_images,
    refuse_lost_key,
)
from airflow_provider_binlog.spark.staged.types import spark_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_binlog.manifest import Manifest, Part, Schema, TableChanges
    from airflow_provider_binlog.spark.plan.renames import Stretch
    from airflow_provider_binlog.spark.plan.statements import Place, TableName

SEQUENCE = "_sequence"
"""Column of a changelog table: the manifest a change came in. (`_sequence`, `_row`) is its key."""

ABSENT = "_absent"
"""Column of a changelog table: the columns whose values are not known, because the row image lacks
them; NULL if it lacks none."""

CHANGELOG_COLUMNS = {
    CHANGE_TYPE: "string",
    COMMIT_TS: "timestamp",
    GTID: "string",
    "_binlog_file": "string",
    "_binlog_pos": "bigint",
    ROW: "bigint",
    IMAGE: "int",
    SEQUENCE: "bigint",
    ABSENT: "array<string>",
}
"""What a changelog table has besides the source table's columns, with Spark's types."""

STAGED_AS = {"_binlog_file": FILE, "_binlog_pos": POSITION}
"""Changelog columns that are called otherwise in the parts: in every Iceberg table `_file` and
`_pos` are the data file and the place in it."""


@dataclass(frozen=True)
class StagedShape:
    """Parts in one shape.

    Attributes:
        columns: Name and Spark type of each column, in the part's order.
        paths: The parts, below the source's folder.
        within: Where the rows that count lie; None if all of them do.
        images: Which columns the rows hold; None if each holds all.
        defaults: SQL of what inserts leave in columns that their images lack, where it is known.
    """

    columns: dict[str, str]
    paths: tuple[str, ...]
    within: Stretch | None = None
    images: ShapeImages | None = None
    defaults: dict[str, str] = field(default_factory=dict)

    def gives(self, column: str) -> tuple[tuple[bool, ...], bool]:
        """Return which images give a column, and whether every insert does."""
        known = column in self.defaults
        if self.images is None or column not in self.columns:
            return (), True
        holds = self.images.holds(column)
        return ((), True) if all(holds) else (holds, known)


@dataclass(frozen=True)
class StagedPart:
    """A part, and where it comes from."""

    manifest: Manifest
    table: TableChanges
    part: Part
    stretch: Stretch

    @property
    def schema(self) -> Schema:
        """The shape of its rows."""
        return self.table.schemas[self.part.schema]

    @property
    def first(self) -> Place:
        """Where its first row lies."""
        return self.manifest.sequence, self.part.first_row

    @property
    def begin(self) -> Place:
        """A place before which none of its rows counts, its first row's if that one does."""
        return max(self.first, self.stretch.since or self.first)

    @property
    def last(self) -> Place:
        """Where its last row lies."""
        return self.manifest.sequence, self.part.last_row


def parts_within(manifests: Sequence[Manifest], stretches: Sequence[Stretch]) -> list[StagedPart]:
    """Return the parts with a row in one of the stretches, stretch by stretch, in order."""
    found = (
        StagedPart(manifest, table, part, stretch)
        for stretch in stretches
        for manifest in manifests
        for table in manifest.tables
        if (table.database, table.table) == stretch.name
        for part in table.parts
        if part.rows
    )
    return [each for each in found if each.stretch.may_hold(each.first, each.last)]


def newest_schema(staged: Sequence[StagedPart]) -> Schema | None:
    """Return the shape of the last row."""
    stretches = [each.stretch for each in staged]
    last = [each for each in staged if each.stretch == stretches[-1]]
    return max(last, key=lambda each: each.last).schema if last else None


def read_columns(name: TableName, schema: Schema) -> dict[str, str]:
    """Return name and Spark type of each column of a shape.

    Raises:
        MergeError: A name is one of ours or stands for two columns, or a type is not known.
    """
    table = ".".join(name)
    columns: dict[str, str] = {}
    for column in schema.columns:
        if column.name in (*CHANGE_COLUMNS, *CHANGELOG_COLUMNS):
            raise MergeError(
                "a column bears the name of a change column: rename it at the source",
                table=table,
                column=column.name,
            )
        try:
            columns[column.name] = spark_type(column.arrow_type)
        except MergeError as error:
            error.context.update(table=table, column=column.name)
            raise
    refuse_case_twins(table, columns)
    return columns


def refuse_case_twins(table: str, columns: Iterable[str]) -> None:
    """Refuse columns whose names Spark cannot tell apart.

    Raises:
        MergeError: Two names differ only in case.
    """
    seen: dict[str, str] = {}
    for name in columns:
        twin = seen.setdefault(name.lower(), name)
        if twin != name:
            raise MergeError(
                "two columns differ only in case", table=table, column=name, other=twin
            )


def read_shape(
    name: TableName,
    key: Sequence[str],
    schema: Schema,
    stretch: Stretch,
    staged: Sequence[StagedPart],
) -> StagedShape:
    """Return how parts in one shape are to be read.

    Raises:
        MergeError: As `read_columns`; or a row image lacks its key.
    """
    context = {"table": ".".join(name)}
    images = maybe_images(schema, {each.manifest.sequence: each.table.images for each in staged})
    columns, paths = read_columns(name, schema), tuple(each.part.path for each in staged)
    whole = all(stretch.is_whole(each.first, each.last) for each in staged)
    within = None if whole else stretch
    if images is None:
        return StagedShape(columns, paths, within)
    try:
        defaults = default_values(schema)
    except MergeError as error:
        error.context |= context
        raise
    refuse_lost_key(images, key, defaults, context)
    return StagedShape(columns, paths, within, images, defaults)
