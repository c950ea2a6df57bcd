"""The format binlog: files as a table of Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.data_source import BinlogFilesReader
from airflow_provider_binlog.errors import ConfigurationError
from tests.support import builder
from tests.unit.cli.test_commands import NUMBER, table_map
from tests.unit.test_docs import blocks

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def write_files(folder: Path) -> None:
    """Write two files of a log: an insert in each."""
    for number in (1, 2):
        file = builder.BinlogFile()
        insert = builder.rows(EventType.WRITE_ROWS, 9, 1, builder.row_image([NUMBER]))
        events = [(EventType.TABLE_MAP, table_map()), (EventType.WRITE_ROWS, insert)]
        file.add_transaction(number, events)
        (folder / f"binlog.00000{number}").write_bytes(bytes(file))


def test_each_file_is_a_partition_of_changes(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path)
    (block,) = (code for code in blocks("docs/backlog.md", "python") if "spark.read" in code)
    names: dict[str, Any] = {"spark": spark}

    exec(block.replace("/backup/binlogs/", str(tmp_path)), names)  # noqa: S102  It is ours.

    found = names["changes"]
    rows: list[dict[str, Any]] = sorted(
        (row.asDict() for row in found.collect()), key=lambda row: str(row["file"])
    )
    assert found.rdd.getNumPartitions() == 2
    assert [row["file"] for row in rows] == ["binlog.000001", "binlog.000002"]
    assert {(row["table"], row["change"], row["xa"]) for row in rows} == {
        ("shop.t", "insert", None)
    }
    assert len({row["gtid"] for row in rows}) == 2
    assert [len(json.loads(row["values"])) for row in rows] == [1, 1]
    assert spark.read.format("binlog").option("tables", "crm.*").load(str(tmp_path)).count() == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [({}, "what load.path. names"), ({"path": "/x", "table": "shop.*"}, "not an option.*table")],
)
def test_options_are_checked(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        BinlogFilesReader(options)
