"""The staged change rows of one table as one DataFrame, whatever shapes its parts have.

Columns are called by their place in the target (`c0`, `c1`, ...), so that no name of the source
table meets one of ours.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.changes import CHANGE_TYPE, FILE, POSITION, ROW
from airflow_provider_binlog.errors import StagingError
from airflow_provider_binlog.spark.merge_sql import column_list, source_column
from airflow_provider_binlog.spark.names import quote_identifier
from airflow_provider_binlog.spark.table_plan import (
    CHANGELOG_COLUMNS,
    SEQUENCE,
    STAGED_AS,
    StagedShape,
    TablePlan,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.spark.staged_files import SourceFiles

CHANGE = "change"
"""Column of a change: its `ChangeType`."""

ORDER = "place"
"""Column of a change: (sequence, `_row`), which orders all changes of a source."""


def read_changes(session: SparkSession, files: SourceFiles, plan: TablePlan) -> DataFrame:
    """Return every change row the plan reads: the target's columns, `CHANGE` and `ORDER`."""
    frames = [_read_shape(session, files, plan, shape) for shape in plan.shapes]
    if plan.is_changelog or not frames:
        frames.append(_erasures(session, plan))
    changes = reduce(DataFrame.unionAll, frames)
    emptied_at = plan.fate.emptied_at
    if plan.exact or emptied_at is None:
        return changes
    sequence, row = (F.lit(number).cast("bigint") for number in emptied_at)
    return changes.where(F.col(ORDER) >= _place(sequence, row))


def check_digests(session: SparkSession, files: SourceFiles, parts: Sequence[Part]) -> None:
    """Refuse parts whose bytes are not those the manifest was sealed over.

    Raises:
        StagingError: A part has another SHA-256; names the first one.
    """
    if not parts:
        return
    reader = session.read.format("binaryFile").option("__globPaths__", "false")
    digests = reader.load([files.locate(part.path) for part in parts])
    found = {
        # A part's path has three names; how the rest is written is up to the file system.
        "/".join(row["path"].split("/")[-3:]): row["digest"]
        for row in digests.select("path", F.sha2("content", 256).alias("digest")).collect()
    }
    for part in parts:
        if found.get(part.path) != part.sha256:
            raise StagingError(
                "a staged part does not have the SHA-256 its manifest says",
                part=files.locate(part.path),
                sha256=found.get(part.path),
                manifest_says=part.sha256,
            )


def _read_shape(
    session: SparkSession, files: SourceFiles, plan: TablePlan, shape: StagedShape
) -> DataFrame:
    # Of the change columns only those that the target or the collapse needs.
    own = CHANGELOG_COLUMNS if plan.is_changelog else {CHANGE_TYPE: "string", ROW: "bigint"}
    stored = shape.columns | {
        STAGED_AS.get(name, name): type_ for name, type_ in own.items() if name != SEQUENCE
    }
    reader = session.read.schema(column_list(stored))
    # A path is a path: names of folders may hold what globs are made of. Files follow today's
    # calendar whatever their writer put into their metadata.
    reader = reader.option("__globPaths__", "false").option("datetimeRebaseMode", "CORRECTED")
    frame = reader.parquet(*map(files.locate, shape.paths))
    # Also right for a table with a column called `_metadata`.
    file_name = frame.metadataColumn("_metadata").getField("file_name")
    sequence = F.substring(file_name, 1, 16).cast("bigint")

    def column(name: str, type_: str) -> Column:
        if name in own:
            name = STAGED_AS.get(name, name)
        if name == SEQUENCE:
            return sequence
        if name not in stored:
            return F.lit(None).cast(type_)
        return F.col(quote_identifier(name)).cast(type_)

    columns = [
        column(name, type_).alias(source_column(index))
        for index, (name, type_) in enumerate(plan.target_columns.items())
    ]
    return frame.select(
        *columns,
        F.col(CHANGE_TYPE).alias(CHANGE),
        _place(sequence, F.col(ROW)).alias(ORDER),
    )


def _place(sequence: Column, row: Column) -> Column:
    return F.struct(sequence.alias("sequence"), row.alias("row"))


def _erasures(session: SparkSession, plan: TablePlan) -> DataFrame:
    """Return a row for each statement that emptied a changelog's table; other tables have none.

    Its change type is the statement's first word: `truncate`, `drop`, `create` (or replace).
    """
    columns = plan.target_columns
    types = {source_column(index): type_ for index, type_ in enumerate(columns.values())}
    rows = []
    for erasure in plan.fate.erasures if plan.is_changelog else ():
        sequence, row = erasure.place
        change = erasure.kind.split()[0].lower()
        known = {
            CHANGE_TYPE: change,
            FILE: erasure.file,
            POSITION: erasure.offset,
            # Its place in the log, where no row image lies.
            ROW: row,
            SEQUENCE: sequence,
        }
        values = (known.get(STAGED_AS.get(name, name)) for name in columns)
        rows.append((*values, change, (sequence, row)))
    schema = types | {CHANGE: "string", ORDER: "struct<sequence: bigint, row: bigint>"}
    return session.createDataFrame(rows, column_list(schema))
