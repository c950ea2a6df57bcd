"""Compile, once per TABLE_MAP, how the rows of a table are read, and read them column by column.

Excluded columns are located like the others, and never read; hashed ones are read and hashed.

Source: mysql-server libs/mysql/binlog/event/rows_event.h, Table_map_event (metadata by type).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa

from airflow_provider_binlog import errors
from airflow_provider_binlog.binlog.column_types import mysql_type
from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
from airflow_provider_binlog.blocks.arrays import numbers_of, of_numbers
from airflow_provider_binlog.changes import DEFAULT_POLICIES, Policies, ZeroDates
from airflow_provider_binlog.protected_columns import HashSecret
from airflow_provider_binlog.rows.images.located import Route, compile_route
from airflow_provider_binlog.rows.types.hashed import Hash, hash_policies, make_hash
from airflow_provider_binlog.rows.types.numbers import integer_plan
from airflow_provider_binlog.rows.types.registry import column_charset, plan_column
from airflow_provider_binlog.rows.values import Array, Int64Array, Plan, Values, array_of
from airflow_provider_binlog.schema import Default, Field

# Of a value of variable width, without its text; of a hash, with its digits.
_TEXT_BYTES = 16
_HASH_BYTES = 80

_HIDDEN_PLAN = integer_plan(8, unsigned=True)


@dataclass(frozen=True)
class ColumnLayout:
    """One column of a row image.

    Attributes:
        name: As the log has it; `@1`, `@2` ... where it has none.
        mysql_type: The type as SQL writes it.
        nullable: Whether the column may hold NULL.
        charset: Character set of text, ENUM and SET; None for the others.
        plan: How its values are located and read.
        logged: The column of the TABLE_MAP.
        hash: Hashes the values that were read; None: they are staged.
    """

    name: str
    mysql_type: str
    nullable: bool
    charset: str | None
    plan: Plan
    logged: TableMapColumn
    hash: Hash | None = None

    @property
    def arrow_type(self) -> pa.DataType:
        """Type of the decoded values, or of their hashes."""
        return self.plan.arrow_type if self.hash is None else pa.string()


@dataclass(frozen=True)
class RowLayout:
    """The columns of a table, and how to read its rows.

    Attributes:
        database, table: Names as the server has them.
        columns: In the table's order.
        key: Indexes of the primary key's columns in key order; empty where the log names no key.
        named: Whether the log names the columns.
        route: How to walk its row images.
        schema: The columns as decoded: all nullable, since unrepresentable values are NULL.
            Without excluded ones.
        fields: The columns, with ids that count from 1 in the table's order.
        policies: How values are staged that no lake type holds.
        hidden: Number of further columns in row images: see `TableMap`.
        allows_missing: Whether an update may lack the value of a generated column that it changed.
        excluded: Indexes of the columns that are not read.
    """

    columns: tuple[ColumnLayout, ...]
    route: Route
    schema: pa.Schema
    fields: tuple[Field, ...]
    policies: Policies
    hidden: int
    allows_missing: bool
    database: str = ""
    table: str = ""
    key: tuple[int, ...] = ()
    named: bool = False
    excluded: frozenset[int] = frozenset()

    @property
    def width(self) -> int:
        """Number of columns in row images."""
        return len(self.columns) + self.hidden

    @property
    def columns_and_key(self) -> tuple[object, ...]:
        """Equal for tables of the same columns and key, whose rows can be decoded together."""
        hashed = [index for index, column in enumerate(self.columns) if column.hash is not None]
        logged = tuple([column.logged for column in self.columns])
        return logged, self.hidden, self.key, self.excluded, tuple(hashed)

    @property
    def row_bytes(self) -> int:
        """Bytes of a decoded row, without its text."""
        columns = [self.columns[index] for index in self.read]
        return sum([_HASH_BYTES if c.hash else c.plan.size or _TEXT_BYTES for c in columns])

    @cached_property
    def read(self) -> list[int]:
        """Indexes of the columns that are read."""
        return [index for index in range(len(self.columns)) if index not in self.excluded]


def compile_layout(
    table_map: TableMap,
    *,
    policies: Policies = DEFAULT_POLICIES,
    allow_missing_metadata: bool = False,
) -> RowLayout:
    """Return how to read the rows of this table.

    With `allow_missing_metadata` a column whose metadata is not in the log is read all the same:
    integers of unknown signedness as signed, ENUM and SET without values as numbers, and what may
    be text as bytes. Images are read though they lack generated columns.

    Raises:
        FormatError: The table map describes no table.
        UnsupportedError: A column's type is not decoded, or the log leaves out what it takes to
            read it.
    """
    if table_map.refused:
        raise errors.UnsupportedError(table_map.refused, table=".".join(table_map.name))
    if not table_map.columns:
        raise errors.FormatError("a table without columns", table=".".join(table_map.name))
    try:
        layout = _compile_columns(
            table_map.columns,
            table_map.hidden,
            policies,
            allows_missing=allow_missing_metadata,
        )
    except errors.BinlogError as error:
        column = error.context.pop("column")
        error.context |= {"table": ".".join(table_map.name), "column": column}
        raise
    return replace(
        layout,
        database=table_map.database,
        table=table_map.table,
        key=tuple(index for index, _prefix in table_map.primary_key or ()),
        named=table_map.has_names,
    )


def protect(layout: RowLayout, fields: Sequence[Field], secret: HashSecret | None) -> RowLayout:
    """Return how to read the rows of a table some of whose columns are excluded or hashed.

    `fields` are those of the layout's columns.

    Raises:
        ConfigurationError: Columns are hashed, and there is no secret.
    """
    if not [field for field in fields if field.origin is not None]:
        return layout
    excluded = frozenset(index for index, field in enumerate(fields) if field.excluded)
    columns = list(layout.columns)
    for index in [index for index, field in enumerate(fields) if field.hashed is not None]:
        if secret is None:
            raise errors.ConfigurationError("columns are hashed, and there is no secret")
        column, policies = columns[index], hash_policies(layout.policies)
        plan = plan_column(column.logged, policies, allow_missing_metadata=layout.allows_missing)
        columns[index] = replace(column, plan=plan, hash=make_hash(column.logged, secret))
    staged = [column for index, column in enumerate(columns) if index not in excluded]
    return replace(
        layout,
        columns=tuple(columns),
        schema=pa.schema([pa.field(column.name, column.arrow_type) for column in staged]),
        excluded=excluded,
    )


@lru_cache(maxsize=64)
def _compile_columns(
    logged: tuple[TableMapColumn, ...], hidden: int, policies: Policies, *, allows_missing: bool
) -> RowLayout:
    """Compile the columns of some table; kept, because many tables may have the same ones."""
    columns = tuple(
        _compile_column(column, index, policies, allow_missing_metadata=allows_missing)
        for index, column in enumerate(logged)
    )
    _refuse_same_names([column.name for column in columns])
    fields = tuple(
        Field(
            id=number,
            name=column.name,
            mysql_type=column.mysql_type,
            arrow_type=str(column.arrow_type),
            nullable=column.nullable,
            charset=column.charset,
            write_default=_default(column),
            generated=bool(column.logged.generated),
            auto_increment=bool(column.logged.auto_increment),
            primary=bool(column.logged.primary),
            comment=column.logged.comment,
        )
        for number, column in enumerate(columns, start=1)
    )
    plans = [column.plan for column in columns] + hidden * [_HIDDEN_PLAN]
    return RowLayout(
        columns=columns,
        route=compile_route(plans),
        schema=pa.schema([pa.field(column.name, column.arrow_type) for column in columns]),
        fields=fields,
        policies=policies,
        hidden=hidden,
        allows_missing=allows_missing,
    )


def _refuse_same_names(names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise errors.FormatError("two columns of a table have the same name", column=name)


def _default(column: ColumnLayout) -> Default | None:
    default = column.logged.default
    if default is None or default.value is None:
        return default
    # The text is known, its bytes in the column's character set are not.
    return None if pa.types.is_binary(column.arrow_type) else default


def _compile_column(
    logged: TableMapColumn, index: int, policies: Policies, *, allow_missing_metadata: bool
) -> ColumnLayout:
    name = logged.name if logged.name is not None else f"@{index + 1}"
    with errors.error_context(column=name):
        plan = plan_column(logged, policies, allow_missing_metadata=allow_missing_metadata)
        charset = column_charset(logged)
        sql_type = mysql_type(logged)
    return ColumnLayout(name, sql_type, logged.nullable, charset, plan, logged)


FEW_VALUES = 256
"""So few values are read together with their NULLs."""

_MOSTLY_NULL = 0.75
"""From this share of NULLs on, the other values are read alone."""


@dataclass(frozen=True)
class Converted:
    """The columns of some rows that are read; the rest as in `DecodedRows`."""

    columns: list[Array]
    unrepresentable: dict[str, int]
    invalid_text: dict[str, int]


def convert_columns(
    layout: RowLayout, located: Iterable[tuple[int, Values]], event: Int64Array
) -> Converted:
    """Return the columns of rows; `event`: index of each row's event. Absent columns are NULL.

    The values of excluded columns are not read.

    Raises:
        FormatError: A value breaks the format; names the column and the event.
        UnsupportedError: A zero or invalid date is refused, or the values of a column exceed 2 GiB.
    """
    arrays: dict[int, Array] = {}
    became_null: dict[int, int] = {}
    replaced: dict[int, int] = {}
    for index, values in located:
        if index in layout.excluded:
            continue
        column = layout.columns[index]
        array, invalid = _convert_column(column, values, event)
        logged = 0 if values.null is None else int(np.count_nonzero(values.null))
        if array.null_count > logged:
            became_null[index] = array.null_count - logged
            is_date = pa.types.is_temporal(column.plan.arrow_type)
            if is_date and layout.policies.zero_dates is ZeroDates.FAIL:
                raise _refuse_null(column, values, array, event)
        if invalid:
            replaced[index] = invalid
        arrays[index] = array if column.hash is None else column.hash(array)
    for index in layout.read:
        if index not in arrays:
            arrays[index] = nulls(len(event), layout.columns[index].arrow_type)
    return Converted(
        [arrays[index] for index in layout.read],
        _by_name(layout, became_null),
        _by_name(layout, replaced),
    )


def _by_name(layout: RowLayout, counts: dict[int, int]) -> dict[str, int]:
    return {layout.columns[index].name: counts[index] for index in sorted(counts)}


def _refuse_null(
    column: ColumnLayout, values: Values, array: Array, event: Int64Array
) -> errors.UnsupportedError:
    became_null = ~array.is_valid().to_numpy(zero_copy_only=False)
    if values.null is not None:
        became_null &= ~values.null
    return errors.UnsupportedError(
        "a zero or invalid date, such as 0000-00-00: correct it, or stage it as null or text: "
        'zero_dates="null" or "text"',
        column=column.name,
        event=int(event[became_null.argmax()]),
    )


def _convert_column(column: ColumnLayout, values: Values, event: Int64Array) -> tuple[Array, int]:
    """Return the values, and how many values had invalid byte sequences."""
    present = _few_present(values)
    if present is not None and not len(present):
        return nulls(len(values), column.plan.arrow_type), 0
    if present is not None:
        some = replace(values.choose(present), null=None)
        array, invalid = _convert_column(column, some, event[present])
        return _among_nulls(array, present, values), invalid
    try:
        try:
            return column.plan.convert(values), 0
        except errors.FormatError:
            if column.plan.repair is None:
                raise
            return column.plan.repair(values)
    except errors.BinlogError as error:
        error.context["column"] = column.name
        error.context.setdefault("event", int(event[_first_refused(column, values)]))
        raise
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        _raise_if_too_large(error, column)
        raise


def _few_present(values: Values) -> Int64Array | None:
    """Return which values are not NULL, where they are so few that they are read alone."""
    if values.null is None or len(values) < FEW_VALUES:
        return None
    if np.count_nonzero(values.null) < len(values) * _MOSTLY_NULL:
        return None
    return np.flatnonzero(~values.null)


def _among_nulls(array: Array, present: Int64Array, values: Values) -> Array:
    """Return an array where its values are `present`, and NULL everywhere else."""
    kind = array.type
    if pa.types.is_primitive(kind) and kind.bit_width > 1 and not array.null_count:
        numbers = np.zeros(len(values), dtype=f"uint{kind.bit_width}")
        numbers[present] = numbers_of(array.view(str(numbers.dtype)))
        return array_of(kind, numbers, values.null)
    index = np.zeros(len(values), dtype=np.int32)
    index[present] = np.arange(len(present))
    return array.take(of_numbers(index, values.null))


def _first_refused(column: ColumnLayout, values: Values) -> int:
    """Return the index of the first of some values that are not all read."""
    read = column.plan.repair or column.plan.convert
    good, bad = 0, len(values)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            read(values.choose(slice(good, middle)))
        except errors.BinlogError:
            bad = middle
        else:
            good = middle
    return good


def _raise_if_too_large(error: Exception, column: ColumnLayout) -> None:
    """Translate Arrow's error about its 32-bit offsets, which it raises in two ways."""
    if "overflow" in str(error) or isinstance(error, pa.ArrowCapacityError):
        raise errors.UnsupportedError(
            "the values of a column exceed 2 GiB in one batch: set binlog_row_event_max_size "
            "lower, or leave the table out",
            column=column.name,
        ) from error


def nulls(count: int, arrow_type: pa.DataType) -> Array:
    """Return NULLs of a type."""
    array: Array = pa.nulls(count, arrow_type)  # type: ignore[call-overload]  # of any type
    return array
