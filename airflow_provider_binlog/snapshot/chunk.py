"""One chunk: a short transaction, one SELECT, and the parts of its rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pymysql.constants import ER

from airflow_provider_binlog.changes import Policies
from airflow_provider_binlog.errors import (
    FormatError,
    ServerChangedError,
    SourceError,
    TableAlteredError,
    error_context,
)
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.rows.layout import RowLayout, compile_layout
from airflow_provider_binlog.rows.results.layout import ResultLayout, compile_results
from airflow_provider_binlog.schema import Schema
from airflow_provider_binlog.schema_history.described import describe
from airflow_provider_binlog.snapshot.bounds import (
    ALTERED,
    LACKS_NAME,
    ChunkKey,
    condition,
    find_key,
)
from airflow_provider_binlog.snapshot.parts import ChunkParts
from airflow_provider_binlog.snapshot.plan import ChunkRecord
from airflow_provider_binlog.snapshot.throttle import RowPace, Throttle, wait_until_idle
from airflow_provider_binlog.snapshot_manifest import Chunk
from airflow_provider_binlog.transport.server.consistent_read import open_read, read_high
from airflow_provider_binlog.transport.server.information_schema import quote_table
from airflow_provider_binlog.transport.server.queries import identify
from airflow_provider_binlog.transport.server.result_rows import select_rows
from airflow_provider_binlog.transport.server.status import server_version
from airflow_provider_binlog.transport.server.tables import read_order

if TYPE_CHECKING:
    from collections.abc import Callable

    import pymysql

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.snapshot.plan import SnapshotFiles, SnapshotPlan
    from airflow_provider_binlog.transport.server.consistent_read import ConsistentRead

    Connect = Callable[[], pymysql.Connection[Any]]

_SCHEMA_ID = 1


@dataclass(frozen=True)
class ReadTable:
    """A table as a transaction sees it, and how its rows are read.

    Attributes:
        layout: Its columns, as the log has them.
        schema: The same, as a manifest has them.
        key: By which it is read in chunks.
    """

    layout: RowLayout
    schema: Schema
    key: ChunkKey


@dataclass(frozen=True)
class ChunkReader:
    """What chunks are read with.

    Attributes:
        connect: Opens a connection.
        files: Where the rows are staged.
        limits: How large parts become.
        throttle: How the server is spared.
        on_wait: Called with the reason while the server is too busy.
    """

    connect: Connect
    files: SnapshotFiles
    limits: Limits = field(default_factory=Limits)
    throttle: Throttle = field(default_factory=Throttle)
    on_wait: Callable[[str], None] = lambda _: None


def describe_table(read: ConsistentRead, name: TableName, policies: Policies) -> ReadTable:
    """Return how the rows of a table are read.

    Raises:
        UnsupportedError: The type of a column is not decoded.
    """
    of = server_version(read.connection)
    table_map = describe(name, read.schema, of.flavor, of.version)
    layout = compile_layout(table_map, policies=policies)
    fields = layout.fields
    schema = Schema(_SCHEMA_ID, fields, tuple(fields[index].id for index in layout.key))
    key = () if read.schema.key is None else read.schema.key.columns
    order = read_order(read.connection, name, [column for column, _ in key])
    return ReadTable(layout, schema, find_key(layout, read.schema, order))


def read_chunk(plan: SnapshotPlan, number: int, reader: ChunkReader) -> ChunkRecord:
    """Read a chunk of a plan, stage its rows, and return its record, which is stored last.

    Raises:
        TableAlteredError: The table has another schema than in the plan, or another order.
        ServerChangedError: The server is another one than in the plan.
        SourceError: The server refused.
        StagingError: A part could not be written.
        UnsupportedError: A value is refused by the policies.
        ConfigurationError: The throttle cannot be followed.
    """
    wait_until_idle(reader.throttle, reader.connect, on_wait=reader.on_wait)
    with (
        error_context(table=".".join(plan.name), chunk=number),
        open_read(reader.connect, plan.name, exact=plan.exact) as read,
    ):
        if (here := identify(read.connection)) != plan.identity:
            raise ServerChangedError(
                "the address leads to another server than the one that the snapshot was begun on: "
                "begin it again",
                before=plan.identity,
                now=here,
            )
        # Not after the rows: a statement that waits to alter the table follows them.
        high = read_high(read, gtids=plan.low.gtid is not None)
        table = _describe(read, plan)
        if not _is_planned(table, plan):
            raise TableAlteredError(ALTERED)
        parts = ChunkParts(
            reader.files,
            plan.id,
            plan.schema,
            number=number,
            low=read.low,
            read_at=time.time_ns() // 1000,
            bytes_max=reader.limits.decoded_bytes_max,
        )
        results = compile_results(table.layout)
        pace = RowPace(reader.throttle.rows_per_second_max)
        try:
            _read_rows(read, _statement(plan, number, table.key, results), results, parts, pace)
        except (FormatError, SourceError) as error:
            # A server looks at the columns before it says that the table is another one now.
            code = error.context.get("code")
            of_columns = isinstance(error, FormatError) or code in LACKS_NAME
            if code == ER.TABLE_DEF_CHANGED or (of_columns and _is_altered(plan, reader)):
                raise TableAlteredError(ALTERED) from error
            raise
    record = ChunkRecord(
        Chunk(number, read.low, high, parts.rows), read.is_exact, tuple(parts.parts)
    )
    reader.files.write_record(plan.id, record)
    return record


def _describe(read: ConsistentRead, plan: SnapshotPlan) -> ReadTable:
    return describe_table(read, plan.name, Policies(plan.zero_dates, plan.invalid_text))


def _is_planned(table: ReadTable, plan: SnapshotPlan) -> bool:
    return (table.schema, table.key.order) == (plan.schema, plan.order)


def _is_altered(plan: SnapshotPlan, reader: ChunkReader) -> bool:
    with open_read(reader.connect, plan.name, exact=False) as read:
        return not _is_planned(_describe(read, plan), plan)


def _statement(plan: SnapshotPlan, number: int, key: ChunkKey, results: ResultLayout) -> str:
    after = plan.bounds[number - 1] if number else None
    upto = plan.bounds[number] if number < len(plan.bounds) else None
    chosen = condition(key, after, upto, plan.where)
    hint = key.hint if plan.bounds else ""
    expressions = ", ".join(results.expressions)
    return f"SELECT {expressions} FROM {quote_table(plan.name)}{hint}{chosen}"  # noqa: S608


def _read_rows(
    read: ConsistentRead,
    statement: str,
    results: ResultLayout,
    parts: ChunkParts,
    pace: RowPace,
) -> None:
    with select_rows(read.connection, statement) as rows:
        results.check_types([column.type for column in rows.columns])
        for block in rows.blocks:
            parts.add(results.decode(block.data, block.start, block.stop))
            pace.count(len(block))
    parts.flush()
