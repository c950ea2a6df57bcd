"""The staged change rows of one table as one DataFrame, whatever schemas its parts have."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
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
from airflow_provider_binlog.spark.names import quote_text
from airflow_provider_binlog.spark.plan.fold import StartWithin
from airflow_provider_binlog.spark.plan.segment import Segment
from airflow_provider_binlog.spark.plan.table_log import Point
from airflow_provider_binlog.spark.staged.few_parts import (
    MANIFEST,
    read_parts,
    take_last,
    to_frame,
)
from airflow_provider_binlog.spark.staged.files import SourceFiles, damaged
from airflow_provider_binlog.spark.staged.parts import RowImages, SchemaRows
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
from airflow_provider_binlog.spark.target.protocol import DELETED, held, source_column
from airflow_provider_binlog.spark.target.sql import column_list, literal

if TYPE_CHECKING:
    import pyarrow as pa

ENDS = (ChangeType.DELETE.value, ChangeType.UPDATE_PREIMAGE.value)
"""The changes that leave their key without a row."""

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


def read_last(files: SourceFiles, segment: Segment, *, memory: int) -> pa.Table | None:
    """Return the last change of each key, of a segment that `can_take_last`, and its `COUNT`.

    None if the changes take more memory; see `read_parts`.

    Raises:
        StagingError: As `read_parts` does; or a key is NULL that may not be.
    """
    (rows,) = segment.reads
    table = read_parts(files, rows.parts, _stored(segment, rows), memory=memory)
    if table is None:
        return None
    key = [rows.names[name] for name in segment.key]
    if not segment.null_safe and any(table[name].null_count for name in key):
        # Spark would find it while it commits, when columns of the lake table are changed already.
        raise damaged(_NULL_KEY, columns=",".join(key))
    # The lake's types are those of the parts or wider ones, in which values stay different.
    return take_last(table, key)


def select_last(session: SparkSession, last: pa.Table, segment: Segment) -> DataFrame:
    """Return the source rows of the changes of `read_last`, without a job."""
    (rows,) = segment.reads
    # No other change type was read.
    deleted = f"{_ENDS_ROW} AS {DELETED}"
    return to_frame(session, last).selectExpr(*_list_columns(segment, rows), deleted)


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


_NULL_KEY = "a staged row has NULL in a key column that is NOT NULL"
# Columns of stored rows beside those of their table, as `MANIFEST` is.
_FILE_NAME, _ROW_INDEX, _IMAGE_NUMBER = "file ", "row ", quote_identifier("image ")
_SEQUENCE = quote_identifier(MANIFEST)
_INSERTED = f"{CHANGE_TYPE} = {quote_text(ChangeType.INSERT.value)}"
_ENDS_ROW = f"{CHANGE_TYPE} IN {ENDS}"
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
    SEQUENCE: MANIFEST,
    DELETED_AT: COMMIT_TS,
    START: COMMIT_TS,
    END: COMMIT_TS,
    "change_type": CHANGE_TYPE,
    "commit_ts": COMMIT_TS,
    "gtid": GTID,
    "file": FILE,
    "pos": POSITION,
}
"""The columns of stored rows that the columns of a mode are made of, by what they hold."""


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
    more = [sequence.alias(MANIFEST)]
    if located:
        more += [file_name.alias(_FILE_NAME), metadata.getField("row_index").alias(_ROW_INDEX)]
    frame = frame.select("*", *more)
    if segment.start is not None:
        is_other = f"{_SEQUENCE} != {segment.start.sequence}"
        frame = frame.where(f"{is_other} OR NOT ({_precedes(segment.start)})")
    if rows.images is not None:
        frame = frame.selectExpr("*", f"{_find_image(rows.images)} AS {_IMAGE_NUMBER}")
    columns = _list_columns(segment, rows)
    if located:
        columns += [f"`{_FILE_NAME}` AS {PART}", f"`{_ROW_INDEX}` AS {INDEX}"]
    order = f"struct({_SEQUENCE} AS sequence, {ROW} AS row) AS {ORDER}"
    return frame.selectExpr(*columns, f"{CHANGE_TYPE} AS {CHANGE}", order)


def _list_columns(segment: Segment, rows: SchemaRows) -> list[str]:
    """Return the SQL of a change's columns, of stored rows that have `MANIFEST`."""
    # Text: each function of PySpark takes several calls to the JVM, for each column of each table.
    own = {name: held for held, name in segment.mode.names.items()}

    def value(name: str, type_: str) -> str:
        if name in own:
            return f"CAST({_held(own[name], rows)} AS {type_})"
        if name not in rows.names:
            return literal(rows.initial.get(name), type_)
        staged, in_key = rows.names[name], name in segment.key
        stored = f"CAST({_value(rows, staged, in_key=in_key)} AS {type_})"
        return _required(stored) if in_key and not segment.null_safe else stored

    columns = [
        f"{value(name, type_)} AS {source_column(index)}"
        for index, (name, type_) in enumerate(segment.target_columns.items())
    ]
    if segment.groups:
        columns.append(f"struct({_SEQUENCE} AS sequence, {FILE}, {POSITION}) AS {EVENT}")
        columns += [
            f"{_has_value(rows, group[0])} AS {held(index)}"
            for index, group in enumerate(segment.groups)
        ]
    based = "false"
    if segment.base is not None:
        based = _is_before(segment.base.until)
        columns.append(f"{based} AS {BASED}")
    if segment.mode.is_history:
        of = {"sequence": _SEQUENCE, "gtid": GTID, "at": COMMIT_TS}
        known = (f"CASE WHEN NOT ({based}) THEN {of[name]} END AS {name}" for name in of)
        columns.append(f"struct({', '.join(known)}) AS {TRANSACTION}")
    return columns


def _held(held: str, rows: SchemaRows) -> str:
    """Return what a column of the mode holds of a change."""
    if held == ABSENT:
        return _absent(rows)
    staged = quote_identifier(_HELD_IN[held])
    if held == DELETED_AT:
        return f"CASE WHEN {_ENDS_ROW} THEN {staged} END"
    if held == END:
        return "NULL"
    if held == "change_type":
        if rows.parts[0].path.startswith(f"{SNAPSHOTS}/"):
            return quote_text(SNAPSHOT_CHANGE)
        deleted = quote_text(ChangeType.DELETE.value)
        return f"CASE WHEN {_ENDS_ROW} THEN {deleted} ELSE {staged} END"
    return staged


def _is_before(until: Point | StartWithin) -> str:
    """Whether a row is before a point, or before coordinates of the log in a manifest."""
    if isinstance(until, StartWithin):
        first, within = until.sequence, _precedes(until)
    else:
        first, within = until[0], f"{ROW} < {until[1]}"
    return f"{_SEQUENCE} < {first} OR ({_SEQUENCE} = {first} AND ({within}))"


def _precedes(start: StartWithin) -> str:
    """Whether the event of a row is before coordinates of the log."""
    number = f"CAST(substring_index({FILE}, '.', -1) AS bigint)"
    same = f"({number} = {start.file_number} AND {POSITION} < {start.offset})"
    return f"{number} < {start.file_number} OR {same}"


def _find_image(images: RowImages) -> str:
    """Return the row image's number among the `sets`."""
    # As one literal: an expression for each manifest of a long backlog would take minutes to plan.
    numbers = f"from_json({quote_text(json.dumps(images.numbers))}, 'array<array<int>>')"
    of_manifest = f"get({numbers}, CAST({_SEQUENCE} - {images.first} AS int))"
    unknown = _fail("a staged row has an image that its manifest does not list")
    return f"coalesce(get({of_manifest}, {IMAGE}), {unknown})"


def _holds(rows: SchemaRows, name: str) -> str:
    """Whether the row image holds a column of the rows."""
    if rows.images is None:
        return "true"
    sets = ", ".join("true" if is_held else "false" for is_held in rows.images.holds(name))
    return f"get(array({sets}), {_IMAGE_NUMBER})"


def _value(rows: SchemaRows, name: str, *, in_key: bool) -> str:
    """Return what the row has in a column of the parts; without its key it fails."""
    value = quote_identifier(name)
    if rows.images is None or all(rows.images.holds(name)):
        return value
    known = f"WHEN {_holds(rows, name)} THEN {value}"
    if name in rows.defaults:
        known += f" WHEN {_INSERTED} THEN {literal(rows.defaults[name], rows.columns[name])}"
    if in_key:
        known += f" ELSE {_fail('a staged row image lacks its key')}"
    return f"CASE {known} END"


def _required(value: str) -> str:
    """Return a value of a key that may not be NULL at the source; a row without it fails."""
    return f"coalesce({value}, {_fail(_NULL_KEY)})"


def _fail(message: str) -> str:
    """Return what fails where its value is needed."""
    return f"raise_error({quote_text(message)})"


def _has_value(rows: SchemaRows, name: str) -> str:
    """Whether the row has a value in a column, be it the one that inserts leave there."""
    staged = rows.names.get(name)
    if staged is None:
        return "true"
    holds = _holds(rows, staged)
    return f"{holds} OR {_INSERTED}" if staged in rows.defaults else holds


def _absent(rows: SchemaRows) -> str:
    """Return the columns without a value; NULL if there are none."""
    if rows.images is None:
        return "NULL"
    sets = rows.images.sets

    def names(filled: Collection[str]) -> str:
        lost = [
            [name for name in rows.columns if name not in columns and name not in filled] or None
            for columns in sets
        ]
        known = f"from_json({quote_text(json.dumps(lost))}, 'array<array<string>>')"
        return f"get({known}, {_IMAGE_NUMBER})"

    return f"CASE WHEN {_INSERTED} THEN {names(rows.defaults)} ELSE {names(())} END"


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
