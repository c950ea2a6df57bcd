"""The staged change rows of one table as one DataFrame, whatever schemas its parts have."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.changes import (
    CHANGE_TYPE,
    COMMIT_TS,
    FILE,
    GTID,
    IMAGE,
    POSITION,
    ROW,
    ChangeType,
)
from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.snapshot_manifest import SNAPSHOTS
from airflow_provider_binlog.spark.plan.fold import StartWithin
from airflow_provider_binlog.spark.plan.segment import Segment
from airflow_provider_binlog.spark.plan.table_log import Point
from airflow_provider_binlog.spark.staged.few_parts import (
    COUNT,
    MANIFEST,
    read_parts,
    take_last,
    to_frame,
)
from airflow_provider_binlog.spark.staged.files import SourceFiles, damaged
from airflow_provider_binlog.spark.staged.parts import SchemaRows
from airflow_provider_binlog.spark.target.modes import (
    ABSENT,
    CHANGELOG_COLUMNS,
    DELETED_AT,
    END,
    SEQUENCE,
    SNAPSHOT_CHANGE,
    STAGED_AS,
    START,
)
from airflow_provider_binlog.spark.target.protocol import held, source_column
from airflow_provider_binlog.spark.target.sql import column_list, literal

if TYPE_CHECKING:
    import pyarrow as pa

CHANGE = "change"
"""Column of a change: its `ChangeType`."""

ORDER = "point"
"""Column of a change: (sequence, `_row`), which orders all changes of a source."""

EVENT = "event"
"""Column of a change in a segment with `groups`: where its event is, the same for both images of an
update."""

BASED = "based"
"""Column of a change in a segment with a `base`: whether it is before that."""

TRANSACTION = "transaction"
"""Column of a change of a history: equal in changes of one transaction that follow each other, and
in all that are `BASED`. Without GTIDs, transactions differ by the time of their commit."""

PART = "part"
"""Column of a change that was `located`: the name of the part's file."""

INDEX = "index"
"""Column of a change that was `located`: how many rows of its part stand before it."""


def read_changes(
    session: SparkSession, files: SourceFiles, segment: Segment, *, located: bool = False
) -> DataFrame:
    """Return every change row of a segment: the target's columns, `CHANGE` and `ORDER`.

    Where row images may lack columns, also `EVENT` and a column `held` for each of its groups;
    what inserts leave in a column is filled in as far as it is known. Rows that are `located`,
    which those of a changelog cannot be, also have `PART` and `INDEX`.
    """
    frames = [_read_rows(session, files, segment, rows, located=located) for rows in segment.reads]
    if segment.is_changelog or not frames:
        frames.append(_removals(session, segment))
    return reduce(DataFrame.unionAll, frames)


def can_take_last(segment: Segment) -> bool:
    """Whether all rows are whole, of one schema, and merged into what is current."""
    mode = segment.mode
    if mode.kind != "current" or mode.deletes == "ignore" or len(segment.reads) != 1:
        return False
    (rows,) = segment.reads
    key = [rows.names[name] for name in segment.key if name in rows.names]
    is_whole = segment.start is None and rows.images is None and len(key) == len(segment.key)
    return is_whole and "array<float>" not in map(rows.columns.get, key)


def read_table(files: SourceFiles, segment: Segment, *, memory: int) -> pa.Table | None:
    """Return the rows of a segment that `can_take_last`; see `read_parts`."""
    (rows,) = segment.reads
    return read_parts(files, rows.parts, _stored(segment, rows), memory=memory)


def select_last(session: SparkSession, table: pa.Table, segment: Segment) -> DataFrame:
    """Return the last change of each key, as `read_changes` does, and `COUNT`, without a job.

    The table is that of `read_table`.
    """
    (rows,) = segment.reads
    # The lake's types are those of the parts or wider ones, in which values stay different.
    last = take_last(table, [rows.names[name] for name in segment.key])
    return _select(to_frame(session, last), _named(MANIFEST), segment, rows, [_named(COUNT)])


def _named(name: str) -> Column:
    return F.col(quote_identifier(name))


def check_digests(session: SparkSession, files: SourceFiles, parts: Sequence[Part]) -> None:
    """Raise StagingError for the first part whose SHA-256 is not that of its manifest."""
    if not parts:
        return
    reader = session.read.format("binaryFile").option("__globPaths__", "false")
    digests = reader.load([files.locate(part.path) for part in parts])
    checksums = {
        # A part's path has three names; how the rest is written is up to the file system.
        "/".join(row["path"].split("/")[-3:]): row["digest"]
        for row in digests.select("path", F.sha2("content", 256).alias("digest")).collect()
    }
    for part in parts:
        if checksums.get(part.path) != part.sha256:
            raise damaged(
                "a staged part does not have the SHA-256 its manifest says",
                part=files.locate(part.path),
                sha256=checksums.get(part.path),
                manifest_says=part.sha256,
            )


_STAGED = {
    CHANGE_TYPE: "string",
    COMMIT_TS: "timestamp",
    GTID: "string",
    FILE: "string",
    POSITION: "bigint",
    ROW: "bigint",
    IMAGE: "int",
}
_HELD_IN = {name: STAGED_AS.get(name, name) for name in CHANGELOG_COLUMNS} | {
    DELETED_AT: COMMIT_TS,
    START: COMMIT_TS,
    END: COMMIT_TS,
    "change_type": CHANGE_TYPE,
    "commit_ts": COMMIT_TS,
    "gtid": GTID,
    "file": FILE,
    "pos": POSITION,
}
"""The staged columns that the columns of a mode are read from, by what they hold."""


def _change_columns(segment: Segment, rows: SchemaRows) -> dict[str, str]:
    """Return the staged change columns that the target or the collapse needs, and their types."""
    needed = {CHANGE_TYPE, ROW, *(_HELD_IN[held] for held in segment.mode.names)}
    if rows.images is not None:
        needed.add(IMAGE)
    if segment.groups or segment.start is not None or segment.base is not None:
        needed |= {FILE, POSITION}
    if segment.mode.is_history:
        needed.add(GTID)
    return {name: type_ for name, type_ in _STAGED.items() if name in needed}


def _stored(segment: Segment, rows: SchemaRows) -> dict[str, str]:
    """Return the columns that are read of the parts, and their types."""
    return rows.columns | _change_columns(segment, rows)


def _scan(
    session: SparkSession, files: SourceFiles, segment: Segment, rows: SchemaRows
) -> DataFrame:
    """Return parts of one schema as they are stored, without columns that nothing needs."""
    reader = session.read.schema(column_list(_stored(segment, rows)))
    # A path is a path: names of folders may hold what globs are made of. Files follow today's
    # calendar whatever their writer put into their metadata.
    reader = reader.option("__globPaths__", "false").option("datetimeRebaseMode", "CORRECTED")
    return reader.parquet(*(files.locate(part.path) for part in rows.parts))


def _read_rows(
    session: SparkSession,
    files: SourceFiles,
    segment: Segment,
    rows: SchemaRows,
    *,
    located: bool,
) -> DataFrame:
    frame = _scan(session, files, segment, rows)
    # Also right for a table with a column called `_metadata`.
    metadata = frame.metadataColumn("_metadata")
    file_name = metadata.getField("file_name")
    sequence = F.substring(file_name, 1, 16).cast("bigint")
    location = [file_name.alias(PART), metadata.getField("row_index").alias(INDEX)]
    return _select(frame, sequence, segment, rows, location if located else ())


def _select(
    frame: DataFrame,
    sequence: Column,
    segment: Segment,
    rows: SchemaRows,
    more: Sequence[Column] = (),
) -> DataFrame:
    """Return the changes of stored rows, as the lake table has them, with `more` columns."""
    own = {name: held for held, name in segment.mode.names.items()}
    if segment.start is not None:
        frame = frame.where((sequence != segment.start.sequence) | ~_precedes(segment.start))
    image = _image(rows, sequence)

    def column(name: str, type_: str) -> Column:
        if name in own:
            return _held(own[name], rows, sequence, image).cast(type_)
        if name not in rows.names:
            return F.expr(literal(rows.initial.get(name), type_))
        staged, in_key = rows.names[name], name in segment.key
        value = _value(rows, staged, image, in_key=in_key).cast(type_)
        return _required(value) if in_key and not segment.null_safe else value

    columns = [
        column(name, type_).alias(source_column(index))
        for index, (name, type_) in enumerate(segment.target_columns.items())
    ]
    if segment.groups:
        columns.append(F.struct(sequence.alias("sequence"), FILE, POSITION).alias(EVENT))
        columns += [
            _has_value(rows, group[0], image).alias(held(index))
            for index, group in enumerate(segment.groups)
        ]
    based = F.lit(False)  # noqa: FBT003
    if segment.base is not None:
        based = _is_before(segment.base.until, sequence)
        columns.append(based.alias(BASED))
    if segment.mode.is_history:
        of = {"sequence": sequence, "gtid": F.col(GTID), "at": F.col(COMMIT_TS)}
        known = (F.when(~based, value).alias(name) for name, value in of.items())
        columns.append(F.struct(*known).alias(TRANSACTION))
    return frame.select(
        *columns,
        *more,
        F.col(CHANGE_TYPE).alias(CHANGE),
        F.struct(sequence.alias("sequence"), F.col(ROW).alias("row")).alias(ORDER),
    )


def _held(held: str, rows: SchemaRows, sequence: Column, image: Column) -> Column:
    """Return what a column of the mode holds of a change."""
    if held == SEQUENCE:
        return sequence
    if held == ABSENT:
        return _absent(rows, image)
    staged = F.col(quote_identifier(_HELD_IN[held]))
    type_ = F.col(CHANGE_TYPE)
    ends = type_.isin(ChangeType.DELETE.value, ChangeType.UPDATE_PREIMAGE.value)
    if held in (DELETED_AT, END):
        return F.when(ends & F.lit(held == DELETED_AT), staged)
    if held == "change_type":
        if rows.parts[0].path.startswith(f"{SNAPSHOTS}/"):
            return F.lit(SNAPSHOT_CHANGE)
        return F.when(ends, ChangeType.DELETE.value).otherwise(staged)
    return staged


def _is_before(until: Point | StartWithin, sequence: Column) -> Column:
    """Whether a row is before a point, or before coordinates of the log in a manifest."""
    if isinstance(until, StartWithin):
        first, within = until.sequence, _precedes(until)
    else:
        first, within = until[0], F.col(ROW) < until[1]
    return (sequence < first) | ((sequence == first) & within)


def _precedes(start: StartWithin) -> Column:
    """Whether the event of a row is before coordinates of the log."""
    number = F.substring_index(F.col(FILE), ".", -1).cast("bigint")
    same = (number == start.file_number) & (F.col(POSITION) < start.offset)
    return (number < start.file_number) | same


def _inserted() -> Column:
    return F.col(CHANGE_TYPE) == ChangeType.INSERT.value


def _image(rows: SchemaRows, sequence: Column) -> Column:
    """Return the row image's number among the `sets`."""
    if rows.images is None:
        return F.lit(0)
    # As one literal: an expression for each manifest of a long backlog would take minutes to plan.
    numbers = F.from_json(F.lit(json.dumps(rows.images.numbers)), "array<array<int>>")
    of_manifest = F.get(numbers, (sequence - rows.images.first).cast("int"))
    unknown = F.raise_error(F.lit("a staged row has an image that its manifest does not list"))
    return F.coalesce(F.get(of_manifest, F.col(IMAGE)), unknown.cast("int"))


def _holds(rows: SchemaRows, name: str, image: Column) -> Column:
    """Whether the row image holds a column of the rows."""
    if rows.images is None:
        return F.expr("true")
    sets = ", ".join("true" if is_held else "false" for is_held in rows.images.holds(name))
    return F.get(F.expr(f"array({sets})"), image)


def _value(rows: SchemaRows, name: str, image: Column, *, in_key: bool) -> Column:
    """Return what the row has in a column of the parts; without its key it fails."""
    value = F.col(quote_identifier(name))
    if rows.images is None or all(rows.images.holds(name)):
        return value
    holds = F.when(_holds(rows, name, image), value)
    if name in rows.defaults:
        default = literal(rows.defaults[name], rows.columns[name])
        holds = holds.when(_inserted(), F.expr(default))
    if not in_key:
        return holds
    return holds.otherwise(F.raise_error(F.lit("a staged row image lacks its key")))


def _required(value: Column) -> Column:
    """Return a value of a key that may not be NULL at the source; a row without it fails."""
    lost = F.raise_error(F.lit("a staged row has NULL in a key column that is NOT NULL"))
    return F.coalesce(value, lost)


def _has_value(rows: SchemaRows, name: str, image: Column) -> Column:
    """Whether the row has a value in a column, be it the one that inserts leave there."""
    staged = rows.names.get(name)
    if staged is None:
        return F.expr("true")
    holds = _holds(rows, staged, image)
    return holds | _inserted() if staged in rows.defaults else holds


def _absent(rows: SchemaRows, image: Column) -> Column:
    """Return the columns without a value; NULL if there are none."""
    if rows.images is None:
        return F.lit(None).cast("array<string>")
    sets = rows.images.sets

    def names(filled: Collection[str]) -> Column:
        lost = [
            [name for name in rows.columns if name not in columns and name not in filled] or None
            for columns in sets
        ]
        return F.get(F.from_json(F.lit(json.dumps(lost)), "array<array<string>>"), image)

    return F.when(_inserted(), names(rows.defaults)).otherwise(names(()))


def _removals(session: SparkSession, segment: Segment) -> DataFrame:
    """Return a row for each action that removed a changelog's rows, with its first word."""
    columns = segment.target_columns
    types = {source_column(index): type_ for index, type_ in enumerate(columns.values())}
    rows = []
    for step in segment.removals:
        sequence, row = step.point
        change = step.action.type.partition("_")[0]
        known = {
            CHANGE_TYPE: change,
            FILE: step.statement.file,
            POSITION: step.statement.offset,
            # It orders rows, and no row image has it.
            ROW: row,
            SEQUENCE: sequence,
        }
        values = (known.get(STAGED_AS.get(name, name)) for name in columns)
        rows.append((*values, change, (sequence, row)))
    schema = types | ({} if segment.base is None else {BASED: "boolean"})
    schema |= {TRANSACTION: "string"} if segment.mode.is_history else {}
    schema |= {CHANGE: "string", ORDER: "struct<sequence: bigint, row: bigint>"}
    return session.createDataFrame(rows, column_list(schema))
