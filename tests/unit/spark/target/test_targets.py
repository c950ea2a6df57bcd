"""Targets: in memory, of Delta, Iceberg and PostgreSQL, each by the contract."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.spark.collapse.kept_rows import Collapsed, as_literals
from airflow_provider_binlog.spark.collapse.partial_rows import ROW
from airflow_provider_binlog.spark.job.session import Sessions
from airflow_provider_binlog.spark.target.delta.table import DeltaLake
from airflow_provider_binlog.spark.target.iceberg.catalog import IcebergLake
from airflow_provider_binlog.spark.target.postgresql.table_commit import TableCommit
from airflow_provider_binlog.spark.target.postgresql.target import PostgresTarget
from airflow_provider_binlog.spark.target.protocol import (
    COPIES,
    DELETED,
    LACKS,
    NUMBER,
    held,
    source_column,
)
from airflow_provider_binlog.spark.target.spark_target import SourceRows, SparkTarget
from airflow_provider_binlog.spark.target.state import ForeignWrite
from airflow_provider_binlog.table_options import TableRules
from tests.contract.target import HistoryCases, TargetCases, TargetLake
from tests.support import memory_target
from tests.support.memory_target import MemoryTarget, SourceRow
from tests.support.postgresql import administer, read_rows, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.spark.target.spark_target import LakeFormat
    from tests.services.postgresql import PostgresServer


def die(*_: object) -> None:
    raise RuntimeError("killed")


class MemoryLake(TargetLake):
    """Lake tables in memory."""

    def __init__(self) -> None:
        self.memory = MemoryTarget()
        super().__init__(self.memory, "shop")

    def make(
        self, columns: object, rows: Iterable[SourceRow], groups: object = ()
    ) -> list[SourceRow]:
        return [*rows]

    def read(self, columns: Iterable[str]) -> list[dict[str, Any]]:
        return [
            {name: row[name] for name in columns} for row in self.memory.tables[self.table].read()
        ]

    def write_by_hand(self, row: dict[str, Any]) -> None:
        table = self.memory.tables[self.table]
        table.rows.append({table.ids[name]: value for name, value in row.items()})
        table.version += 1
        write = table.contents.foreign_write or ForeignWrite(table.version, "INSERT")
        table.contents = replace(table.contents, foreign_write=write)

    @contextmanager
    def killed_before_rows(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory_target, "write_rows", die)
            yield


class SparkLake(TargetLake):
    """Lake tables of a format of Spark's."""

    def __init__(self, spark: SparkSession, lake: LakeFormat) -> None:
        self.session = Sessions(spark, lake.settings).get(few=True)
        self.lake = lake
        super().__init__(SparkTarget(self.session, lake), "shop")

    def make(
        self,
        columns: dict[str, str],
        rows: Iterable[SourceRow],
        groups: tuple[tuple[str, ...], ...] = (),
    ) -> SourceRows:
        rows = [*rows]
        values = [
            (
                *(row.values.get(name) for name in columns),
                row.deleted,
                row.copies,
                number,
                *(not row.lacks.issuperset(group) for group in groups),
                ROW if row.lacks else None,
            )
            for number, row in enumerate(rows)
        ]
        types = {source_column(at): type_ for at, type_ in enumerate(columns.values())}
        types |= {DELETED: "boolean", COPIES: "bigint", NUMBER: "bigint"} | {
            held(at): "boolean" for at in range(len(groups))
        }
        schema = ", ".join(f"{name} {type_}" for name, type_ in (types | {LACKS: "string"}).items())
        deletes = sum(row.deleted or max(-row.copies, 0) for row in rows)
        kept = sum(max(row.copies, 0) for row in rows if not row.deleted)
        counts = Collapsed(len(rows), deletes, kept)
        frame = as_literals(self.session.createDataFrame(values, schema))
        return SourceRows(frame, 1, is_few=True, counts=counts)

    def read(self, columns: Iterable[str]) -> list[dict[str, Any]]:
        rows = self.session.table(self.table).select(*columns).collect()
        return [row.asDict() for row in rows]

    def write_by_hand(self, row: dict[str, Any]) -> None:
        values = ", ".join("NULL" if value is None else repr(value) for value in row.values())
        self.session.sql(f"INSERT INTO {self.table} VALUES ({values})")

    @contextmanager
    def killed_before_rows(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for step in ("merge", "overwrite"):
                patch.setattr(self.lake, step, die)
            yield


class PostgresLake(TargetLake):
    """Tables of PostgreSQL."""

    is_atomic = True

    def __init__(self, spark: SparkSession, server: PostgresServer) -> None:
        self.session = Sessions(spark, {}).get(few=True)
        self.server = server
        self.postgresql = PostgresTarget(self.session, settings_of(server), TableRules())
        super().__init__(self.postgresql, "shop")
        self.other = administer(spark, server)

    make = SparkLake.make

    def read(self, columns: Iterable[str]) -> list[dict[str, Any]]:
        names = ", ".join(f'"{name}"' for name in columns)
        rows = read_rows(self.other, f"SELECT {names} FROM {self.table}")
        # They come as JSON.
        times = {"since", "until"}
        return [
            {
                name: datetime.fromisoformat(value) if name in times and value else value
                for name, value in row.items()
            }
            for row in rows
        ]

    def write_by_hand(self, row: dict[str, Any]) -> None:
        values = ", ".join("NULL" if value is None else repr(value) for value in row.values())
        self.other.execute(f"INSERT INTO {self.table} VALUES ({values})")

    @contextmanager
    def killed_before_rows(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TableCommit, "_write", die)
            yield

    def close(self) -> None:
        self.other.close()
        self.postgresql.close()


class TestMemory(TargetCases, HistoryCases):
    """Rows of Python's."""

    @pytest.fixture
    def lake(self) -> TargetLake:
        return MemoryLake()


class DeltaTables:
    """Tables in a folder."""

    @pytest.fixture
    def lake(self, spark: SparkSession, tmp_path: Path) -> TargetLake:
        return SparkLake(spark, DeltaLake("shop", f"file://{tmp_path}", TableRules(), {}))


@pytest.mark.spark
class TestDelta(DeltaTables, TargetCases):
    """Their rows."""


@pytest.mark.spark
@pytest.mark.slow  # A commit takes three times as long as one of the others.
class TestDeltaHistory(DeltaTables, HistoryCases):
    """Versions of their rows."""


@pytest.mark.spark
@pytest.mark.parametrize(
    "mode", ["merge-on-read", pytest.param("copy-on-write", marks=pytest.mark.slow)]
)
class TestIceberg(TargetCases, HistoryCases):
    """Tables of a catalog."""

    @pytest.fixture
    def lake(self, spark: SparkSession, mode: str) -> TargetLake:
        properties = {"write.merge.mode": mode}
        return SparkLake(spark, IcebergLake("shop", "lake", TableRules(), properties))


@pytest.mark.spark
@pytest.mark.parametrize(
    "kind", ["postgresql18", pytest.param("postgresql15", marks=pytest.mark.slow)]
)
@pytest.mark.server
class TestPostgresql(TargetCases, HistoryCases):
    """Tables of a database."""

    @pytest.fixture
    def lake(
        self, kind: str, request: pytest.FixtureRequest, spark: SparkSession
    ) -> Iterator[TargetLake]:
        lake = PostgresLake(spark, request.getfixturevalue(kind))
        yield lake
        lake.close()
