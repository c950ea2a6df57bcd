"""The parts that a merge reads, schema by schema, and which columns their row images hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_binlog.changes import CHANGE_COLUMNS
from airflow_provider_binlog.errors import MergeError, ReloadNeededError, error_context
from airflow_provider_binlog.manifest import Manifest, Part, TableChanges
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import Schema
from airflow_provider_binlog.spark.plan.table_log import Point
from airflow_provider_binlog.spark.staged.types import Value, spark_type, write_defaults
from airflow_provider_binlog.spark.target.modes import CHANGELOG_COLUMNS


@dataclass(frozen=True)
class StagedPart:
    """A part, and where it comes from."""

    manifest: Manifest
    table: TableChanges
    part: Part

    @property
    def schema(self) -> Schema:
        """The schema of its rows."""
        return self.table.schema(self.part.schema)

    @property
    def first(self) -> Point:
        """The point of its first row."""
        return self.manifest.sequence, self.part.first_row


@dataclass(frozen=True)
class SchemaRows:
    """Parts of one table in one schema, and how they are read as rows of the lake table.

    Attributes:
        columns: Name and Spark type of each column, as the parts have them.
        names: The lake table's columns that the schema has, and what the parts call them.
        parts: The parts.
        initial: What the rows hold in the lake table's columns that were added later; not of NULL.
        images: Which columns the rows hold; None if each row holds all.
        defaults: What inserts leave in columns that their images lack, by the parts' names, where
            it is known.
    """

    columns: dict[str, str]
    names: dict[str, str]
    parts: tuple[Part, ...]
    initial: dict[str, Value] = field(default_factory=dict)
    images: RowImages | None = None
    defaults: dict[str, Value] = field(default_factory=dict)

    def gives(self, column: str) -> tuple[tuple[bool, ...], bool]:
        """Return which images give a column of the lake table, and whether every insert does."""
        staged = self.names.get(column)
        if self.images is None or staged is None:
            return (), True
        holds = self.images.holds(staged)
        return ((), True) if all(holds) else (holds, staged in self.defaults)


def read_columns(schema: Schema) -> dict[str, str]:
    """Return name and Spark type of each column of a part's schema.

    Raises:
        MergeError: A name is one of ours or stands for two columns, or a type is not known.
    """
    columns: dict[str, str] = {}
    for column in schema.fields:
        if column.name in (*CHANGE_COLUMNS, *CHANGELOG_COLUMNS):
            raise MergeError(
                "a column has the name of a change column: rename it at the source",
                column=column.name,
            )
        with error_context(column=column.name):
            columns[column.name] = spark_type(str(column.arrow_type))
    refuse_case_twins(columns)
    return columns


def refuse_case_twins(columns: Iterable[str]) -> None:
    """Refuse columns that Spark takes for one: their names differ only in case."""
    seen: dict[str, str] = {}
    for name in columns:
        # The server distinguishes ẞ from ß, Spark does not.
        twin = seen.setdefault(fold_name(name).lower(), name)
        if twin != name:
            raise MergeError("two columns differ only in case", column=name, other=twin)


def read_rows(
    schema: Schema,
    staged: Sequence[StagedPart],
    *,
    columns: dict[str, str],
    names: dict[str, str],
    key: Sequence[str],
    initial: dict[str, Value],
) -> SchemaRows:
    """Return how parts in one schema are to be read, whose columns `read_columns` gave.

    See `SchemaRows`.

    Raises:
        ReloadNeededError: A row image lacks columns of the key, and inserts leave no known value
            there.
    """
    images = find_images(schema, {part.manifest.sequence: part.table.images for part in staged})
    rows = SchemaRows(columns, names, tuple(part.part for part in staged), initial, images)
    if images is None:
        return rows
    defaults = write_defaults(schema)
    in_parts = (names[name] for name in key if name in names)
    lost = [name for name in in_parts if not all(images.holds(name)) and name not in defaults]
    if lost:
        raise ReloadNeededError(
            "a row image lacks columns of the key: merge the table by its primary key, or set "
            "binlog_row_image=FULL at the source; then reload the table",
            columns=",".join(lost),
        )
    return replace(rows, defaults=defaults)


@dataclass(frozen=True)
class RowImages:
    """The sets of columns that the rows of parts in one schema hold.

    Attributes:
        first: Number of the first manifest in `numbers`.
        numbers: For every manifest from `first` on, what `_image` stands for: by it, an index into
            `sets`. Empty for a manifest without such parts.
        sets: Names of columns.
    """

    first: int
    numbers: tuple[tuple[int, ...], ...]
    sets: tuple[frozenset[str], ...]

    def holds(self, column: str) -> tuple[bool, ...]:
        """Whether each of the sets holds a column of the schema."""
        return tuple(column in held for held in self.sets)


def find_images(schema: Schema, listed: Mapping[int, Sequence[Sequence[int]]]) -> RowImages | None:
    """Return the row images of a schema; None if each of them holds every column.

    `listed` are the table's `images`, of all its schemas, by the number of the manifest.
    """
    names = {field.id: field.name for field in schema.fields}
    whole = frozenset(names.values())
    sets: dict[frozenset[str], int] = {}
    numbers = {
        sequence: tuple(
            sets.setdefault(frozenset(names[id_] for id_ in image if id_ in names), len(sets))
            for image in images
        )
        for sequence, images in listed.items()
    }
    if all(held == whole for held in sets):
        return None
    first, last = min(numbers), max(numbers)
    rows = tuple(numbers.get(sequence, ()) for sequence in range(first, last + 1))
    return RowImages(first, rows, tuple(sets))
