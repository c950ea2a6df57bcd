"""Files that a merge reads and writes through Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.spark.staged.files import HadoopFiles

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_local_file_is_read_whatever_checksums_another_writer_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    files, file = HadoopFiles(spark), tmp_path / "progress.json"
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"file://{file}")
    stream = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).create(path)
    stream.write(b"of the other one")
    stream.close()
    assert (tmp_path / ".progress.json.crc").exists()
    file.write_bytes(b"ours")

    assert files.read(f"file://{file}") == b"ours"

    files.write(f"file://{file}", b"the next one")
    assert files.read(f"file://{file}") == b"the next one"


def test_the_names_in_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    files, names = HadoopFiles(spark), ["%C3%A4 [1], b.json", "0000000000000001.json"]
    for name in names:
        (tmp_path / name).write_bytes(b"{}")
    (tmp_path / "empty").mkdir()

    assert sorted(files.list(f"file://{tmp_path}")) == [*names, "empty"]
    assert files.list(f"file://{tmp_path}/empty") == []
    assert files.list(f"file://{tmp_path}/missing") == []
