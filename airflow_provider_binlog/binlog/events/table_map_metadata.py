"""The optional metadata of a TABLE_MAP: names, signedness, character sets, enum values, keys.

A list of `1 field | lenenc size | value`, in any order; unknown fields are skipped.
Every value counts only the columns that it is about: the numeric ones, the ones with a character
set, the ENUMs. Which those are depends on the real types alone, and on the family.

Source: mysql-server, libs/mysql/binlog/event/rows_event.cpp, Optional_metadata_fields, and
sql/log_event.cc, is_character_type; mariadb, sql/log_event_server.cc, init_metadata_fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.charsets import decode_identifier
from airflow_provider_binlog.binlog.column_types import BLOBS, NUMERIC, VARCHARS, ColumnType
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.position import Flavor


class MetadataField(IntEnum):
    """Codes of the fields."""

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


_Reader = Callable[[Buffer, list[int]], dict[int, Any]]

_ENUM = frozenset({ColumnType.ENUM})
_SET = frozenset({ColumnType.SET})
_GEOMETRY = frozenset({ColumnType.GEOMETRY})
_VECTOR = frozenset({ColumnType.VECTOR})
_ENUMS = frozenset({ColumnType.ENUM, ColumnType.SET})

# Types that count as text columns. MySQL counts VECTOR, with the binary collation, and neither
# JSON nor GEOMETRY; MariaDB counts GEOMETRY, and its JSON is a BLOB.
_TEXT = BLOBS | VARCHARS | {ColumnType.STRING}
_CHARACTER = {
    Flavor.MYSQL: _TEXT | {ColumnType.VECTOR},
    Flavor.MARIADB: _TEXT | {ColumnType.GEOMETRY},
}


@dataclass
class OptionalMetadata:
    """The metadata that was logged, by attribute of `TableMapColumn` and column index.

    Attributes:
        values: `values["unsigned"][3]` is the value for the fourth column.
        primary_key: As in `TableMap`.
    """

    values: dict[str, dict[int, Any]] = field(default_factory=dict)
    primary_key: tuple[tuple[int, int], ...] | None = None

    def column(self, index: int) -> dict[str, Any]:
        """Return one column's attributes, those left out that were not logged."""
        return {name: column[index] for name, column in self.values.items() if index in column}

    @classmethod
    def parse(cls, buffer: Buffer, real_types: Sequence[int], flavor: Flavor) -> OptionalMetadata:
        """Read the fields to the end of `buffer`.

        Raises:
            FormatError: A field does not fit the columns.
        """
        metadata = cls()
        while buffer.remaining:
            code, value = buffer.uint(1), Buffer(buffer.lenenc_bytes())
            if code in _KEYS:
                metadata.primary_key = _key(value, len(real_types), prefixes=_KEYS[code])
            elif code in _PER_COLUMN:
                name, types, read = _PER_COLUMN[code]
                if code in _CHARSETS:
                    types = _CHARACTER[flavor]
                indexes = [i for i, kind in enumerate(real_types) if types is None or kind in types]
                metadata.values.setdefault(name, {}).update(read(value, indexes))
            else:
                continue
            if value.remaining:
                raise FormatError(
                    "optional metadata for more columns than there are",
                    field=MetadataField(code).name,
                    left=value.remaining,
                )
        return metadata


def _bits(value: Buffer, indexes: list[int]) -> dict[int, bool]:
    """Read one bit per column, the highest of each byte first."""
    octets = value.take((len(indexes) + 7) // 8)
    return {
        column: bool(octets[number >> 3] << (number & 7) & 0x80)
        for number, column in enumerate(indexes)
    }


def _each(read: Callable[[Buffer], Any]) -> _Reader:
    """Read one value per column."""
    return lambda value, indexes: {column: read(value) for column in indexes}


def _default_and_others(value: Buffer, indexes: list[int]) -> dict[int, int]:
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


def _key(value: Buffer, column_count: int, *, prefixes: bool) -> tuple[tuple[int, int], ...]:
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

# Their columns are `_CHARACTER`, which depends on the family.
_CHARSETS = frozenset({MetadataField.DEFAULT_CHARSET, MetadataField.COLUMN_CHARSET})

# Field -> attribute of a column, types of the columns that it counts (None: all), reader.
_PER_COLUMN: dict[int, tuple[str, frozenset[ColumnType] | None, _Reader]] = {
    MetadataField.SIGNEDNESS: ("unsigned", NUMERIC, _bits),
    MetadataField.DEFAULT_CHARSET: ("collation", None, _default_and_others),
    MetadataField.COLUMN_CHARSET: ("collation", None, _each(Buffer.lenenc)),
    MetadataField.COLUMN_NAME: ("name", None, _each(_name)),
    MetadataField.SET_STR_VALUE: ("set_members", _SET, _each(_strings)),
    MetadataField.ENUM_STR_VALUE: ("enum_values", _ENUM, _each(_strings)),
    MetadataField.GEOMETRY_TYPE: ("geometry_type", _GEOMETRY, _each(Buffer.lenenc)),
    MetadataField.ENUM_AND_SET_DEFAULT_CHARSET: ("collation", _ENUMS, _default_and_others),
    MetadataField.ENUM_AND_SET_COLUMN_CHARSET: ("collation", _ENUMS, _each(Buffer.lenenc)),
    MetadataField.COLUMN_VISIBILITY: ("visible", None, _bits),
    MetadataField.VECTOR_DIMENSIONALITY: ("vector_dimension", _VECTOR, _each(Buffer.lenenc)),
}
