"""What a merge has to do to one table: decided from manifests alone, before Spark reads a row."""

from __future__ import annotations

from dataclasses import dataclass
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
    BeforeImages,
)
from airflow_provider_binlog.errors import ConfigurationError, MergeError
from airflow_provider_binlog.spark.staged_types import spark_type, widens
from airflow_provider_binlog.spark.statements import (
    Place,
    TableFate,
    TableName,
    fills_rows,
    read_fate,
    refuse_unseen_changes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_provider_binlog.manifest import Column, Manifest, Part, Schema, TableChanges

SEQUENCE = "_sequence"
"""Column of a changelog table: the manifest a change came in. (`_sequence`, `_row`) is its key."""

CHANGELOG_COLUMNS = {
    CHANGE_TYPE: "string",
    COMMIT_TS: "timestamp",
    GTID: "string",
    "_binlog_file": "string",
    "_binlog_pos": "bigint",
    ROW: "bigint",
    IMAGE: "int",
    SEQUENCE: "bigint",
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
    """

    columns: dict[str, str]
    paths: tuple[str, ...]


@dataclass(frozen=True)
class TablePlan:
    """What a merge has to do to one table.

    Attributes:
        name: Database and table.
        through: Number of the last manifest the plan covers: the marker after the merge.
        columns: Name and Spark type of each column at the range's end; empty where no rows are left
            to read.
        key: Names of the columns that identify a row; empty for a changelog.
        shapes: What is to be read.
        parts: The parts of all shapes.
        exact: Whether every row of the parts counts: no part begins before `fate.emptied_at`.
        null_safe: Whether a key column may be NULL.
        fate: What the statements of the range do to the table.
        doubtful: Columns that would not be NULL in rows from before they were added.
        position: Where in the log the table's newest shape begins, for messages.
    """

    name: TableName
    through: int
    columns: dict[str, str]
    key: tuple[str, ...]
    shapes: tuple[StagedShape, ...]
    parts: tuple[Part, ...]
    exact: bool
    null_safe: bool
    fate: TableFate
    doubtful: frozenset[str]
    position: str

    @property
    def table(self) -> str:
        """`database.table`, for messages."""
        return ".".join(self.name)

    @property
    def rows(self) -> int:
        """Change rows in the parts."""
        return sum(part.rows for part in self.parts)

    @property
    def changes(self) -> dict[str, int]:
        """Change rows in the parts, by type."""
        total: dict[str, int] = {}
        for part in self.parts:
            for change, count in part.changes.items():
                total[change] = total.get(change, 0) + count
        return total

    @property
    def is_changelog(self) -> bool:
        """Whether changes are appended, for want of a key to merge by."""
        return not self.key

    @property
    def target_columns(self) -> dict[str, str]:
        """Name and Spark type of the target's columns."""
        return self.columns | (CHANGELOG_COLUMNS if self.is_changelog else {})

    @property
    def needs_commit(self) -> bool:
        """Whether the target changes: an ALTER alone waits for rows of the new shape."""
        emptied = self.fate.erasures or self.fate.emptied_at is not None
        return bool(self.shapes or emptied)


def plan_table(
    name: TableName,
    manifests: Sequence[Manifest],
    *,
    keys: Mapping[TableName, tuple[str, ...]],
    dropped_before: bool,
) -> TablePlan:
    """Plan the merge of one table over manifests that follow its marker.

    Raises:
        MergeError: The range holds a change of the table that the merge does not follow.
        ConfigurationError: The chosen key columns cannot serve.
    """
    fate = read_fate(name, manifests, dropped_before=dropped_before)
    refuse_unseen_changes(name, manifests, fate.emptied_at)
    # A changelog keeps what happened before its table was emptied.
    history = not _keys_of(name, manifests, keys)
    since = None if history else fate.emptied_at
    staged = _staged(name, manifests, since)
    shapes: dict[Schema, list[Part]] = {}
    for manifest, table, part in staged:
        _check_images(table)
        _check_key_choice(name, manifest, table, keys)
        shapes.setdefault(table.schemas[part.schema], []).append(part)
    last = _newest(staged)
    key = keys.get(name, last.key) if last else ()
    position = _position_of(fate, manifests, last)
    # A changelog row shows what was logged: a column it did not have yet is absent.
    doubtful = frozenset() if history or not last else _doubtful(last, fate)
    if last:
        _check_shapes(
            shapes,
            last,
            doubtful=doubtful,
            same_key=name not in keys,
            context={"table": ".".join(name), "position": position},
        )
    return TablePlan(
        name=name,
        through=manifests[-1].sequence,
        columns=_columns(name, last) if last else {},
        key=key,
        shapes=tuple(
            StagedShape(_columns(name, shape), tuple(part.path for part in parts))
            for shape, parts in shapes.items()
        ),
        parts=tuple(part for _, _, part in staged),
        exact=since is None
        or all((each.sequence, part.first_row) >= since for each, _, part in staged),
        null_safe=any(each.nullable for each in last.columns if each.name in key)
        if last
        else False,
        fate=fate,
        doubtful=doubtful,
        position=position,
    )


def _staged(
    name: TableName, manifests: Sequence[Manifest], since: Place | None
) -> list[tuple[Manifest, TableChanges, Part]]:
    """Return the parts with a row at `since` or behind it, in order."""
    return [
        (manifest, table, part)
        for manifest in manifests
        for table in manifest.tables
        if (table.database, table.table) == name
        for part in table.parts
        if part.rows and (since is None or (manifest.sequence, part.last_row) >= since)
    ]


def _newest(staged: Sequence[tuple[Manifest, TableChanges, Part]]) -> Schema | None:
    if not staged:
        return None
    _, table, part = max(staged, key=lambda each: (each[0].sequence, each[2].last_row))
    return table.schemas[part.schema]


def _keys_of(
    name: TableName, manifests: Sequence[Manifest], keys: Mapping[TableName, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the key the table has at the range's end."""
    newest = _newest(_staged(name, manifests, None))
    return keys.get(name, newest.key if newest else ())


def _columns(name: TableName, schema: Schema) -> dict[str, str]:
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


def _check_images(table: TableChanges) -> None:
    whole = [tuple(column.name for column in schema.columns) for schema in table.schemas]
    for image in table.images:
        if image not in whole:
            raise MergeError(
                "a row image lacks columns: set binlog_row_image=FULL at the source",
                table=f"{table.database}.{table.table}",
                image=",".join(image),
            )


def _check_key_choice(
    name: TableName,
    manifest: Manifest,
    table: TableChanges,
    keys: Mapping[TableName, tuple[str, ...]],
) -> None:
    """A key of the user's needs the before-image of every update that changes it."""
    chosen = keys.get(name)
    if chosen is None:
        return
    for schema in table.schemas:
        unknown = set(chosen) - {column.name for column in schema.columns}
        if unknown:
            raise ConfigurationError(
                "--keys names columns the table does not have",
                table=".".join(name),
                columns=",".join(sorted(unknown)),
            )
        other = schema.key and set(schema.key) != set(chosen)
        if other and manifest.before_images is not BeforeImages.ALL:
            raise ConfigurationError(
                "other key columns than the primary key need before_images='all'",
                table=".".join(name),
                primary_key=",".join(schema.key),
                sequence=manifest.sequence,
            )


def _doubtful(last: Schema, fate: TableFate) -> frozenset[str]:
    """Return the columns that would not be NULL in rows from before they were added."""
    filled = fills_rows(fate.alterations) is not None
    return frozenset(each.name for each in last.columns if filled or not each.nullable)


def _check_shapes(
    shapes: Iterable[Schema],
    last: Schema,
    *,
    doubtful: frozenset[str],
    same_key: bool,
    context: Mapping[str, str],
) -> None:
    """Refuse rows that cannot be read as rows of the last shape."""
    final = {column.name: column for column in last.columns}
    for shape in shapes:
        earlier = {column.name: column for column in shape.columns}
        lost = [column for column in earlier if column not in final]
        gained = [column for column in final if column not in earlier]
        if lost and gained:
            raise MergeError(
                "columns were renamed, or dropped and added, between changes of one merge: "
                "drop the lake table and load it anew",
                **context,
                dropped=",".join(lost),
                added=",".join(gained),
            )
        refuse_filled_columns([column for column in gained if column in doubtful], context)
        if same_key and shape.key != last.key:
            raise MergeError(
                "the primary key changed: drop the lake table and load it anew",
                **context,
                before=",".join(shape.key),
                now=",".join(last.key),
            )
        for column in earlier.keys() & final.keys():
            _check_widening(earlier[column], final[column], context)


def refuse_filled_columns(columns: Sequence[str], context: Mapping[str, str]) -> None:
    """Refuse new columns that rows from before them do not hold as NULL.

    Raises:
        MergeError: There are any.
    """
    if columns:
        raise MergeError(
            "a new column has a value in rows that were there before it, and the log does not say "
            "which: add it to the lake table with that value, or load the table anew",
            **context,
            column=",".join(columns),
        )


def _check_widening(earlier: Column, later: Column, context: Mapping[str, str]) -> None:
    before, now = spark_type(earlier.arrow_type), spark_type(later.arrow_type)
    if before != now and not widens(before, now):
        raise MergeError(
            "a column's type changed in a way that the lake table cannot follow: "
            "drop the lake table and load it anew",
            **context,
            column=later.name,
            before=earlier.mysql_type,
            now=later.mysql_type,
        )


def _position_of(fate: TableFate, manifests: Sequence[Manifest], last: Schema | None) -> str:
    """Return where the shape of the rows was last changed, as far as the range tells."""
    if fate.alterations:
        statement = fate.alterations[-1]
        return f"{statement.file}:{statement.offset}"
    first = manifests[0]
    if last is not None:
        for manifest in manifests:
            for table in manifest.tables:
                if last in table.schemas:
                    first = manifest
                    return f"{first.start}..{first.stop}"
    return f"{first.start}..{manifests[-1].stop}"
