"""One chunk: a short transaction, one SELECT, and the parts of its rows."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from pymysql.constants import ER

from airflow_provider_binlog import changes, errors
from airflow_provider_binlog.blocks.arrays import dictionary, of_numbers, of_texts
from airflow_provider_binlog.changes import ChangeType, Policies
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.protected_columns import NO_RULES, ColumnRules, HashSecret
from airflow_provider_binlog.rows.layout import Converted, RowLayout, compile_layout, protect
from airflow_provider_binlog.rows.results import ResultLayout, compile_results
from airflow_provider_binlog.rows.values import Array
from airflow_provider_binlog.schema import Field, Schema, TableName
from airflow_provider_binlog.schema_history.completion import describe
from airflow_provider_binlog.schema_history.protected_fields import check_key
from airflow_provider_binlog.snapshot.bounds import (
    ALTERED,
    LACKS_NAME,
    ChunkKey,
    condition,
    find_key,
)
from airflow_provider_binlog.snapshot.plan import (
    ChunkRecord,
    RowPace,
    SnapshotFiles,
    SnapshotPlan,
    Throttle,
    wait_until_idle,
)
from airflow_provider_binlog.snapshot_manifest import Chunk, snapshot_part_path
from airflow_provider_binlog.staging.part_writer import PartQueue, QueuedPart
from airflow_provider_binlog.transport.server.consistent_read import (
    ConsistentRead,
    open_read,
    read_high,
)
from airflow_provider_binlog.transport.server.driver import Connect
from airflow_provider_binlog.transport.server.information_schema import quote_table
from airflow_provider_binlog.transport.server.queries import identify, server_version
from airflow_provider_binlog.transport.server.result_rows import select_rows
from airflow_provider_binlog.transport.server.tables import read_order

_SCHEMA_ID = 1
_ROW_CHUNK_SHIFT = 40
"""`_row` is `(number of the chunk << _ROW_CHUNK_SHIFT) + number of the row in it`."""

_TOKEN_BYTES = 6


@dataclass(frozen=True)
class ReadTable:
    """Columns and key of a table as a transaction sees them: as logged, and as in a manifest."""

    layout: RowLayout
    schema: Schema
    key: ChunkKey


@dataclass(frozen=True)
class ChunkReader:
    """Connection, files and limits that chunks are read with.

    Attributes:
        connect: Opens a connection.
        files: Where the rows are staged.
        limits: Of the parts' sizes.
        throttle: Of the load on the server.
        on_wait: Called with the reason while the server is too busy.
        on_rows: Called with the number of rows of each block that is read.
        secret: Hashes the values of columns; None where there is none.
    """

    connect: Connect
    files: SnapshotFiles
    limits: Limits = field(default_factory=Limits)
    throttle: Throttle = field(default_factory=Throttle)
    on_wait: Callable[[str], None] = lambda _: None
    on_rows: Callable[[int], object] = lambda _: None
    secret: HashSecret | None = None


def describe_table(
    read: ConsistentRead,
    name: TableName,
    policies: Policies,
    columns: ColumnRules = NO_RULES,
    known: Sequence[Field] = (),
) -> ReadTable:
    """Return columns and key of a table, some of which are excluded or hashed.

    `known` are the columns that it was last staged with.

    Raises:
        ConfigurationError: A column of the key is excluded, or one that is protected may have
            another name now.
        UnsupportedError: The type of a column is not decoded.
    """
    server = server_version(read.connection)
    table_map = describe(name, read.schema, server.flavor, server.version)
    layout = compile_layout(table_map, policies=policies)
    fields = columns.protect(name, layout.fields, known)
    ids = tuple(fields[index].id for index in layout.key)
    schema = Schema(_SCHEMA_ID, fields, ids, comment=read.schema.comment)
    check_key(name, schema)
    layout = protect(layout, fields, columns.secret)
    key = () if read.schema.key is None else read.schema.key.columns
    order = read_order(read.connection, name, [column for column, _ in key])
    return ReadTable(layout, schema.staged, find_key(layout, read.schema, order))


@dataclass(frozen=True)
class ReadChunk:
    """A chunk whose rows are read; some of its parts may still be written."""

    chunk: Chunk
    is_exact: bool
    parts: ChunkParts

    def record(self, plan: SnapshotPlan, files: SnapshotFiles) -> ChunkRecord:
        """Wait for its parts, and store its record, which is returned.

        Raises:
            StagingError: A part, or the record, could not be written.
        """
        with errors.error_context(table=".".join(plan.name), chunk=self.chunk.number):
            record = ChunkRecord(self.chunk, self.is_exact, self.parts.written())
            files.write_record(plan.id, record)
        return record


def read_chunk(plan: SnapshotPlan, number: int, reader: ChunkReader, queue: PartQueue) -> ReadChunk:
    """Read a chunk of a plan; its last part may be written while the next chunk is read.

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
        errors.error_context(table=".".join(plan.name), chunk=number),
        _open(plan, reader, exact=plan.exact) as read,
    ):
        if (here := identify(read.connection)) != plan.identity:
            raise errors.ServerChangedError(
                "the address leads to another server than the one that the snapshot was begun on: "
                "begin it again",
                before=plan.identity,
                now=here,
            )
        # Before the rows: a statement that waits to alter the table is logged after them.
        high = read_high(read, gtids=plan.low.gtid is not None)
        table = _describe(read, plan, reader)
        if not _is_planned(table, plan):
            raise errors.TableAlteredError(ALTERED)
        parts = ChunkParts(plan, number, read.low, reader, queue)
        results = compile_results(table.layout)
        pace = RowPace(reader.throttle.rows_per_second_max)
        statement = _statement(plan, number, table.key, results)
        try:
            for rows in _read_rows(read, statement, results, parts):
                pace.count(rows)
                reader.on_rows(rows)
        except (errors.FormatError, errors.SourceError) as error:
            # A server checks the columns before it reports that the table was altered.
            code = error.context.get("code")
            of_columns = isinstance(error, errors.FormatError) or code in LACKS_NAME
            if code == ER.TABLE_DEF_CHANGED or (of_columns and _is_altered(plan, reader)):
                raise errors.TableAlteredError(ALTERED) from error
            raise
    return ReadChunk(Chunk(number, read.low, high, parts.rows), read.is_exact, parts)


def _open(
    plan: SnapshotPlan, reader: ChunkReader, *, exact: bool
) -> AbstractContextManager[ConsistentRead]:
    rules = plan.column_rules(reader.secret)
    excluded = rules.excluded_names(plan.name, plan.schema.whole.fields)
    return open_read(reader.connect, plan.name, exact=exact, excluded=excluded)


def _describe(read: ConsistentRead, plan: SnapshotPlan, reader: ChunkReader) -> ReadTable:
    policies = Policies(plan.zero_dates, plan.invalid_text)
    rules = plan.column_rules(reader.secret)
    return describe_table(read, plan.name, policies, rules, plan.schema.whole.fields)


def _is_planned(table: ReadTable, plan: SnapshotPlan) -> bool:
    return (table.schema, table.key.order) == (plan.schema, plan.order)


def _is_altered(plan: SnapshotPlan, reader: ChunkReader) -> bool:
    with _open(plan, reader, exact=False) as read:
        return not _is_planned(_describe(read, plan, reader), plan)


def _statement(plan: SnapshotPlan, number: int, key: ChunkKey, results: ResultLayout) -> str:
    after = plan.bounds[number - 1] if number else None
    upto = plan.bounds[number] if number < len(plan.bounds) else None
    chosen = condition(key, after, upto, plan.where)
    hint = key.hint if plan.bounds else ""
    expressions = ", ".join(results.expressions)
    return f"SELECT {expressions} FROM {quote_table(plan.name)}{hint}{chosen}"  # noqa: S608


def _read_rows(
    read: ConsistentRead, statement: str, results: ResultLayout, parts: ChunkParts
) -> Iterator[int]:
    """Stage the rows of a statement; yield how many each block has."""
    with select_rows(read.connection, statement) as rows:
        results.check_types(rows.types)
        for block in rows.blocks:
            parts.add(results.decode(block.data, block.start, block.stop))
            yield len(block)
    parts.flush()


class ChunkParts:
    """Collects the rows of one chunk and has them written as parts.

    Attributes:
        rows: How many rows the parts have.
    """

    def __init__(
        self,
        plan: SnapshotPlan,
        number: int,
        low: Position,
        reader: ChunkReader,
        queue: PartQueue,
    ) -> None:
        self.rows = 0
        self._plan = plan
        self._number = number
        self._low = low
        # Microseconds since 1970.
        self._read_at = time.time_ns() // 1000
        self._files = reader.files
        self._bytes_max = reader.limits.decoded_bytes_max
        self._queue = queue
        self._token = secrets.token_hex(_TOKEN_BYTES)
        self._buffered: list[list[Array]] = []
        self._bytes = 0
        self._replaced: Counter[str] = Counter()
        self._parts: list[QueuedPart] = []

    def add(self, rows: Converted) -> None:
        """Buffer rows, and have a part written once it is full."""
        self._buffered.append(rows.columns)
        self._bytes += sum(column.nbytes for column in rows.columns)
        self._replaced.update(rows.unrepresentable)
        self._replaced.update(rows.invalid_text)
        if self._bytes >= self._bytes_max:
            self.flush()

    def flush(self) -> None:
        """Have the buffered rows written as a part, once the part before it is encoded."""
        count = sum(len(columns[0]) for columns in self._buffered)
        if not count:
            return
        first = (self._number << _ROW_CHUNK_SHIFT) + self.rows
        token = f"{self._token}{len(self._parts):06}"
        path = snapshot_part_path(self._plan.id, self._number, token)
        table = self._table(first, count)
        self._buffered = []
        written = self._queue.write(self._files.key(path), table, self._plan.schema)
        part = partial(
            Part,
            path=path,
            schema=self._plan.schema.id,
            rows=count,
            first_row=first,
            last_row=first + count - 1,
            first_commit=self._read_at,
            last_commit=self._read_at,
            changes={ChangeType.INSERT.value: count},
            replaced=dict(sorted(self._replaced.items())),
        )
        self._parts.append(QueuedPart(part, written))
        self.rows += count
        self._bytes = 0
        self._replaced.clear()

    def written(self) -> tuple[Part, ...]:
        """Return the parts in the order of their rows, once they are written."""
        return tuple(part.wait() for part in self._parts)

    def _table(self, first: int, count: int) -> pa.Table:
        columns = [pa.chunked_array(pieces) for pieces in zip(*self._buffered, strict=True)]
        read_at = of_numbers(np.full(count, self._read_at))
        zeros: Array = of_numbers(np.zeros(count, dtype=np.int32))
        change = {
            changes.CHANGE_TYPE: dictionary(zeros, of_texts([ChangeType.INSERT])),
            changes.COMMIT_TS: read_at.view(pa.timestamp("us", "UTC")),
            changes.GTID: pa.nulls(count, pa.string()),
            changes.FILE: dictionary(zeros, of_texts([self._low.file])),
            changes.POSITION: of_numbers(np.full(count, self._low.offset)),
            changes.ROW: of_numbers(np.arange(first, first + count)),
            changes.IMAGE: zeros,
        }
        return pa.Table.from_arrays(
            [*columns, *(change[name] for name in changes.CHANGE_COLUMNS)],
            names=[*(field.name for field in self._plan.schema.fields), *changes.CHANGE_COLUMNS],
        )
