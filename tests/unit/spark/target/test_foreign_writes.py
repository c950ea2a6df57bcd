"""Commits of others to tables of both formats: those that change rows are named, no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.spark.target.delta.table import DeltaLake
from airflow_provider_binlog.spark.target.iceberg.catalog import IcebergLake
from airflow_provider_binlog.spark.target.spark_target import Namespaces
from airflow_provider_binlog.table_options import TableRules
from tests.contract.target import ONE, TWO
from tests.support.memory_target import SourceRow
from tests.unit.spark.target.test_targets import SparkLake

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MERGE = "MERGE INTO {} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 0"
WRITES = {
    "insert": ("INSERT INTO {} VALUES (3, 3, '')", "WRITE", ("append",)),
    "update": ("UPDATE {} SET n = 0 WHERE id = 1", "UPDATE", ("overwrite",)),
    "delete": ("DELETE FROM {} WHERE id = 1", "DELETE", ("delete", "overwrite")),
    "delete all": ("DELETE FROM {}", "DELETE", ("delete",)),
    "merge": (MERGE, "MERGE", ("overwrite",)),
    "overwrite": ("INSERT OVERWRITE {} VALUES (3, 3, '')", "WRITE", ("overwrite", "delete")),
}
IN_BOTH = [
    "ALTER TABLE {} SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE {} ALTER COLUMN note COMMENT 'a comment'",
    "ALTER TABLE {} ADD COLUMN more INT",
    "DELETE FROM {} WHERE id = 9",
    "UPDATE {} SET n = 0 WHERE id = 9",
]
DELTA = ["OPTIMIZE {}", "REORG TABLE {} APPLY (PURGE)", "VACUUM {}"]
CALL = "CALL {catalog}.system.{procedure}(table => '{table}'{more})"
PROCEDURES = {
    "rewrite_data_files": ", options => map('rewrite-all', 'true')",
    "rewrite_position_delete_files": ", options => map('rewrite-all', 'true')",
    "rewrite_manifests": "",
    "expire_snapshots": ", older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1",
}


@pytest.fixture(params=["delta", "iceberg"])
def empty(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> SparkLake:
    """A lake without the table."""
    delta = DeltaLake("shop", f"file://{tmp_path}", TableRules(), {})
    iceberg = IcebergLake("shop", "lake", TableRules(), {})
    return SparkLake(spark, delta if request.param == "delta" else iceberg)


@pytest.fixture
def lake(empty: SparkLake) -> SparkLake:
    """A lake table of two rows, one of them by a MERGE."""
    empty.create()
    empty.commit(empty.change(2, empty.keyed(SourceRow(ONE | {"n": 11}))))
    return empty


def test_each_commit_that_changes_rows_is_named_until_they_are_replaced(lake: SparkLake) -> None:
    for mark, (statement, delta, iceberg) in enumerate(WRITES.values(), 3):
        lake.session.sql(statement.format(lake.table)).collect()

        write = lake.state.contents.foreign_write
        assert write is not None, statement
        assert write.operation in (delta, *iceberg)
        assert write.version == lake.state.snapshot
        assert "spark" in write.user.lower()
        assert write.time.endswith("+00:00")
        lake.commit(lake.change(mark, lake.whole(ONE, TWO)))
        assert lake.state.contents.foreign_write is None


def test_a_commit_that_leaves_all_rows_is_not_named(lake: SparkLake) -> None:
    for statement in IN_BOTH:
        lake.session.sql(statement.format(lake.table)).collect()

        assert lake.state.contents.foreign_write is None, statement


def test_no_compaction_and_no_expiry_is_named(lake: SparkLake) -> None:
    if lake.lake.provider == "delta":
        statements = [statement.format(lake.table) for statement in DELTA]
        before = lake.state.snapshot
    else:
        table = lake.table.replace("`", "").partition(".")[2]
        statements = [
            CALL.format(catalog="lake", procedure=procedure, table=table, more=more)
            for procedure, more in PROCEDURES.items()
        ]
        before = lake.state.snapshot
    for statement in statements:
        lake.session.sql(statement).collect()
        assert lake.state.contents.foreign_write is None, statement

    assert lake.state.snapshot != before
    lake.write_by_hand(ONE | {"id": 3})
    assert lake.state.contents.foreign_write is not None


def test_a_restore_takes_a_write_back(lake: SparkLake) -> None:
    version, table = lake.state.snapshot, lake.table
    lake.write_by_hand(ONE | {"id": 3})
    named = lake.table.replace("`", "").partition(".")[2]

    if lake.lake.provider == "delta":
        lake.session.sql(f"RESTORE TABLE {table} TO VERSION AS OF {version}").collect()
    else:
        lake.session.sql(f"CALL lake.system.rollback_to_snapshot('{named}', {version})").collect()

    assert lake.state.contents.foreign_write is None


def test_what_others_wrote_before_a_table_was_adopted_is_not_named(empty: SparkLake) -> None:
    Namespaces().create(empty.session, empty.table)
    columns = "(id INT, n BIGINT, note STRING)"
    empty.session.sql(f"CREATE TABLE {empty.table} {columns} USING {empty.lake.provider}")
    empty.write_by_hand(ONE)
    assert empty.state.contents.foreign_write is None

    empty.commit(empty.change(3, empty.keyed(SourceRow(TWO))))

    assert (empty.state.contents.foreign_write, empty.rows()) == (None, [ONE, TWO])


def test_a_rewrite_that_says_so_is_not_named(spark: SparkSession, tmp_path: Path) -> None:
    """Delta's manual compaction is a WRITE; a commit may begin with any action."""
    lake = SparkLake(spark, DeltaLake("shop", f"file://{tmp_path}", TableRules(), {}))
    lake.create()
    rows = lake.session.read.format("delta").load(f"{tmp_path}/{'/'.join(lake.owner.name)}")

    writer = rows.repartition(1).write.format("delta").mode("overwrite")
    writer.option("dataChange", "false").save(f"{tmp_path}/{'/'.join(lake.owner.name)}")

    assert lake.state.contents.foreign_write is None
    lake.write_by_hand(ONE | {"id": 3})
    log = tmp_path / "/".join(lake.owner.name) / "_delta_log"
    newest = max(log.glob("*.json"))
    lines = newest.read_text().splitlines()
    newest.write_text("\n".join(reversed(lines)))
    for checksum in log.glob(".*.crc"):
        checksum.unlink()
    write = lake.state.contents.foreign_write
    assert write is not None
    assert write.operation == "WRITE"
