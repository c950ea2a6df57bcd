"""Binlog files as a table of Spark, to explore a log with SQL: one row for each row change.

    spark.dataSource.register(BinlogDataSource)
    spark.read.format("binlog").option("tables", "shop.*").load("/backup/binlogs/")

Each file is one partition, read for itself, with changes that were rolled back. The package, with
NumPy and Arrow, has to be installed where Spark's Python workers run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from airflow_provider_binlog.cli.rows import read_rows
from airflow_provider_binlog.cli.source import Range
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.rows.values import Array
from airflow_provider_binlog.sources.binlog_files import BinlogFiles, find_files, reach_plainly
from airflow_provider_binlog.sources.file_log import FileLog

_BATCH_ROWS = 4096
_OPTIONS = ("path", "tables")

_DDL = (
    "table STRING, change STRING, file STRING, pos BIGINT, row BIGINT, gtid STRING, "
    "commit_ts TIMESTAMP, xa STRING, values STRING"
)
_TYPES: dict[str, pa.DataType] = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}
_COLUMNS = (column.split(" ") for column in _DDL.split(", "))

SCHEMA = pa.schema([(name, _TYPES[type_]) for name, type_ in _COLUMNS])
"""`row` numbers the changes of one file; `values` is a JSON object by column names."""


class BinlogDataSource(DataSource):
    """The format ``binlog``.

    Its options are ``path``, which ``load`` sets: a file, a folder or a glob of file names, as the
    server wrote them or compressed, anywhere that fsspec reaches; and ``tables``, globs of
    ``database.table`` with commas between them, all by default.
    """

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` takes."""
        return "binlog"

    def schema(self) -> str:
        """Return the columns; see `SCHEMA`."""
        return _DDL

    def reader(self, schema: StructType) -> BinlogFilesReader:  # noqa: ARG002  There is one alone.
        """Return what reads the files; raise ConfigurationError for an option."""
        return BinlogFilesReader(self.options)


class BinlogFilesReader(DataSourceReader):
    """Reads the files that the options name, each as a partition."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        if unknown := sorted(given.keys() - set(_OPTIONS)):
            raise ConfigurationError("not an option of the format binlog", options=unknown)
        if not given.get("path"):
            raise ConfigurationError("the format binlog reads what load(path) names")
        self._path = given["path"]
        tables = [glob.strip() for glob in given.get("tables", "").split(",")]
        self._tables = list(filter(None, tables)) or None

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each file; raise ConfigurationError if there is none."""
        return [InputPartition(path) for path in self._files().paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one file.

        Raises:
            BinlogError: The file is damaged, or holds what is not decoded.
        """
        path = str(partition.value)
        log = FileLog(BinlogFiles((path,), (), self._files().open, as_given=True))
        rows_read = read_rows(Range(log, log.first(), None), self._tables)
        while rows := list(islice(rows_read, _BATCH_ROWS)):
            yield pa.RecordBatch.from_arrays(
                [_column(rows, name) for name in SCHEMA.names], schema=SCHEMA
            )

    def _files(self) -> BinlogFiles:
        return find_files(self._path, reach_plainly)


def _column(rows: list[dict[str, Any]], name: str) -> Array:
    """Return one column of some changes."""
    if name == "values":
        return pa.array([json.dumps(row[name], ensure_ascii=False) for row in rows], pa.string())
    values: Array = pa.array([row.get(name) for row in rows])
    kind = SCHEMA.field(name).type
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us"))
    cast: Array = values.cast(kind)
    return cast
