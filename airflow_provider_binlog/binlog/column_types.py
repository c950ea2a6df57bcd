"""The column types: their form in a TABLE_MAP, and their names in SQL.

`FORMATS` describes every type once. `rows/types/registry.py` names the readers of their values.

Source: mysql-server, include/field_types.h; libs/mysql/binlog/event/binary_log_funcs.cpp;
rows_event.h, Table_map_event (metadata by type); sql/field.cc, Field::sql_type of each type;
mariadb, sql/field.h and sql/sql_type_string.cc for the compressed types.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.binlog.charsets import (
    BINARY_COLLATION,
    BYTES_PER_CHARACTER,
    charset_of,
    decode_text,
)
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.columns import GEOMETRIES, NUMBERS, SqlType

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn


class ColumnType(IntEnum):
    """Type codes in a TABLE_MAP. ENUM and SET stand there as STRING: see `real_type`."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    INVALID = 243
    BOOL = 244
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


class Metadata(Enum):
    """Meaning of the bytes of metadata that a TABLE_MAP has of a column, and how many they are."""

    NOTHING = ("", 0)
    NUMBER_SIZE = ("bytes of a value", 1)
    FSP = ("digits of a fraction of a second", 1)
    LENGTH_SIZE = ("bytes of the length before each value", 1)
    PRECISION_SCALE = ("digits | digits after the decimal point", 2)
    BITS = ("bits over whole bytes | whole bytes", 2)
    # Bits 8 and 9 of the size of a CHAR, inverted, are in bits 0x30 of the type: see `real_type`.
    PACKED = ("real type | bytes of a value", 2)
    BYTES_MAX = ("most bytes of a value, little-endian", 2)


class MetadataField(IntEnum):
    """Fields of the optional metadata of a TABLE_MAP, by their codes."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11
    COLUMN_VISIBILITY = 12
    VECTOR_DIMENSIONALITY = 13


_Fields = frozenset[MetadataField]
_NO_FIELDS: _Fields = frozenset()
_SIGN: _Fields = frozenset({MetadataField.SIGNEDNESS})
_CHARSET: _Fields = frozenset({MetadataField.DEFAULT_CHARSET, MetadataField.COLUMN_CHARSET})
_ENUM_CHARSET: _Fields = frozenset(
    {MetadataField.ENUM_AND_SET_DEFAULT_CHARSET, MetadataField.ENUM_AND_SET_COLUMN_CHARSET}
)
_VECTOR: _Fields = frozenset({MetadataField.VECTOR_DIMENSIONALITY})
_GEOMETRY: _Fields = frozenset({MetadataField.GEOMETRY_TYPE})


@dataclass(frozen=True, slots=True)
class TypeFormat:
    """Description of a type's columns in a TABLE_MAP.

    Attributes:
        sql_name: The type's name in SQL; empty where the column's metadata decide it.
        metadata: Meaning of its bytes of metadata.
        fields: Fields of optional metadata with an entry for such a column, in both families.
        mysql, mariadb: The further fields of one family.
        is_large: Whether row images may lack its values under `binlog_row_image=NOBLOB`.
    """

    sql_name: str = ""
    metadata: Metadata = Metadata.NOTHING
    fields: _Fields = _NO_FIELDS
    mysql: _Fields = _NO_FIELDS
    mariadb: _Fields = _NO_FIELDS
    is_large: bool = False


_T, _M = ColumnType, Metadata
_BLOB = TypeFormat("", _M.LENGTH_SIZE, _CHARSET, is_large=True)

FORMATS: dict[ColumnType, TypeFormat] = {
    _T.DECIMAL: TypeFormat("", _M.PRECISION_SCALE, _SIGN),
    _T.TINY: TypeFormat("tinyint", fields=_SIGN),
    _T.SHORT: TypeFormat("smallint", fields=_SIGN),
    _T.LONG: TypeFormat("int", fields=_SIGN),
    _T.FLOAT: TypeFormat("float", _M.NUMBER_SIZE, _SIGN),
    _T.DOUBLE: TypeFormat("double", _M.NUMBER_SIZE, _SIGN),
    _T.NULL: TypeFormat("null"),
    _T.TIMESTAMP: TypeFormat("timestamp"),
    _T.LONGLONG: TypeFormat("bigint", fields=_SIGN),
    _T.INT24: TypeFormat("mediumint", fields=_SIGN),
    _T.DATE: TypeFormat("date"),
    _T.TIME: TypeFormat("time"),
    _T.DATETIME: TypeFormat("datetime"),
    _T.YEAR: TypeFormat("year", fields=_SIGN),
    _T.NEWDATE: TypeFormat("date"),
    _T.VARCHAR: TypeFormat("", _M.BYTES_MAX, _CHARSET),
    _T.BIT: TypeFormat("bit", _M.BITS),
    _T.TIMESTAMP2: TypeFormat("timestamp", _M.FSP),
    _T.DATETIME2: TypeFormat("datetime", _M.FSP),
    _T.TIME2: TypeFormat("time", _M.FSP),
    _T.BLOB_COMPRESSED: _BLOB,
    _T.VARCHAR_COMPRESSED: TypeFormat("", _M.BYTES_MAX, _CHARSET),
    # To MySQL a VECTOR is text of the binary character set. MariaDB's is a VARCHAR in the log.
    _T.VECTOR: TypeFormat("vector", _M.LENGTH_SIZE, _VECTOR, mysql=_CHARSET, is_large=True),
    # MariaDB's JSON is a BLOB.
    _T.JSON: TypeFormat("json", _M.LENGTH_SIZE, is_large=True),
    _T.NEWDECIMAL: TypeFormat("decimal", _M.PRECISION_SCALE, _SIGN),
    _T.ENUM: TypeFormat("enum", _M.PACKED, _ENUM_CHARSET | {MetadataField.ENUM_STR_VALUE}),
    _T.SET: TypeFormat("set", _M.PACKED, _ENUM_CHARSET | {MetadataField.SET_STR_VALUE}),
    **dict.fromkeys((_T.TINY_BLOB, _T.MEDIUM_BLOB, _T.LONG_BLOB, _T.BLOB), _BLOB),
    _T.VAR_STRING: TypeFormat("", _M.BYTES_MAX, _CHARSET),
    _T.STRING: TypeFormat("", _M.PACKED, _CHARSET),
    _T.GEOMETRY: TypeFormat("", _M.LENGTH_SIZE, _GEOMETRY, mariadb=_CHARSET, is_large=True),
}
"""Every type that a TABLE_MAP may have."""


class HiddenType(NamedTuple):
    """A type of MariaDB that the log writes as another one; information_schema knows it.

    Attributes:
        real_type: The type in the log.
        size: Bytes of every value; 0: any number of them.
        since: The version of MariaDB that has it first.
    """

    real_type: ColumnType
    size: int
    since: tuple[int, int]


HIDDEN_TYPES: dict[str, HiddenType] = {
    "inet4": HiddenType(_T.STRING, 4, (10, 10)),
    "inet6": HiddenType(_T.STRING, 16, (10, 5)),
    "uuid": HiddenType(_T.STRING, 16, (10, 7)),
    "vector": HiddenType(_T.VARCHAR, 0, (11, 7)),
}
"""By data type."""


@cache
def types_with(field: MetadataField, flavor: Flavor) -> frozenset[ColumnType]:
    """Return the types whose columns have an entry in a field of optional metadata."""
    return frozenset(
        kind
        for kind, form in FORMATS.items()
        if field in form.fields | (form.mysql if flavor is Flavor.MYSQL else form.mariadb)
    )


NUMERIC = types_with(MetadataField.SIGNEDNESS, Flavor.MYSQL)
"""Types with a bit in SIGNEDNESS."""

INTEGERS = frozenset({_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG})

ENUMS = types_with(MetadataField.ENUM_AND_SET_COLUMN_CHARSET, Flavor.MYSQL)
"""ENUM and SET."""

BLOBS = frozenset(kind for kind, form in FORMATS.items() if form == _BLOB)
"""BLOB and TEXT of all sizes; MariaDB's JSON too."""

VARCHARS = frozenset(kind for kind, form in FORMATS.items() if form.metadata is _M.BYTES_MAX)
"""VARCHAR and VARBINARY."""

TEXTS = BLOBS | VARCHARS | {_T.STRING}
"""Text, or bytes: only the collation distinguishes the two."""

COMPRESSED = frozenset({_T.VARCHAR_COMPRESSED, _T.BLOB_COMPRESSED})
"""Types with the attribute COMPRESSED of MariaDB."""

FRACTIONAL = frozenset(kind for kind, form in FORMATS.items() if form.metadata is _M.FSP)
"""Dates and times whose digits of a second are in the log."""

OLD_TEMPORALS = frozenset({_T.TIME, _T.DATETIME, _T.TIMESTAMP})
"""Dates and times in the format from before MySQL 5.6."""

LARGE = frozenset(kind for kind, form in FORMATS.items() if form.is_large)
"""Types whose columns row images may lack under `binlog_row_image=NOBLOB`."""

NAMES: dict[int, str] = {kind: form.sql_name for kind, form in FORMATS.items() if form.sql_name}
"""Types that have one name in SQL, whatever else a TABLE_MAP says of the column."""


def metadata_width(type_code: int) -> int:
    """Return how many bytes of metadata a column of this type has.

    Raises:
        UnsupportedError: The code is none that a row image can hold.
    """
    try:
        width: int = FORMATS[ColumnType(type_code)].metadata.value[1]
    except (KeyError, ValueError):
        raise UnsupportedError(
            "a column type that no known server logs: leave the table out",
            type=type_name(type_code),
        ) from None
    return width


def type_name(type_code: int) -> str:
    """Return the code's name, `UNKNOWN_99` for one without."""
    try:
        return ColumnType(type_code).name
    except ValueError:
        return f"UNKNOWN_{type_code}"


def real_type(type_code: int, metadata: bytes) -> int:
    """Return the type code that the metadata of a STRING hides: ENUM, SET or STRING itself.

    A CHAR of more than 255 bytes keeps bits 8 and 9 of its length, inverted, in the code's bits
    0x30, which are otherwise set. Source: binary_log_funcs.cpp, max_display_length_for_field.
    """
    if type_code != ColumnType.STRING:
        return type_code
    return metadata[0] | 0x30


def string_bytes_max(metadata: bytes) -> int:
    """Return the most bytes that a CHAR or BINARY with this metadata holds."""
    return metadata[1] | ((metadata[0] & 0x30) ^ 0x30) << 4


_PRECISION_MAX, _SCALE_MAX = 65, 30
_GROUP_DIGITS = 9
# By the digits of a group: `dig2bytes` of strings/decimal.cc.
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


@dataclass(frozen=True)
class DecimalGroup:
    """Some digits of a DECIMAL.

    Attributes:
        offset: Where its bytes begin in the value.
        size: How many bytes.
        digits: How many digits, 1 to 9.
    """

    offset: int
    size: int
    digits: int


@cache
def decimal_groups(precision: int, scale: int) -> tuple[DecimalGroup, ...]:
    """Return the groups of DECIMAL(`precision`, `scale`) from the first byte on.

        | partial group | 9 digits in 4 bytes ... | . | 9 digits in 4 bytes ... | partial group |

    Big-endian, the sign in the top bit of the first byte: 1 for values of 0 and above. A negative
    value has every bit inverted, that one included.

    Raises:
        FormatError: MySQL has no such type.
    """
    if not (1 <= precision <= _PRECISION_MAX and scale <= min(_SCALE_MAX, precision)):
        raise FormatError("not a DECIMAL", precision=precision, scale=scale)
    whole, fraction = divmod(precision - scale, _GROUP_DIGITS), divmod(scale, _GROUP_DIGITS)
    digits = [whole[1], *[_GROUP_DIGITS] * (whole[0] + fraction[0]), fraction[1]]
    digits = [count for count in digits if count]
    sizes = [_GROUP_BYTES[count] for count in digits]
    offsets = [0, *accumulate(sizes)]
    return tuple(map(DecimalGroup, offsets, sizes, digits))


_FLOAT_BYTES = 4
_BLOB_PREFIX = {1: "tiny", 2: "", 3: "medium", 4: "long"}


def mysql_type(column: TableMapColumn) -> str:
    """Return the column's type as SQL writes it: `decimal(10,2)`, `bigint unsigned`, `varchar(40)`.

    What the TABLE_MAP leaves out is left out: `tinyint` for a BOOLEAN, no length for a VARCHAR of
    unknown character set, no values for an ENUM whose values were not logged.
    """
    return str(_sql_type(column))


def _sql_type(column: TableMapColumn) -> SqlType:
    kind = column.real_type
    if column.data_type in HIDDEN_TYPES and HIDDEN_TYPES[column.data_type].size:
        return SqlType(column.data_type)
    if kind in TEXTS:
        return replace(_text_type(column), compressed=kind in COMPRESSED)
    if kind == ColumnType.GEOMETRY:
        number = column.geometry_type or 0
        return SqlType(GEOMETRIES[number] if number < len(GEOMETRIES) else GEOMETRIES[0])
    name = NAMES.get(kind, type_name(kind).lower())
    if kind == ColumnType.NEWDECIMAL:
        return SqlType(name, column.precision, column.scale, unsigned=bool(column.unsigned))
    return SqlType(
        name,
        column.bits if kind == ColumnType.BIT else column.vector_dimension,
        fsp=column.fsp,
        unsigned=bool(column.unsigned) and name in NUMBERS,
        values=_values(column),
    )


def _values(column: TableMapColumn) -> tuple[str, ...] | None:
    values = column.enum_values if column.real_type == ColumnType.ENUM else column.set_members
    if not values or column.collation is None:
        return None
    # The values of a binary ENUM are bytes, most often text all the same.
    binary = column.collation == BINARY_COLLATION
    charset = "utf8mb4" if binary else charset_of(column.collation)
    return tuple(decode_text(value, charset, errors="replace") for value in values)


def _text_type(column: TableMapColumn) -> SqlType:
    binary = column.collation == BINARY_COLLATION
    if column.real_type in BLOBS:
        return SqlType(_BLOB_PREFIX.get(column.length_size, "") + ("blob" if binary else "text"))
    if column.data_type == "vector":
        return SqlType("vector", column.bytes_max // _FLOAT_BYTES)
    fixed = column.real_type == ColumnType.STRING
    name = ("binary" if fixed else "varbinary") if binary else ("char" if fixed else "varchar")
    if column.collation is None:
        return SqlType(name)
    return SqlType(name, column.bytes_max // BYTES_PER_CHARACTER[charset_of(column.collation)])
