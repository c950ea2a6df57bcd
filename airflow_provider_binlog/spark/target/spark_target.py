"""Commits of changes to tables of a lake format, by Spark SQL.

The rows and the applied mark are one commit of the format. Columns and properties change before it:
only the mark says whether the rows are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Protocol, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_binlog.errors import ReloadNeededError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.spark.collapse.kept_rows import (
    Collapsed,
    checkpoint,
    condition,
    size_in_bytes,
)
from airflow_provider_binlog.spark.collapse.partial_rows import refuse_orphans
from airflow_provider_binlog.spark.job.session import (
    FILTER_KEYS_MAX,
    count_partitions,
    filtered_target,
    raise_partitions,
)
from airflow_provider_binlog.spark.names import is_folder, quote_text
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.staged.types import Value
from airflow_provider_binlog.spark.target import sql as merge_sql
from airflow_provider_binlog.spark.target.properties import (
    announce_fills,
    fields_property,
    find_first_properties,
    find_last_properties,
    new_fields_property,
)
from airflow_provider_binlog.spark.target.protocol import (
    Commit,
    CountedRows,
    KeyedRows,
    TableChange,
    VersionedRows,
    WholeRows,
    conflict,
    source_column,
)
from airflow_provider_binlog.spark.target.state import TABLE_ID, Comments, TargetState
from airflow_provider_binlog.spark.target.versions import versions_to_write

Change: TypeAlias = TableChange[Any]
"""A change whose rows are those of the session's view, or of a statement."""

EXPANSION = 4
"""Rows in memory against bytes of compressed Parquet."""

SMALL_TARGET_BYTES = 16 << 20
# What makes a filter of the keys cheaper than a shuffle of the target: the least bytes of that, and
# how many times as many as those of the changes.
_FILTERED_BYTES, _FILTERED_FACTOR = 64 << 20, 2


@dataclass(frozen=True)
class SourceRows:
    """Rows of a change, which are the same whenever they are read.

    Attributes:
        frame: The rows, with the columns of `protocol`, in a session of no other thread: properties
            of a commit and views are settings of it.
        bytes: Size of the files that they come from.
        is_few: Whether they are literals of their plan.
        counts: Counts of the changes.
    """

    frame: DataFrame
    bytes: int
    is_few: bool = False
    counts: Collapsed = field(default_factory=Collapsed)


class LakeFormat(Protocol):
    """Tables of one format. `target` is a quoted name; no other thread changes `session`.

    Attributes:
        provider: Name of the format in Spark's SQL.
        settings: Settings that a session needs before it sees a table.
        filters: Whether large targets of a MERGE are filtered by the source's keys first.
    """

    provider: str
    settings: Mapping[str, str]
    filters: bool

    def target(self, database: str, table: str) -> str:
        """Return the quoted name of the table that follows a table of the source."""

    def find_state(self, session: SparkSession, target: str) -> TargetState | None:
        """Return the table's state; None if there is no such table."""

    def new_column_ids(self, change: Change) -> dict[str, str]:
        """Return the ids that the columns of a new table get, by name; see `TargetState`."""

    def create_as(
        self, session: SparkSession, change: Change, properties: Mapping[str, str]
    ) -> None:
        """Make a table of the source rows in `merge_sql.CHANGES`, and commit the mark with them.

        A catalog that cannot do both at once may leave an empty table, without the mark.
        """

    def evolve(
        self, session: SparkSession, target: str, state: TargetState, evolution: Evolution
    ) -> None:
        """Change the columns, but for what is to be filled in."""

    def merge(
        self, session: SparkSession, change: Change, state: TargetState, statement: str
    ) -> Commit | None:
        """Run a MERGE and commit the mark with it; None if that was there already.

        Raises:
            TargetConflictError: Another merge of this source came between `state` and the commit.
        """

    def overwrite(
        self, session: SparkSession, change: Change, state: TargetState, query: str
    ) -> Commit | None:
        """Replace every row by the result of a query, and commit the mark with it."""


class Namespaces:
    """The namespaces that a merge needs.

    Of two threads that make one at the same time some catalogs let one fail, in spite of
    IF NOT EXISTS.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: set[str] = set()

    def create(self, session: SparkSession, target: str) -> None:
        """Make the namespace of a table in a catalog, if it does not exist."""
        name = "" if is_folder(target) else target.rpartition(".")[0]
        with self._lock:
            if name and name not in self._made:
                session.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}")
                self._made.add(name)


class SparkTarget:
    """Tables of a lake format; a `Target`.

    Args:
        session: Reads states, and sets properties; threads share it.
        lake: The format.
    """

    def __init__(self, session: SparkSession, lake: LakeFormat) -> None:
        self._session = session
        self._lake = lake
        self._namespaces = Namespaces()

    def locate(self, name: TableName) -> str:
        """Return the quoted name of a table; see `Target`."""
        return self._lake.target(*name)

    def read_state(self, table: str) -> TargetState | None:
        """Return the state of a table; see `Target`."""
        return self._lake.find_state(self._session, table)

    def set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        """Set properties; see `Target`."""
        self._session.sql(merge_sql.set_properties(table, properties))

    def set_comments(self, table: str, comments: Comments) -> None:
        """Set comments; see `Target`."""
        if comments.table is not None:
            self._session.sql(f"COMMENT ON TABLE {table} IS {quote_text(comments.table)}")
        for name, text in comments.columns.items():
            column, comment = quote_identifier(name), quote_text(text)
            self._session.sql(f"ALTER TABLE {table} ALTER COLUMN {column} COMMENT {comment}")

    def commit(self, change: TableChange[SourceRows]) -> Commit | None:
        """Commit a change; see `Target`."""
        session = change.rows.rows.frame.sparkSession
        if change.before is None:
            self._namespaces.create(session, change.table)
        commit = TableCommit(session, self._lake, change)
        try:
            return commit.run()
        except Exception as error:
            if change.before is not None and merge_sql.ORPHAN in str(error):
                # Another merge may have deleted the row meanwhile.
                commit.read_unchanged(change.before)
                refuse_orphans(change)
            raise
        finally:
            # Else the rows would be kept until the session has others.
            for view in (merge_sql.CHANGES, merge_sql.COLLAPSED):
                session.catalog.dropTempView(view)


@dataclass(frozen=True)
class TableCommit:
    """The statements of one change, in order."""

    session: SparkSession
    lake: LakeFormat
    change: TableChange[SourceRows]

    def run(self) -> Commit | None:
        """Run the statements; see `Target.commit`."""
        change, before = self.change, self.change.before
        if before is None:
            state = self._create()
            done: Commit | None = Commit(change.rows.rows.counts.upserts, 0, 0, state.snapshot)
        else:
            state = self._prepare(before)
            done = self._write(state)
        if done is not None:
            self._set_properties(find_last_properties(change, state), state)
        return done

    def _create(self) -> TargetState:
        change, lake = self.change, self.lake
        properties = find_first_properties(change)
        if change.follows is not None:
            properties |= new_fields_property(change.evolution.fields, lake.new_column_ids(change))
        _gather(change.rows.rows).createOrReplaceTempView(merge_sql.CHANGES)
        lake.create_as(self.session, change, properties)
        state = lake.find_state(self.session, change.table)
        if state is None or state.applied != change.mark:
            raise conflict(self.change.table)
        return self._claim_fields(state)

    def _prepare(self, before: TargetState) -> TargetState:
        change = self.change
        properties = {**before.blanks} | find_first_properties(change)
        # Another server may have been promoted; a column of the key may get another name.
        changed = dict(properties.items() - before.properties.items())
        if changed or change.evolution.changes_columns:
            # A merge that lost the race must not change back what the other one changed.
            ids = self.read_unchanged(before).column_ids
            self._check_columns(before, ids, {name: name for name in before.columns})
        self._set_properties(changed)
        before = replace(before, properties=before.properties | changed)
        self._evolve(before)
        state = self.read_unchanged(before)
        self._check_columns(before, state.column_ids, change.evolution.columns)
        return self._claim_fields(state)

    def _evolve(self, before: TargetState) -> None:
        evolution = self.change.evolution
        filled = {id_ for id_, name in evolution.fields.items() if name in evolution.filled}
        if filled:
            # Should this merge be killed, the next one knows which columns are not filled in yet.
            self._set_properties(announce_fills(before, filled, self.change.mark))
        if evolution.changes_columns:
            self.lake.evolve(self.session, self.change.table, before, evolution)

    def _claim_fields(self, state: TargetState) -> TargetState:
        follows = self.change.follows
        if follows is None or follows != state.table:
            return state
        claims = {TABLE_ID: follows} | fields_property(state, self.change.evolution.fields)
        self._set_properties(claims, state)
        return replace(state, properties=state.properties | claims)

    def _write(self, state: TargetState) -> Commit | None:
        changes, table, names = self.change.rows, self.change.table, list(self.change.columns)
        if isinstance(changes, WholeRows):
            _gather(changes.rows).createOrReplaceTempView(merge_sql.CHANGES)
            query = merge_sql.rows_to_keep({name: names.index(name) for name in state.columns})
            done = self.lake.overwrite(self.session, self.change, state, query)
            return done and replace(done, inserted=changes.rows.counts.upserts)
        if isinstance(changes, CountedRows):
            return self._write_copies(changes.rows, state)
        key, rows = changes.key, changes.rows
        first, type_ = quote_identifier(key[0]), self.change.columns[key[0]]
        filled = self._literals(self.change.evolution.filled)
        is_old = key[0] not in filled
        range_ = (condition(f"t.{first}", type_, rows.counts.intervals) or None) if is_old else None
        if isinstance(changes, VersionedRows):
            return self._write_versions(changes, state, filled, range_)
        statement = merge_sql.merge(
            table,
            columns=names,
            key=[names.index(name) for name in key],
            nullable=changes.null_safe,
            range_=range_,
            groups=[[*map(names.index, own)] for own in changes.groups],
            filled=filled,
            marks=changes.marks,
            rest=None if changes.rest is None else self._literals(changes.rest),
        )
        frame = rows.frame
        filtered: AbstractContextManager[None] = nullcontext()
        if self._filters_target(changes, range_):
            frame = _select_rows(rows, source_column(names.index(key[0])), type_)
            filtered = filtered_target(self.session, rows.counts.keys)
        frame.createOrReplaceTempView(merge_sql.CHANGES)
        with filtered:
            return self.lake.merge(self.session, self.change, state, statement)

    def _write_versions(
        self,
        changes: VersionedRows[SourceRows],
        state: TargetState,
        filled: Mapping[str, str],
        range_: str | None,
    ) -> Commit | None:
        """Close versions, open others, and change those that stay current."""
        table, columns, rows = self.change.table, self.change.columns, changes.rows
        names = [*columns]
        rows.frame.createOrReplaceTempView(merge_sql.COLLAPSED)
        raise_partitions(self.session, EXPANSION * rows.bytes + state.bytes)
        query = versions_to_write(
            columns,
            source=merge_sql.COLLAPSED,
            key=changes.key,
            start=changes.start,
            end=changes.end,
            tracked=changes.tracked,
            groups=changes.groups,
            target=table,
            filled=filled,
            range_=range_,
        )
        # It reads the table that is to be changed.
        checkpoint(self.session.sql(query)).createOrReplaceTempView(merge_sql.CHANGES)
        rest = None
        if changes.rest is not None:
            last = f"unix_micros(t.{quote_identifier(changes.start)}) + 1"
            rest = {changes.end: f"timestamp_micros(greatest({changes.rest}, {last}))"}
        statement = merge_sql.merge(
            table,
            columns=names,
            key=map(names.index, (*changes.key, changes.start)),
            nullable=changes.null_safe,
            range_=range_,
            filled=filled,
            marks=changes.end,
            rest=rest,
        )
        return self.lake.merge(self.session, self.change, state, statement)

    def _write_copies(self, rows: SourceRows, state: TargetState) -> Commit | None:
        """Add copies of rows, and remove others."""
        table, columns = self.change.table, self.change.columns
        filled = self._literals(self.change.evolution.filled)
        rows.frame.createOrReplaceTempView(merge_sql.COLLAPSED)
        removes = rows.counts.deletes > 0
        query = merge_sql.copies_to_add(columns)
        if removes:
            query = merge_sql.copies_to_write(table, columns, filled)
        # It reads the table that is to be changed.
        frame = checkpoint(self.session.sql(query)) if removes else self.session.sql(query)
        short = frame.where(f"{merge_sql.SHORT} > 0").count() if removes else 0
        if short:
            raise ReloadNeededError(
                "rows were deleted that the lake table does not have, or not as often: reload the "
                "table from a snapshot",
                target=table,
                rows=short,
            )
        frame.createOrReplaceTempView(merge_sql.CHANGES)
        raise_partitions(self.session, EXPANSION * rows.bytes + state.bytes * removes)
        statement = merge_sql.merge_copies(table, columns, filled, removes=removes)
        done = self.lake.merge(self.session, self.change, state, statement)
        # Copies that stay are written again.
        counts = rows.counts
        return done and replace(done, inserted=counts.upserts, updated=0, deleted=counts.deletes)

    def _literals(self, values: Mapping[str, Value]) -> dict[str, str]:
        types = self.change.columns
        return {name: merge_sql.literal(value, types[name]) for name, value in values.items()}

    def _filters_target(
        self,
        changes: KeyedRows[SourceRows],
        range_: str | None,
    ) -> bool:
        """Prepare what the MERGE shuffles; return whether it filters the table by the keys."""
        rows, size = changes.rows, 0 if self.change.before is None else self.change.before.bytes
        if range_ is not None and size > SMALL_TARGET_BYTES:
            table = self.session.table(self.change.table).alias("t")
            # Iceberg's estimate is of rows in memory.
            size = size * size_in_bytes(table.where(range_)) // max(size_in_bytes(table), 1)
        is_filtered = (
            self.lake.filters
            and range_ is not None
            and size >= max(_FILTERED_BYTES, _FILTERED_FACTOR * rows.bytes)
            # Spark would make a filter for each column of a key.
            and len(changes.key) == 1
            and rows.counts.keys <= FILTER_KEYS_MAX
        )
        raise_partitions(self.session, EXPANSION * rows.bytes + (0 if is_filtered else size))
        return is_filtered

    def _set_properties(
        self, properties: Mapping[str, str], state: TargetState | None = None
    ) -> None:
        """Set those properties that `state` does not have."""
        present = {} if state is None else state.properties
        if missing := dict(properties.items() - present.items()):
            self.session.sql(merge_sql.set_properties(self.change.table, missing))

    def read_unchanged(self, before: TargetState) -> TargetState:
        """Return the table's state, which has the same rows still."""
        state = self.lake.find_state(self.session, self.change.table)
        expected = before.applied, before.loaded
        if state is None or (state.applied, state.loaded) != expected:
            raise conflict(self.change.table)
        return state

    def _check_columns(
        self, before: TargetState, ids: Mapping[str, str], columns: Mapping[str, str]
    ) -> None:
        """Refuse columns that another merge renamed meanwhile: exchanged twice, they are as before.

        `ids` are those that the columns have now, by name; `columns` are their names in `before`.
        """
        for name, old in columns.items():
            # An id that is a name was none.
            if before.column_ids[old] not in (old, ids.get(name)):
                raise conflict(self.change.table)


def _gather(rows: SourceRows) -> DataFrame:
    """Return rows that are written as they are read: in no more tasks than they fill, or files."""
    if rows.is_few:
        return rows.frame
    return rows.frame.coalesce(count_partitions(EXPANSION * rows.bytes))


def _select_rows(rows: SourceRows, column: str, type_: str) -> DataFrame:
    """Return source rows as what a comparison selects; see `filtered_target`."""
    # Spark would compute a comparison of literals before it looks for one.
    kept = checkpoint(rows.frame) if rows.is_few else rows.frame
    return kept.where(condition(column, type_, rows.counts.intervals))
