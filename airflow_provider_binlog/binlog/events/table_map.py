"""TABLE_MAP: the table that the following rows events change, as it was when they were logged.

Source: mysql-server, libs/mysql/binlog/event/rows_event.{h,cpp}, Table_map_event and
Optional_metadata_fields; sql/log_event.cc, is_character_type; mariadb,
sql/log_event_server.cc, Table_map_log_event::init_metadata_fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.charsets import decode_identifier
from airflow_provider_binlog.binlog.column_types import (
    FRACTIONAL,
    ColumnType,
    MetadataField,
    metadata_width,
    real_type,
    string_bytes_max,
    types_with,
)
from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import Default, TableName

# MariaDB keeps a unique key on long columns as an index on a hash of them.
_HASH = re.compile(r"DB_ROW_HASH_[0-9]+")


@dataclass(frozen=True, slots=True)
class TableMapColumn:
    """One column. What the server did not log is None: see `binlog_row_metadata`.

    Attributes:
        type_code: As it stands in the event; STRING for ENUM and SET, as `real_type` says.
        metadata: The type's bytes of metadata, none to two.
        unsigned: Of numeric columns, YEAR included.
        collation: Collation id of text, ENUM and SET columns; 63 is binary.
        name: Logged under `binlog_row_metadata=FULL`, as are ENUM and SET values and visibility.
        enum_values, set_members: In the column's character set.
        geometry_type: 0 any, 1 POINT, ... 7 GEOMETRYCOLLECTION.
        visible: False for an INVISIBLE column of MySQL; MariaDB does not log it.
        vector_dimension: The most floats that a VECTOR of MySQL holds.
        data_type: `uuid`, `inet4`, `inet6` or `vector` for a type of MariaDB that the log writes
            as another one. It comes from information_schema, as do the attributes below.
        datetime_precision: Digits of a fraction of a second of an old TIME, DATETIME or TIMESTAMP.
        primary: Whether it is in a primary key, and not in a unique key in its place.
        default: What an insert stores in it that does not name it.
        comment: What its definition says in COMMENT.
    """

    type_code: int
    metadata: bytes
    real_type: int
    nullable: bool
    unsigned: bool | None = None
    collation: int | None = None
    name: str | None = None
    enum_values: tuple[bytes, ...] | None = None
    set_members: tuple[bytes, ...] | None = None
    geometry_type: int | None = None
    visible: bool | None = None
    vector_dimension: int | None = None
    data_type: str | None = None
    datetime_precision: int | None = None
    generated: bool | None = None
    auto_increment: bool | None = None
    primary: bool | None = None
    default: Default | None = None
    comment: str | None = None

    def __hash__(self) -> int:
        """Return a hash of what few columns have in common, in a fraction of the time of all."""
        return hash((self.name, self.type_code, self.metadata))

    @property
    def bytes_max(self) -> int:
        """The most bytes that a CHAR, BINARY, VARCHAR or VARBINARY holds."""
        if self.type_code == ColumnType.STRING:
            return string_bytes_max(self.metadata)
        size = int.from_bytes(self.metadata, "little")
        # MariaDB counts the byte that says how the value is compressed.
        return size - 1 if self.type_code == ColumnType.VARCHAR_COMPRESSED else size

    @property
    def length_size(self) -> int:
        """Bytes of the length before each value of a BLOB, JSON, GEOMETRY or VECTOR."""
        return self.metadata[0]

    @property
    def pack_size(self) -> int:
        """Bytes of each value of an ENUM or SET."""
        return self.metadata[1]

    @property
    def precision(self) -> int:
        """Digits of a DECIMAL."""
        return self.metadata[0]

    @property
    def scale(self) -> int:
        """Digits of a DECIMAL after the decimal point."""
        return self.metadata[1]

    @property
    def fsp(self) -> int:
        """Digits of a fraction of a second, of dates and times."""
        logged = self.real_type in FRACTIONAL
        return self.metadata[0] if logged else self.datetime_precision or 0

    @property
    def bits(self) -> int:
        """Width of a BIT."""
        # Field_bit: the odd bits, which it stores beside the NULL bits, then its whole bytes.
        return self.metadata[0] + 8 * self.metadata[1]


@dataclass(frozen=True)
class TableMap:
    """The columns of a table.

        | 6 table id | 2 flags |
        | lenenc + database + NUL | lenenc + table + NUL | lenenc n columns | n type codes |
        | lenenc size + metadata, by column | (n + 7) / 8 bytes of nullable bits |
        | optional metadata: 1 field | lenenc size | value, in any order |

    A value of the optional metadata counts only the columns that it is about, which depend on the
    real types and the family: see `column_types.py`. Unknown fields are skipped.

    Attributes:
        table_id: By which the following rows events name the table; without meaning elsewhere.
        database, table: Names as the server has them.
        columns: In the table's order; hidden columns are never among them. Tables of the same
            columns share them.
        primary_key: (column index, characters of a prefix or 0) in key order; None where the log
            names no key, be it that the table has none or that the server does not log it.
        refused: Why the columns are not read, and missing; empty where they are.
        hidden: How many hidden columns follow in row images, each a BIGINT UNSIGNED: MariaDB logs
            the hashes of unique keys on long columns. 0 where the log has no names.
    """

    table_id: int
    flags: int
    database: str
    table: str
    columns: tuple[TableMapColumn, ...]
    primary_key: tuple[tuple[int, int], ...] | None
    refused: str = ""
    hidden: int = 0

    def __hash__(self) -> int:
        """Return a hash of the names: of one table there are few."""
        return hash((self.database, self.table))

    @property
    def name(self) -> TableName:
        """Database and table."""
        return self.database, self.table

    @property
    def has_names(self) -> bool:
        """Whether the columns' names were logged, and with them everything else of FULL."""
        return all(column.name is not None for column in self.columns)

    @classmethod
    def parse(cls, body: bytes | memoryview, file_format: FormatDescription) -> TableMap:
        """Read the event's body; of a table with a column of an unknown type the name alone.

        Raises:
            FormatError: Counts or sizes in the body contradict each other.
        """
        fixed, buffer = file_format.split(EventType.TABLE_MAP, body)
        table_id, flags = fixed.uint(6), fixed.uint(2)
        database = decode_identifier(buffer.terminated(buffer.lenenc()))
        table = decode_identifier(buffer.terminated(buffer.lenenc()))
        flavor = file_format.flavor
        try:
            columns, primary_key = _parse_columns(bytes(buffer.rest()), flavor)
        except UnsupportedError as error:
            return cls(table_id, flags, database, table, (), None, str(error))
        hidden = _count_hidden(columns) if flavor is Flavor.MARIADB else 0
        shown = columns[: len(columns) - hidden]
        return cls(table_id, flags, database, table, shown, primary_key, hidden=hidden)


@lru_cache(maxsize=64)
def _parse_columns(
    described: bytes, flavor: Flavor
) -> tuple[tuple[TableMapColumn, ...], _Key | None]:
    """Return the columns and the primary key from what stands after the table's name."""
    # Cached, because many a server has thousands of tables of the same columns.
    buffer = Buffer(described)
    type_codes = bytes(buffer.lenenc_bytes())
    metadata = _split_metadata(type_codes, buffer.lenenc_bytes())
    nullable = buffer.take((len(type_codes) + 7) // 8)
    columns = [
        TableMapColumn(
            code,
            meta,
            real_type(code, meta),
            # The lowest bit of a byte first; in the optional metadata it is the highest.
            nullable=bool(nullable[index >> 3] >> (index & 7) & 1),
        )
        for index, (code, meta) in enumerate(zip(type_codes, metadata, strict=True))
    ]
    attributes, primary_key = _parse_optional(buffer, [c.real_type for c in columns], flavor)
    described_columns = zip(columns, attributes, strict=True)
    return tuple(replace(column, **logged) for column, logged in described_columns), primary_key


def _count_hidden(columns: Sequence[TableMapColumn]) -> int:
    """Return how many of the last columns are hashes."""
    count = 0
    for column in reversed(columns):
        is_number = column.real_type == ColumnType.LONGLONG and column.unsigned
        if not (is_number and _HASH.fullmatch(column.name or "")):
            break
        count += 1
    return count


def _split_metadata(type_codes: bytes, metadata: memoryview) -> list[bytes]:
    buffer = Buffer(metadata)
    parts = [bytes(buffer.take(metadata_width(code))) for code in type_codes]
    if buffer.remaining:
        raise FormatError("metadata after that of the last column", left=buffer.remaining)
    return parts


_Reader = Callable[[Buffer, list[int]], dict[int, Any]]
_Key = tuple[tuple[int, int], ...]


def _parse_optional(
    buffer: Buffer, real_types: Sequence[int], flavor: Flavor
) -> tuple[list[dict[str, Any]], _Key | None]:
    """Return the attributes of each column that were logged, and the primary key."""
    attributes: list[dict[str, Any]] = [{} for _ in real_types]
    primary_key = None
    while buffer.remaining:
        code, value = buffer.uint(1), Buffer(buffer.lenenc_bytes())
        if code in _KEYS:
            primary_key = _key(value, len(real_types), prefixes=_KEYS[code])
        elif code in _PER_COLUMN:
            name, read = _PER_COLUMN[code]
            types = None if code in _OF_ALL else types_with(MetadataField(code), flavor)
            indexes = [i for i, kind in enumerate(real_types) if types is None or kind in types]
            for index, attribute in read(value, indexes).items():
                attributes[index][name] = attribute
        else:
            continue
        if value.remaining:
            raise FormatError(
                "optional metadata for more columns than there are",
                field=MetadataField(code).name,
                left=value.remaining,
            )
    return attributes, primary_key


def _bits(value: Buffer, indexes: list[int]) -> dict[int, bool]:
    """Read a bit of each column, the highest of each byte first."""
    octets = value.take((len(indexes) + 7) // 8)
    return {
        column: bool(octets[number >> 3] << (number & 7) & 0x80)
        for number, column in enumerate(indexes)
    }


def _one_per_column(read: Callable[[Buffer], Any]) -> _Reader:
    return lambda value, indexes: {column: read(value) for column in indexes}


def _default_and_exceptions(value: Buffer, indexes: list[int]) -> dict[int, int]:
    """Read the collation of most columns, then pairs of index in `indexes` and collation."""
    collations = dict.fromkeys(indexes, value.lenenc())
    while value.remaining:
        number, collation = value.lenenc(), value.lenenc()
        if number >= len(indexes):
            raise FormatError(
                "a collation for a column that does not exist", index=number, columns=len(indexes)
            )
        collations[indexes[number]] = collation
    return collations


def _name(value: Buffer) -> str:
    return decode_identifier(value.lenenc_bytes())


def _strings(value: Buffer) -> tuple[bytes, ...]:
    count = value.lenenc()
    if count > value.remaining:  # each takes a byte at least: refuse before looping
        raise FormatError("more enum values than bytes", count=count, left=value.remaining)
    return tuple(bytes(value.lenenc_bytes()) for _ in range(count))


def _key(value: Buffer, column_count: int, *, prefixes: bool) -> _Key:
    key = []
    while value.remaining:
        column = value.lenenc()
        if column >= column_count:
            raise FormatError(
                "a key column that does not exist", column=column, columns=column_count
            )
        key.append((column, value.lenenc() if prefixes else 0))
    return tuple(key)


_KEYS: dict[int, bool] = {
    MetadataField.SIMPLE_PRIMARY_KEY: False,
    MetadataField.PRIMARY_KEY_WITH_PREFIX: True,
}

# These have an entry for every column, the others for the columns of some types.
_OF_ALL = frozenset({MetadataField.COLUMN_NAME, MetadataField.COLUMN_VISIBILITY})

# Field -> attribute of a column, reader.
_PER_COLUMN: dict[int, tuple[str, _Reader]] = {
    MetadataField.SIGNEDNESS: ("unsigned", _bits),
    MetadataField.DEFAULT_CHARSET: ("collation", _default_and_exceptions),
    MetadataField.COLUMN_CHARSET: ("collation", _one_per_column(Buffer.lenenc)),
    MetadataField.COLUMN_NAME: ("name", _one_per_column(_name)),
    MetadataField.SET_STR_VALUE: ("set_members", _one_per_column(_strings)),
    MetadataField.ENUM_STR_VALUE: ("enum_values", _one_per_column(_strings)),
    MetadataField.GEOMETRY_TYPE: ("geometry_type", _one_per_column(Buffer.lenenc)),
    MetadataField.ENUM_AND_SET_DEFAULT_CHARSET: ("collation", _default_and_exceptions),
    MetadataField.ENUM_AND_SET_COLUMN_CHARSET: ("collation", _one_per_column(Buffer.lenenc)),
    MetadataField.COLUMN_VISIBILITY: ("visible", _bits),
    MetadataField.VECTOR_DIMENSIONALITY: ("vector_dimension", _one_per_column(Buffer.lenenc)),
}
