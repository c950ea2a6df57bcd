"""Tables of PostgreSQL: rows are staged table by table, and one transaction commits all of them.

Spark computes the rows as text; the driver copies them to staged tables, over connections that only
it has. Readers see the changes of all tables, their columns included, or none of them.
"""

# ruff: noqa: SLF001  PySpark has no other way to count the partitions without Python.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from threading import RLock
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.spark.collapse.kept_rows import checkpoint
from airflow_provider_binlog.spark.collapse.source_rows import SparkRows
from airflow_provider_binlog.spark.job.session import count_partitions
from airflow_provider_binlog.spark.names import postgresql_name, quote_text
from airflow_provider_binlog.spark.staged.types import Value
from airflow_provider_binlog.spark.target.postgresql import marks
from airflow_provider_binlog.spark.target.postgresql.connection import (
    Connection,
    Connections,
    literal,
    quote,
)
from airflow_provider_binlog.spark.target.postgresql.marks import StoredTable
from airflow_provider_binlog.spark.target.postgresql.settings import PostgresSettings
from airflow_provider_binlog.spark.target.postgresql.table_commit import (
    ColumnPlan,
    StagedChange,
    TableCommit,
    TableCopy,
    split_name,
)
from airflow_provider_binlog.spark.target.postgresql.types import (
    column_type,
    copied,
    spark_type,
    value_text,
    without_nul,
)
from airflow_provider_binlog.spark.target.protocol import (
    COPIES,
    DELETED,
    LACKS,
    NUMBER,
    Commit,
    CountedRows,
    KeyedRows,
    TableChange,
    VersionedRows,
    held,
    source_column,
)
from airflow_provider_binlog.spark.target.spark_target import EXPANSION, SourceRows
from airflow_provider_binlog.spark.target.sql import literal as spark_literal
from airflow_provider_binlog.spark.target.state import Comments, TargetState
from airflow_provider_binlog.table_options import TableRules

_C = 'pg_catalog."C"'


class PostgresRows(SparkRows):
    """Makes DataFrames, and copies of tables without Spark; a `RowMaker`."""

    def copy(self, table: str, columns: Mapping[str, str], *, size: int) -> Any:  # noqa: ARG002
        """See `RowMaker`."""
        return TableCopy(table)


class PostgresTarget:
    """Tables of a database; a `TransactionalTarget`.

    Args:
        session: Its JVM has the driver.
        settings: How to reach the database.
        options: Those of the tables.
    """

    def __init__(
        self, session: SparkSession, settings: PostgresSettings, options: TableRules
    ) -> None:
        self._session, self._settings, self._options = session, settings, options
        self._numbers = count(1)
        # Tables of staged rows that are not dropped yet.
        self._staged: list[str] = []
        # A transaction that is open already: renamed tables took rows along.
        self._opened: ExitStack | None = None
        self._writing = RLock()
        self._connect()

    def start(self) -> None:
        """Start a merge; see `TransactionalTarget`."""
        if not self._writer.is_alive():
            self.close()
            self._connect()

    def locate(self, name: TableName) -> str:
        """Return the quoted name of a table; see `Target`."""
        return postgresql_name(self._options, *name)

    def read_state(self, table: str) -> TargetState | None:
        """Return the state of a table; see `Target`."""
        with self._reading() as connection:
            stored = marks.read_table(connection, *split_name(table))
        return None if stored is None else stored.state

    def set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        """Set properties; see `Target`."""
        with self._reading() as connection:
            marks.set_properties(connection, *split_name(table), dict(properties))

    def set_comments(self, table: str, comments: Comments) -> None:
        """Set comments; see `Target`."""
        with self._reading() as connection:
            if comments.table is not None:
                connection.execute(f"COMMENT ON TABLE {table} IS {literal(comments.table)}")
            stored = marks.read_table(connection, *split_name(table))
            named = {} if stored is None else stored.named
            for name, text in comments.columns.items():
                if name in named:
                    column = f"{table}.{quote(named[name].name)}"
                    connection.execute(f"COMMENT ON COLUMN {column} IS {literal(text)}")

    def commit(self, change: TableChange[Any]) -> Commit | None:
        """Commit a change; see `Target`.

        The copy of another table is committed with the changes that are staged.
        """
        if isinstance(change.rows.rows, TableCopy):
            return self._copy(change)
        (done,) = self.commit_staged([self.stage(change)])
        if isinstance(done, Exception):
            raise done
        return done

    def stage(self, change: TableChange[Any]) -> StagedChange:
        """Copy the rows of a change; see `TransactionalTarget`."""
        rows = change.rows.rows
        # A copy has the types of the table that it is of.
        like = rows.table if isinstance(rows, TableCopy) else change.table
        with self._reading() as connection:
            plans = _plan_columns(change, marks.read_table(connection, *split_name(like)))
        if isinstance(rows, TableCopy):
            return StagedChange(change, rows.table, plans, {}, {})
        with self._connections.take() as connection:
            name = marks.name_staged(self._run, next(self._numbers))
            self._staged.append(name)
            columns = _staged_columns(change, plans).items()
            # A crash of the server may empty it.
            connection.execute(
                f"CREATE UNLOGGED TABLE {name} ({', '.join(map(' '.join, columns))}) "
                "WITH (autovacuum_enabled = false)"
            )
            policy = self._options.of(change.owner.name).on_nul or "fail"
            connection.copy(name, _lines(change, plans, rows, policy), few=rows.is_few)
            read = partial(_write_values, change, plans, rows.frame.sparkSession)
            rest = (change.rows.rest or {}) if isinstance(change.rows, KeyedRows) else {}
            return StagedChange(change, name, plans, read(change.evolution.filled), read(rest))

    def commit_staged(self, staged: Sequence[StagedChange]) -> list[Commit | Exception]:
        """Commit changes together; see `TransactionalTarget`."""
        outcomes: list[Commit | Exception] = []
        with self._writing, self._open() as opened:
            self._opened = None
            marks.lock_schemas(
                self._writer, {split_name(table.change.table)[0] for table in staged}
            )
            for table in staged:
                try:
                    with self._writer.savepoint():
                        outcomes.append(TableCommit(self._writer, table).run())
                except BinlogError as error:
                    outcomes.append(error)
            opened.close()
            while self._staged:
                marks.drop_staged(self._writer, self._staged.pop())
        return outcomes

    def close(self) -> None:
        """Close the connections; what is left of staged tables the next run drops."""
        self._connections.close()
        self._writer.close()

    def _connect(self) -> None:
        """Start a run, whose lock the writer holds until it is closed."""
        self._connections = Connections(self._session, self._settings)
        self._writer = Connection(self._session, self._settings)
        marks.set_up(self._writer)
        self._run = marks.start_run(self._writer)

    def _copy(self, change: TableChange[Any]) -> Commit:
        """Copy a table in the transaction that the staged changes are committed in."""
        with self._writing:
            self._opened = self._open()
            marks.lock_schemas(self._writer, {split_name(change.table)[0]})
            with self._writer.savepoint():
                return TableCommit(self._writer, self.stage(change)).run()

    def _open(self) -> ExitStack:
        """Return what ends the transaction; it begins now, unless it is open."""
        if self._opened is not None:
            return self._opened
        opened = ExitStack()
        opened.enter_context(marks.merging(self._writer))
        return opened

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Lend a connection that sees what is copied."""
        if self._opened is None:
            with self._connections.take() as connection:
                yield connection
        else:
            with self._writing, self._writer.savepoint():
                yield self._writer


def _plan_columns(change: TableChange[Any], stored: StoredTable | None) -> dict[str, ColumnPlan]:
    """Return what each column is to be, by its name at the source."""
    plans: dict[str, ColumnPlan] = {}
    named = {} if stored is None else stored.named
    for name, spark in change.columns.items():
        source, collation = change.source_types.get(name), None
        column = named.get(change.evolution.columns.get(name, ""))
        note = None if stored is None or column is None else stored.note(column)
        if note is not None:
            source = source or note.source
        if note is not None and source is None and spark_type(note.type) == spark:
            type_ = note.type
        else:
            type_ = column_type(spark, source)
        if type_ == "text" and name in change.key:
            collation = _C if column is None or column.collation is None else column.collation
        plans[name] = ColumnPlan(type_, source, collation)
    return plans


def _staged_columns(change: TableChange[Any], plans: Mapping[str, ColumnPlan]) -> dict[str, str]:
    columns = {source_column(at): plan.definition for at, plan in enumerate(plans.values())}
    if isinstance(change.rows, CountedRows):
        return columns | {COPIES: "bigint"}
    columns[DELETED] = "boolean"
    if isinstance(change.rows, VersionedRows):
        columns[NUMBER] = "bigint"
    groups = change.rows.groups if isinstance(change.rows, KeyedRows | VersionedRows) else ()
    columns |= {held(number): "boolean" for number in range(len(groups))}
    return columns | ({LACKS: "text"} if groups else {})


def _lines(
    change: TableChange[Any], plans: Mapping[str, ColumnPlan], rows: SourceRows, policy: str
) -> DataFrame:
    """Return the rows as COPY reads them, each with its line feed."""
    fields = []
    for at, (name, plan) in enumerate(plans.items()):
        spark, value = change.columns[name], source_column(at)
        if spark == "string":
            value = without_nul(value, name, policy)
        text = value_text(value, plan.type, plan.source, spark=spark)
        # Only of these types values may hold any character.
        fields.append(copied(text, is_text=spark in ("string", "array<string>")))
    others = [*_staged_columns(change, plans)][len(plans) :]
    fields += [copied(f"CAST({name} AS string)", is_text=False) for name in others]
    tab, end = quote_text("\t"), quote_text("\n")
    lines = rows.frame.selectExpr(f"concat({f', {tab}, '.join(fields)}, {end}) AS line")
    if rows.is_few:
        return lines
    # The driver holds those of one partition, compressed.
    wanted = count_partitions(EXPANSION * rows.bytes)
    if wanted >= 2 * lines._jdf.rdd().getNumPartitions():
        lines = lines.repartition(wanted)
    return checkpoint(lines)


def _write_values(
    change: TableChange[Any],
    plans: Mapping[str, ColumnPlan],
    session: SparkSession,
    values: Mapping[str, Value],
) -> dict[str, str]:
    """Return SQL of values by their columns."""
    if not values:
        return {}
    texts = (
        value_text(
            f"({spark_literal(value, change.columns[name])})",
            plans[name].type,
            plans[name].source,
            spark=change.columns[name],
        )
        for name, value in values.items()
    )
    (row,) = session.sql(f"SELECT {', '.join(texts)}").collect()
    return {
        name: "NULL" if text is None else f"{literal(text)}::{plans[name].type}"
        for name, text in zip(values, row, strict=True)
    }
