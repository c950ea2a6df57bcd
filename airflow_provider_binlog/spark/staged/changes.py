"""The staged change rows of one table as one DataFrame, whatever shapes its parts have.

Columns are called by their place in the target (`c0`, `c1`, ...), so that no name of the source
table meets one of ours.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own habit.

from airflow_provider_binlog.changes import CHANGE_TYPE, FILE, IMAGE, POSITION, ROW, ChangeType
from airflow_provider_binlog.errors import StagingError
from airflow_provider_binlog.spark.merge_sql import column_list, held, source_column
from airflow_provider_binlog.spark.names import quote_identifier, quote_text
from airflow_provider_binlog.spark.staged.shapes import (
    ABSENT,
    CHANGELOG_COLUMNS,
    SEQUENCE,
    STAGED_AS,
    StagedShape,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.spark.plan.renames import Stretch
    from airflow_provider_binlog.spark.plan.statements import Place
    from airflow_provider_binlog.spark.plan.table_plan import TablePlan
    from airflow_provider_binlog.spark.staged.files import SourceFiles

CHANGE = "change"
"""Column of a change: its `ChangeType`."""

ORDER = "place"
"""Column of a change: (sequence, `_row`), which orders all changes of a source."""


EVENT = "event"
"""Column of a change in a plan with `groups`: where its event is, the same for both images of an
update."""


def read_changes(session: SparkSession, files: SourceFiles, plan: TablePlan) -> DataFrame:
    """Return every change row the plan reads: the target's columns, `CHANGE` and `ORDER`.

    Where row images may lack columns, also `EVENT` and a column `held` for each of the plan's
    groups; what inserts leave in a column is filled in as far as it is known.
    """
    frames = [_read_shape(session, files, plan, shape) for shape in plan.shapes]
    if plan.is_changelog or not frames:
        frames.append(_erasures(session, plan))
    return reduce(DataFrame.unionAll, frames)


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
    made = (SEQUENCE, ABSENT)
    stored = shape.columns | {
        STAGED_AS.get(name, name): type_ for name, type_ in own.items() if name not in made
    }
    if shape.images is not None:
        stored |= {IMAGE: "int"}
    if plan.groups:
        stored |= {FILE: "string", POSITION: "bigint"}
    reader = session.read.schema(column_list(stored))
    # A path is a path: names of folders may hold what globs are made of. Files follow today's
    # calendar whatever their writer put into their metadata.
    reader = reader.option("__globPaths__", "false").option("datetimeRebaseMode", "CORRECTED")
    frame = reader.parquet(*map(files.locate, shape.paths))
    # Also right for a table with a column called `_metadata`.
    file_name = frame.metadataColumn("_metadata").getField("file_name")
    sequence = F.substring(file_name, 1, 16).cast("bigint")
    image = _image(shape, sequence)

    def column(name: str, type_: str) -> Column:
        if name == SEQUENCE:
            return sequence
        if name == ABSENT:
            return _absent(shape, image)
        if name in own:
            return F.col(quote_identifier(STAGED_AS.get(name, name))).cast(type_)
        if name not in shape.columns:
            return F.lit(None).cast(type_)
        return _value(shape, name, image, in_key=name in plan.key).cast(type_)

    columns = [
        column(name, type_).alias(source_column(index))
        for index, (name, type_) in enumerate(plan.target_columns.items())
    ]
    if plan.groups:
        columns.append(F.struct(sequence.alias("sequence"), FILE, POSITION).alias(EVENT))
        columns += [
            _has_value(shape, group[0], image).alias(held(index))
            for index, group in enumerate(plan.groups)
        ]
    changes = frame.select(
        *columns,
        F.col(CHANGE_TYPE).alias(CHANGE),
        _place(sequence, F.col(ROW)).alias(ORDER),
    )
    return changes if shape.within is None else _within(changes, shape.within)


def _within(changes: DataFrame, stretch: Stretch) -> DataFrame:
    since, before = stretch.since, stretch.before
    if since is not None:
        changes = changes.where(F.col(ORDER) >= _literal_place(since))
    return changes if before is None else changes.where(F.col(ORDER) < _literal_place(before))


def _inserted() -> Column:
    return F.col(CHANGE_TYPE) == ChangeType.INSERT.value


def _image(shape: StagedShape, sequence: Column) -> Column:
    """Return the row image's number among the shape's `sets`."""
    if shape.images is None:
        return F.lit(0)
    numbers = ", ".join(
        f"array({', '.join(map(str, each))})" if each else "CAST(NULL AS array<int>)"
        for each in shape.images.numbers
    )
    of_manifest = F.get(F.expr(f"array({numbers})"), (sequence - shape.images.first).cast("int"))
    unknown = F.raise_error(F.lit("a staged row has an image that its manifest does not list"))
    return F.coalesce(F.get(of_manifest, F.col(IMAGE)), unknown.cast("int"))


def _holds(shape: StagedShape, name: str, image: Column) -> Column:
    """Whether the row image holds a column of the shape."""
    if shape.images is None:
        return F.expr("true")
    sets = ", ".join("true" if each else "false" for each in shape.images.holds(name))
    return F.get(F.expr(f"array({sets})"), image)


def _value(shape: StagedShape, name: str, image: Column, *, in_key: bool) -> Column:
    """Return what the row has in a column of the shape: what inserts leave there, if it is known.

    A row without its key fails.
    """
    value = F.col(quote_identifier(name))
    if shape.images is None or all(shape.images.holds(name)):
        return value
    holds = F.when(_holds(shape, name, image), value)
    if name in shape.defaults:
        holds = holds.when(_inserted(), F.expr(shape.defaults[name]))
    if not in_key:
        return holds
    return holds.otherwise(F.raise_error(F.lit("a staged row image lacks its key")))


def _has_value(shape: StagedShape, name: str, image: Column) -> Column:
    """Whether the row has a value in a column, be it the one that inserts leave there."""
    if name not in shape.columns:
        return F.expr("true")
    holds = _holds(shape, name, image)
    return holds | _inserted() if name in shape.defaults else holds


def _absent(shape: StagedShape, image: Column) -> Column:
    """Return the columns without a value; NULL if there are none."""
    if shape.images is None:
        return F.lit(None).cast("array<string>")
    sets = shape.images.sets

    def names(filled: Mapping[str, str]) -> Column:
        lost = [
            [name for name in shape.columns if name not in each and name not in filled]
            for each in sets
        ]
        lists = ", ".join(
            f"array({', '.join(map(quote_text, each))})" if each else "CAST(NULL AS array<string>)"
            for each in lost
        )
        return F.get(F.expr(f"array({lists})"), image)

    return F.when(_inserted(), names(shape.defaults)).otherwise(names({}))


def _literal_place(place: Place) -> Column:
    sequence, row = (F.lit(number).cast("bigint") for number in place)
    return _place(sequence, row)


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
