"""A staging root, a lake of one format, and the merge between them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.spark.job.options import MergeOptions
from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.delta.table import COLUMN_MAPPING, DeltaLake
from airflow_provider_binlog.spark.target.iceberg.catalog import NEW_TABLE, IcebergLake
from airflow_provider_binlog.spark.target.spark_target import Namespaces
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.table_options import TableRules
from tests.support.merges import merge_all
from tests.support.stores import open_store
from tests.unit.spark.history import Source, Table
from tests.unit.spark.session import reading_session
from tests.unit.spark.staged_changes import INT, TEXT, ColumnType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.changes import BeforeImages
    from airflow_provider_binlog.spark.job.options import Report, TableReport
    from airflow_provider_binlog.spark.target.spark_target import LakeFormat
    from airflow_provider_binlog.spark.target.state import Hold, TargetState

in_either_format = pytest.mark.parametrize(
    "workplace", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
"""For what both formats do in the same way: on the quicker one, and with -m slow on the other."""

_NUMBERS = count(1)


@dataclass
class Workplace:
    """Where one test merges.

    Attributes:
        spark: The session.
        format: `delta` or `iceberg`.
        root: URI of a folder, as Spark sees it.
        store: The staging root below it, as capture sees it.
        catalog: Name of the Iceberg catalog.
        source: Name of the source; each test has another one.
        properties: Properties of new tables.
    """

    spark: SparkSession
    format: str
    root: str
    store: ObjectStore
    catalog: str = "lake"
    source: str = field(default_factory=lambda: f"shop-{next(_NUMBERS)}")
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def database(self) -> str:
        """A database that no other test uses: all share one Iceberg catalog."""
        return self.source.replace("-", "_")

    def new_source(self, **options: BeforeImages) -> Source:
        return Source(self.store, self.source, **options)

    def old_table(self, key: tuple[str, ...] = ("id",)) -> Table:
        """Return a table of a new source with rows that are not in the log."""
        columns: dict[str, ColumnType] = {"id": INT, "note": TEXT}
        table = self.new_source().create(self.database, "t", columns, key, logged=False)
        for id_ in range(10):
            table.load(id=id_, note="old")
        return table

    def options(self, **options: Any) -> MergeOptions:
        lake = self.catalog if self.format == "iceberg" else f"{self.root}/lake"
        known = {"staging": f"{self.root}/staging", "source": self.source, "format": self.format}
        # Most tables of the tests are older than their log.
        known["initial_load"] = "changes_only"
        properties = {"properties": self.properties}
        return MergeOptions(**(known | {"lake": lake} | properties | options))

    def merge(self, **options: Any) -> Report:
        """Merge, and fail the test with the report's errors."""
        report = self.try_merge(**options)
        assert not report.failed, [each.error for each in report.tables]
        return report

    def follow(self, *tables: Table, in_order: bool = True, **options: Any) -> None:
        """Stage what happened to tables, merge it, and compare them."""
        for source in {table.source.name: table.source for table in tables}.values():
            source.commit()
        self.merge(**options)
        self.check(*tables, in_order=in_order)

    def try_merge(self, **options: Any) -> Report:
        return merge_all(self.spark, self.options(**options))

    def merge_killed(self, *calls: str, done: bool = False, **options: Any) -> None:
        """Merge until it is killed at one of these calls of the lake, or once that is done."""
        lake = type(self.lake)

        def dying(call: Any) -> Any:
            def die(*arguments: Any) -> None:
                if done:
                    call(*arguments)
                raise RuntimeError("killed")

            return die

        with pytest.MonkeyPatch.context() as patch:
            for name in calls:
                patch.setattr(lake, name, dying(getattr(lake, name)))
            assert self.try_merge(**options).failed

    def merge_overtaken(self, *, through: int | None = None, **options: Any) -> Report:
        """Merge, while another merge of all ranges commits after this one has read the table."""
        lake: Any = type(self.lake)
        merge = lake.merge

        def overtaken(*arguments: Any) -> Any:
            patch.setattr(lake, "merge", merge)
            assert self.merge(**options).tables[0].is_merged
            return merge(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lake, "merge", overtaken)
            return self.try_merge(through=through, **options)

    def create_empty(self) -> None:
        """Merge until it is killed in a catalog that creates a table without its rows."""

        def create(_: LakeFormat, session: SparkSession, change: Any, properties: Any) -> None:
            self.make_empty(change.table, change.columns, properties, session)
            raise RuntimeError("killed")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(self.lake), "create_as", create)
            assert self.try_merge().failed

    def make_empty(
        self,
        target: str,
        columns: Mapping[str, str],
        properties: Mapping[str, str],
        session: SparkSession | None = None,
    ) -> None:
        """Make a lake table without rows."""
        make_empty(session or self.spark, self.lake, target, columns, properties)

    def failure(self, **options: Any) -> TableReport:
        """Merge one table, which fails."""
        (failed,) = [each for each in self.try_merge(**options).tables if each.status == "failed"]
        return failed

    def held(self, **options: Any) -> TableReport:
        """Merge one table that is left alone; no other fails."""
        report = self.try_merge(**options)
        assert not report.failed, [each.error for each in report.tables]
        (held,) = report.held
        return held

    @property
    def lake(self) -> LakeFormat:
        if self.format == "iceberg":
            return IcebergLake(self.source, self.catalog, TableRules(), {})
        return DeltaLake(self.source, f"{self.root}/lake", TableRules(), {})

    def target(self, table: Table) -> str:
        return self.lake.target(*table.name)

    def state(self, table: Table) -> TargetState:
        state = self.lake.find_state(self.spark, self.target(table))
        assert state is not None
        return state

    def hold(self, table: Table) -> Hold:
        """Why a lake table is not merged."""
        hold = self.state(table).hold
        assert hold is not None
        return hold

    def find_state(self, database: str, table: str) -> TargetState | None:
        """Return the state of a lake table; None if there is none."""
        return self.lake.find_state(self.spark, self.lake.target(database, table))

    def read(self, database: str, table: str) -> dict[str, list[Any]]:
        """Return the values of a lake table by column, as Arrow gives them to Python."""
        session, target = reading_session(self.spark), self.lake.target(database, table)
        values: dict[str, list[Any]] = session.table(target).toArrow().to_pydict()
        return values

    def found(self, table: Table) -> list[dict[str, Any]]:
        """The rows of the lake table, by column name."""
        frame = reading_session(self.spark).table(self.target(table))
        # Python would get an instant in the machine's own zone.
        instants = [name for name, type_ in frame.dtypes if type_ == "timestamp"]
        columns = [frame[f"`{name.replace('`', '``')}`"] for name in frame.columns]
        plain = [
            column.cast("timestamp_ntz") if name in instants else column
            for name, column in zip(frame.columns, columns, strict=True)
        ]
        rows = frame.select(*plain).collect()
        return [dict(zip(frame.columns, row, strict=True)) for row in rows]

    def check(self, *tables: Table, in_order: bool = True) -> None:
        """Compare lake tables with what `SELECT` would return at the source."""
        for table in tables:
            found, expected = sorted_rows(self.found(table)), sorted_rows(table.values)
            assert found == expected, table.name
            columns = list(self.state(table).columns)
            assert set(columns) == set(table.types), table.name
            assert not in_order or columns == list(table.types), table.name

    def check_rows(self, *tables: Table) -> None:
        """Compare the rows alone: the lake has those of a table without a key as inserts."""
        for table in tables:
            found = [{name: row[name] for name in table.types} for row in self.found(table)]
            assert sorted_rows(found) == sorted_rows(table.values), table.name


def make_empty(
    session: SparkSession,
    lake: LakeFormat,
    target: str,
    columns: Mapping[str, str],
    properties: Mapping[str, str],
) -> None:
    """Make a lake table without rows."""
    own = {"iceberg": NEW_TABLE, "delta": COLUMN_MAPPING}[lake.provider] | dict(properties)
    Namespaces().create(session, target)
    session.sql(
        merge_sql.create_table(target, provider=lake.provider, columns=columns, properties=own)
    )


def sorted_rows(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows in an order and a form that can be compared, whatever their values are."""
    return sorted(repr(sorted((key, _plain(row[key])) for key in row)) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, int | Decimal):
        return Decimal(value).normalize()
    return value


def report_of(line: str) -> dict[str, Any]:
    """Return the report that the job printed."""
    value = json.loads(line)
    assert isinstance(value, dict)
    return value


def local_workplace(spark: SparkSession, format_: str, folder: Any) -> Workplace:
    """Return a workplace in a folder."""
    return Workplace(spark, format_, f"file://{folder}", open_store(f"file://{folder}/staging"))
