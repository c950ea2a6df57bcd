"""Every column type: how row images and result sets are read, and how values are printed.

`READERS` has an entry per type; what a TABLE_MAP says of the type is in `binlog/column_types.py`,
under the same key. A test holds the two against each other, and against the enum.

Source: mysql-server libs/mysql/binlog/event/rows_event.h, Table_map_event (metadata by type);
MySQL Internals, "Binary Protocol Value"; MySQL 9.7 reference manual, 12.4 Connection Character Sets
and Collations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from airflow_provider_binlog.binlog.charsets import (
    BINARY,
    BINARY_COLLATION,
    charset_of,
    encode_ascii,
)
from airflow_provider_binlog.binlog.column_types import (
    COMPRESSED,
    ENUMS,
    FORMATS,
    HIDDEN_TYPES,
    TEXTS,
    ColumnType,
    Metadata,
    type_name,
)
from airflow_provider_binlog.binlog.events.table_map import TableMapColumn
from airflow_provider_binlog.blocks.arrays import of_octets
from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.rows.types import (
    numbers,
    printed,
    strings,
    temporals,
)
from airflow_provider_binlog.rows.types.json import column as json
from airflow_provider_binlog.rows.types.printed import JsonValue, Show
from airflow_provider_binlog.rows.types.temporals import MomentFormat
from airflow_provider_binlog.rows.values import (
    Array,
    Bytes,
    Convert,
    Gather,
    Plan,
    Values,
    gather_bytes,
)

_BIT_WIDTH_MAX = 64
_UTF8 = "utf8mb4"
_METADATA_ADVICE = "set binlog_row_metadata=FULL on the server"
_T = ColumnType


class Reading(NamedTuple):
    """Options of reading columns, besides their types: see `compile_layout`."""

    policies: Policies
    allow_missing_metadata: bool = False

    @property
    def dates_as_text(self) -> bool:
        """Whether zero dates are kept, so that dates are staged as text."""
        return self.policies.zero_dates is ZeroDates.TEXT


_MakePlan: TypeAlias = "Callable[[TableMapColumn, Reading], Plan]"
_MakeResultPlan: TypeAlias = "Callable[[TableMapColumn, Reading, Plan], Plan]"


def _same_plan(_column: TableMapColumn, _reading: Reading, plan: Plan) -> Plan:
    return plan


def _itself(name: str, _column: TableMapColumn) -> str:
    return name


@dataclass(frozen=True, slots=True)
class TypeReaders:
    """Readers and printer of the columns of a type.

    Attributes:
        image: Returns the plan by which values of row images are read; it has their Arrow type.
        sent: Bytes of a value that a result set sends in a fixed width; 0: its length precedes it.
        result: Returns the plan by which they are then read, to the same Arrow type; it takes the
            plan for row images, which most types share.
        show: Returns decoded values as JSON.
        select: Returns what is selected of a column, by its quoted name.
    """

    image: _MakePlan
    sent: int = 0
    result: _MakeResultPlan = _same_plan
    show: Show = printed.values
    select: Callable[[str, TableMapColumn], str] = _itself


def readers_of(column: TableMapColumn) -> TypeReaders:
    """Return the readers of a column's type.

    Raises:
        UnsupportedError: The type is not decoded.
    """
    if column.data_type in HIDDEN_READERS:
        return HIDDEN_READERS[column.data_type]
    try:
        return READERS[ColumnType(column.real_type)]
    except (KeyError, ValueError):
        raise UnsupportedError(
            "a column of this type is not decoded: leave the table out",
            type=type_name(column.real_type),
        ) from None


def plan_column(
    column: TableMapColumn, policies: Policies, *, allow_missing_metadata: bool
) -> Plan:
    """Return how the column's values in row images are located and read.

    Raises:
        FormatError: There is no such column.
        UnsupportedError: The type is not decoded, or the log leaves out what it takes to read it.
    """
    return readers_of(column).image(column, Reading(policies, allow_missing_metadata))


def plan_result(column: TableMapColumn, policies: Policies, plan: Plan) -> Plan:
    """Return how the column's values in a result set are read; `plan` reads those of row images."""
    return readers_of(column).result(column, Reading(policies), plan)


def sent_bytes(type_code: int) -> int:
    """Return `TypeReaders.sent` of a column of a result set, by the type it declares.

    Raises:
        FormatError: No column that is selected has this type.
    """
    try:
        return READERS[ColumnType(type_code)].sent
    except (KeyError, ValueError):
        raise FormatError("a result set has a column of a type that is not known here") from None


def to_json_values(array: Array, column: TableMapColumn) -> list[JsonValue]:
    """Return the decoded values of one column as JSON, None for NULL."""
    if column.collation is None and column.real_type in TEXTS and pa.types.is_binary(array.type):
        return printed.perhaps_texts(array)
    return readers_of(column).show(array, column.fsp)


def column_charset(column: TableMapColumn) -> str | None:
    """Return the character set of a column of text, ENUM or SET; None for the others."""
    if column.real_type not in ENUMS and column.real_type not in TEXTS:
        return None
    if column.collation is None or column.collation == BINARY_COLLATION:
        return None
    return charset_of(column.collation)


def _integers(size: int, sent: int) -> TypeReaders:
    """Return the readers of integers of `size` bytes, which a result set sends in `sent`."""
    return TypeReaders(partial(_integer_plan, size=size), sent, show=printed.integers)


def _integer_plan(column: TableMapColumn, reading: Reading, *, size: int) -> Plan:
    if column.unsigned is None and not reading.allow_missing_metadata:
        raise UnsupportedError(
            f"the log does not contain the signedness of the column: {_METADATA_ADVICE}"
        )
    return numbers.integer_plan(size, unsigned=bool(column.unsigned))


def _sent(convert: Convert) -> _MakeResultPlan:
    """Return what makes plans by which a result set is read to the type of row images."""
    return lambda _column, _reading, plan: replace(plan, convert=convert)


def _bit_plan(column: TableMapColumn, _reading: Reading) -> Plan:
    if not 1 <= column.bits <= _BIT_WIDTH_MAX:
        raise FormatError("not a BIT", bits=column.bits)
    return numbers.bit_plan(column.bits)


def _bit_result(_column: TableMapColumn, _reading: Reading, plan: Plan) -> Plan:
    return replace(plan, convert=partial(_exact, size=plan.size, convert=plan.convert))


def _exact(values: Values, *, size: int, convert: Convert) -> Array:
    """Read values that must all have `size` bytes."""
    sizes = values.lengths if values.null is None else values.lengths[~values.null]
    if (sizes != size).any():
        raise FormatError("a value does not have the size of its column", size=size)
    return convert(values)


def _decimal_result(_column: TableMapColumn, _reading: Reading, plan: Plan) -> Plan:
    if isinstance(plan.arrow_type, pa.Decimal128Type):
        return replace(plan, convert=partial(numbers.read_decimal_text, data_type=plan.arrow_type))
    return replace(plan, convert=strings.text_plan(1, _UTF8).convert)


def _without_zeros(name: str, column: TableMapColumn) -> str:
    # ZEROFILL prints zeros before the number.
    return f"CAST({name} AS DECIMAL({column.precision},{column.scale}))"


_DATES = TypeReaders(
    lambda _, reading: temporals.date_plan(temporals.read_dates, 3, as_text=reading.dates_as_text),
    result=lambda _, reading, __: temporals.date_plan(
        temporals.read_sent_moments, 0, as_text=reading.dates_as_text
    ),
    show=printed.moments,
)


def _moments(stored: MomentFormat, sent: MomentFormat) -> TypeReaders:
    def plan(column: TableMapColumn, reading: Reading) -> Plan:
        return stored.plan(column.fsp, as_text=reading.dates_as_text)

    def result(column: TableMapColumn, reading: Reading, _plan: Plan) -> Plan:
        return sent.plan(column.fsp, as_text=reading.dates_as_text)

    return TypeReaders(plan, result=result, show=printed.moments)


def _old(readers: TypeReaders) -> TypeReaders:
    """Return the readers of an old format, whose digits may be unknown."""

    def plan(column: TableMapColumn, reading: Reading) -> Plan:
        if column.datetime_precision is None:
            raise UnsupportedError(
                "a date or time in the format from before MySQL 5.6, whose size is not in the "
                "log: rebuild the table with ALTER TABLE ... FORCE, on MariaDB with "
                "mysql56_temporal_format=ON",
                type=type_name(column.real_type),
            )
        return readers.image(column, reading)

    return replace(readers, image=plan)


def _prefix(column: TableMapColumn) -> int:
    """Return the bytes of length before each value."""
    kind = ColumnType(column.real_type)
    if kind == ColumnType.VARCHAR_COMPRESSED:
        # The byte that says how a value is compressed counts as well.
        return 1 if column.bytes_max < 0xFF else 2
    if FORMATS[kind].metadata is not Metadata.LENGTH_SIZE:
        return 1 if column.bytes_max <= 0xFF else 2
    if not 1 <= column.length_size <= 4:
        raise FormatError("not the size of a BLOB's length", size=column.length_size)
    return column.length_size


def _text_plan(column: TableMapColumn, reading: Reading) -> Plan:
    if column.collation is None and not reading.allow_missing_metadata:
        raise UnsupportedError(
            f"the log does not contain the character set of the column: {_METADATA_ADVICE}"
        )
    prefix, charset = _prefix(column), column_charset(column)
    invalid_text = reading.policies.invalid_text
    gather: Gather = gather_bytes
    growth = 1
    if column.real_type in COMPRESSED:
        is_varchar = column.real_type == ColumnType.VARCHAR_COMPRESSED
        bytes_max = column.bytes_max if is_varchar else (1 << 8 * prefix) - 1
        gather = partial(strings.gather_compressed, bytes_max=bytes_max)
        growth = strings.GROWTH_MAX
    if charset is not None and invalid_text is not InvalidText.BINARY:
        replaces = invalid_text is InvalidText.REPLACE
        return strings.text_plan(prefix, charset, gather, growth, replaces=replaces)
    if column.collation == BINARY_COLLATION and column.real_type == ColumnType.STRING:
        return strings.binary_plan(prefix, column.bytes_max)
    return strings.bytes_plan(prefix, gather, growth)


def _sent_as(kind: ColumnType) -> _MakeResultPlan:
    """Return what makes plans of values that are sent as those of another type, ENUM as text."""
    return lambda column, reading, _: _text_plan(
        replace(column, type_code=kind, real_type=kind), reading
    )


def _utf8_result(_column: TableMapColumn, _reading: Reading, _plan: Plan) -> Plan:
    return strings.text_plan(1, _UTF8)


def _enum_plan(column: TableMapColumn, reading: Reading) -> Plan:
    is_enum = column.real_type == ColumnType.ENUM
    logged = column.enum_values if is_enum else column.set_members
    if logged is None or column.collation is None:
        if reading.allow_missing_metadata:
            return numbers.number_plan(column.pack_size)
        raise UnsupportedError(
            f"the log does not contain the values of the column: {_METADATA_ADVICE}"
        )
    make = numbers.enum_plan if is_enum else numbers.set_plan
    values = _enum_values(logged, column.collation, reading.policies.invalid_text)
    return make(column.pack_size, values)


def _enum_values(
    logged: tuple[bytes, ...], collation: int, invalid_text: InvalidText
) -> numbers.EnumValues:
    """Return the values in UTF-8, or as bytes if the column is binary or staged so."""
    array = of_octets(logged)
    charset, stored = charset_of(collation), Bytes.of(array)
    if charset == BINARY or invalid_text is InvalidText.BINARY:
        return numbers.EnumValues(array, comma=encode_ascii(",", charset))
    if invalid_text is InvalidText.REPLACE:
        encoded, changed = strings.replace_invalid(stored, charset)
        indexes = tuple(changed.nonzero()[0].tolist())
        return numbers.EnumValues(encoded.array(pa.string(), None), indexes)
    return numbers.EnumValues(strings.to_utf8(stored, charset).array(pa.string(), None))


def _hidden(arrow_type: pa.DataType, convert: Convert) -> _MakePlan:
    """Return what makes plans of a type that only information_schema distinguishes."""

    def plan(column: TableMapColumn, _reading: Reading) -> Plan:
        hidden = HIDDEN_TYPES[column.data_type or ""]
        # MariaDB logs a type of fixed size as BINARY, VECTOR as VARBINARY; MySQL has a VECTOR.
        logged_as = (_T.STRING,) if hidden.size else (_T.VARCHAR, _T.VECTOR)
        has_size = not hidden.size or column.bytes_max == hidden.size
        if column.real_type not in logged_as or not has_size:
            raise FormatError(
                "information_schema and the log disagree on the type of a column",
                data_type=column.data_type,
                type=type_name(column.real_type),
                bytes=column.bytes_max,
            )
        return Plan(arrow_type, convert, prefix=_prefix(column))

    return plan


_TEXT = TypeReaders(_text_plan)
_TIMES = partial(TypeReaders, result=_sent(temporals.sent_times), show=printed.times)
_ENUM = TypeReaders(_enum_plan, result=_sent_as(_T.VARCHAR))
_VECTORS = partial(Plan, strings.VECTOR, strings.vectors)

READERS: dict[ColumnType, TypeReaders] = {
    _T.TINY: _integers(1, 1),
    _T.SHORT: _integers(2, 2),
    _T.INT24: _integers(3, 4),
    _T.LONG: _integers(4, 4),
    _T.LONGLONG: _integers(8, 8),
    _T.FLOAT: TypeReaders(lambda *_: numbers.FLOAT, 4, show=printed.floats),
    _T.DOUBLE: TypeReaders(lambda *_: numbers.DOUBLE, 8),
    _T.NEWDECIMAL: TypeReaders(
        lambda column, _: numbers.decimal_plan(column.precision, column.scale),
        result=_decimal_result,
        show=printed.decimals,
        select=_without_zeros,
    ),
    _T.BIT: TypeReaders(_bit_plan, result=_bit_result, show=printed.bits),
    _T.YEAR: TypeReaders(lambda *_: numbers.YEAR, 2, _sent(temporals.sent_years)),
    **dict.fromkeys((_T.DATE, _T.NEWDATE), _DATES),
    _T.TIME2: _TIMES(lambda column, _: temporals.time_plan(column.fsp)),
    _T.DATETIME2: _moments(temporals.DATETIME2, temporals.SENT_DATETIME),
    _T.TIMESTAMP2: _moments(temporals.TIMESTAMP2, temporals.SENT_TIMESTAMP),
    _T.TIME: _old(_TIMES(lambda column, _: temporals.old_time_plan(column.fsp))),
    _T.DATETIME: _old(_moments(temporals.OLD_DATETIME, temporals.SENT_DATETIME)),
    _T.TIMESTAMP: _old(_moments(temporals.OLD_TIMESTAMP, temporals.SENT_TIMESTAMP)),
    **dict.fromkeys((_T.STRING, _T.VARCHAR, _T.VAR_STRING), _TEXT),
    **dict.fromkeys((_T.TINY_BLOB, _T.BLOB, _T.MEDIUM_BLOB, _T.LONG_BLOB), _TEXT),
    _T.VARCHAR_COMPRESSED: TypeReaders(_text_plan, result=_sent_as(_T.VARCHAR)),
    _T.BLOB_COMPRESSED: TypeReaders(_text_plan, result=_sent_as(_T.BLOB)),
    _T.ENUM: _ENUM,
    _T.SET: _ENUM,
    _T.JSON: TypeReaders(lambda column, _: json.plan(_prefix(column)), result=_utf8_result),
    _T.GEOMETRY: TypeReaders(
        lambda column, _: strings.bytes_plan(_prefix(column)), show=printed.geometries
    ),
    _T.VECTOR: TypeReaders(
        lambda column, _: _VECTORS(prefix=_prefix(column)), show=printed.vectors
    ),
}
"""By real type."""

HIDDEN_READERS: dict[str | None, TypeReaders] = {
    "inet4": TypeReaders(_hidden(pa.string(), strings.inet4s), result=_utf8_result),
    "inet6": TypeReaders(_hidden(pa.string(), strings.inet6s), result=_utf8_result),
    "uuid": TypeReaders(_hidden(pa.string(), strings.uuids), result=_utf8_result),
    "vector": TypeReaders(_hidden(strings.VECTOR, strings.vectors), show=printed.vectors),
}
"""By data type, for the types of `HIDDEN_TYPES`."""
