"""The rows of small parts, which Arrow reads on the driver, without a job of Spark.

A driver needs nothing but PySpark: without PyArrow Spark reads these rows as all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from airflow_provider_binlog.changes import CHANGE_TYPE, ROW, ChangeType
from airflow_provider_binlog.errors import cause_of
from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.spark.staged.files import SourceFiles, damaged
from airflow_provider_binlog.staging.paths import part_sequence

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.pandas.utils import require_minimum_pyarrow_version

    require_minimum_pyarrow_version()
    HAS_ARROW = True
except (ImportError, PySparkException):
    HAS_ARROW = False

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# No server allows such a space in the name of a column.
MANIFEST = "manifest "
"""Column of the rows: the number of their manifest."""

COUNT = "count "
"""Column of the last change of a key: how many changes the key has."""

_THREADS = 8
# At a time, of a part: its dictionaries may hold a large value once that is there many times.
_BATCH_ROWS = 32


def read_parts(
    files: SourceFiles, parts: Sequence[Part], columns: Mapping[str, str], *, memory: int
) -> pa.Table | None:
    """Return columns of parts, whose Spark types are given, and `MANIFEST`.

    None if they take more than so many bytes of memory.

    Raises:
        StagingError: A part is missing, or is no Parquet file with these columns and change types,
            and as many rows as its manifest says.
    """
    tables: list[pa.Table] = []
    size = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for table in pool.map(partial(_read_part, files, columns, memory), parts):
            if table is None or size + table.nbytes > memory:
                pool.shutdown(cancel_futures=True)
                return None
            size += table.nbytes
            tables.append(table)
    return pa.concat_tables(tables).combine_chunks()


def _read_part(
    files: SourceFiles, columns: Mapping[str, str], memory: int, part: Part
) -> pa.Table | None:
    uri, data = files.locate(part.path), files.read(part.path)
    if data is None:
        raise damaged("a staged part is missing", part=uri)
    try:
        table = _decode(data, columns, memory)
    except MemoryError:
        raise
    except (pa.ArrowException, PySparkException, OSError, ValueError, KeyError) as error:
        raise damaged("a staged part cannot be read", part=uri, cause=cause_of(error)) from error
    if table is None:
        return None
    if table.num_rows != part.rows:
        raise damaged(
            "the staged parts do not hold the rows their manifests say",
            part=uri,
            rows=table.num_rows,
            manifests_say=part.rows,
        )
    sequence = pa.scalar(part_sequence(part.path), pa.int64())
    return table.append_column(MANIFEST, pa.repeat(sequence, table.num_rows))


def _decode(data: bytes, columns: Mapping[str, str], memory: int) -> pa.Table | None:
    """Return columns of a part's bytes; None if they take more memory.

    Raises:
        ValueError: Types are others; or whatever Arrow raises.
    """
    file, batches, size = pq.ParquetFile(pa.BufferReader(data)), [], 0
    groups = (file.metadata.row_group(number) for number in range(file.num_row_groups))
    if sum(group.total_byte_size for group in groups) > memory:
        return None
    # All columns: names of Parquet's are paths, at whose dots it would part ours.
    for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
        batches.append(batch)
        size += batch.nbytes
        if size > memory:
            return None
    stored = pa.Table.from_batches(batches, file.schema_arrow)
    table = pa.Table.from_arrays([stored[name] for name in columns], names=[*columns])
    table.validate(full=True)
    types = {field.name: field.dataType.simpleString() for field in _schema(table)}
    if types != dict(columns):
        raise ValueError(f"it has columns of the types {types}")
    if unknown := {*table[CHANGE_TYPE].unique().to_pylist()}.difference(ChangeType):
        raise ValueError(f"not change types: {unknown}")
    return table


def take_last(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the last row of each key, in the order of the log, and its `COUNT`.

    NULLs are one value, and so are both zeros, as they are for Spark.
    """
    table = table.sort_by([(MANIFEST, "ascending"), (ROW, "ascending")])
    keys = [*zip(*(_values(table[name]) for name in key), strict=True)]
    last, counts = {values: index for index, values in enumerate(keys)}, Counter(keys)
    count = pa.array([counts[values] for values in last], pa.int64())
    return table.take(pa.array(last.values(), pa.int64())).append_column(COUNT, count)


def _values(column: pa.ChunkedArray[Any]) -> list[Any]:
    # A driver without data of time zones has no moments.
    moments = pa.types.is_timestamp(column.type)
    return (column.cast(pa.int64()) if moments else column).to_pylist()


def to_frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """Return rows as a frame that reads them without a job."""
    return session.createDataFrame(table, _schema(table))


def _schema(table: pa.Table) -> StructType:
    return from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
