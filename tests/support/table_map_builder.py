"""Writes TABLE_MAP: the mirror of `airflow_provider_binlog.binlog.events.table_map`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.binlog.column_types import BLOBS, NUMERIC, VARCHARS, ColumnType
from airflow_provider_binlog.position import Flavor
from tests.support.wire import bits, lenenc, lenenc_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn


def table_map(table: TableMap, flavor: Flavor = Flavor.MYSQL) -> bytes:
    """Return the body of TABLE_MAP, with all the metadata that `table` holds."""
    columns = table.columns
    database, name = table.database.encode(), table.table.encode()
    return (
        table.table_id.to_bytes(6, "little")
        + table.flags.to_bytes(2, "little")
        + lenenc_bytes(database)
        + b"\0"
        + lenenc_bytes(name)
        + b"\0"
        + lenenc_bytes(bytes(column.type_code for column in columns))
        + lenenc_bytes(b"".join(column.metadata for column in columns))
        + bits([column.nullable for column in columns])
        + optional_metadata(table, flavor)
    )


def optional_metadata(table: TableMap, flavor: Flavor) -> bytes:
    """Return what follows the nullable bits, in the order of the fields' codes."""
    fields = sorted(optional_metadata_fields(table, flavor).items())
    return b"".join(bytes((code,)) + lenenc_bytes(value) for code, value in fields)


def optional_metadata_fields(table: TableMap, flavor: Flavor) -> dict[int, bytes]:
    """Return every field by its code; those without any value are left out."""
    columns = table.columns
    labelled = [c for c in columns if c.real_type in (ColumnType.ENUM, ColumnType.SET)]
    numeric = [column for column in columns if column.real_type in NUMERIC]
    text = [column for column in columns if _is_character(column, flavor)]
    names = [None if column.name is None else column.name.encode() for column in columns]
    fields = {
        1: _flags([column.unsigned for column in numeric]),
        3: _each(lenenc, [column.collation for column in text]),
        4: _each(lenenc_bytes, names),
        5: _each(_values, [column.set_members for column in columns]),
        6: _each(_values, [column.enum_values for column in columns]),
        7: _each(lenenc, [column.geometry_type for column in columns]),
        11: _each(lenenc, [column.collation for column in labelled]),
        12: _flags([column.visible for column in columns]),
        13: _each(lenenc, [column.vector_dimension for column in columns]),
    }
    if table.primary_key is not None:
        code, value = _primary_key(table.primary_key)
        fields[code] = value
    return {code: value for code, value in fields.items() if value}


def _flags(values: Sequence[bool | None]) -> bytes:
    known = [value for value in values if value is not None]
    return bits(known, highest_first=True)


def _each(write: Callable[[Any], bytes], values: Sequence[object]) -> bytes:
    return b"".join(write(value) for value in values if value is not None)


def _values(values: tuple[bytes, ...]) -> bytes:
    return lenenc(len(values)) + b"".join(map(lenenc_bytes, values))


def _primary_key(key: tuple[tuple[int, int], ...]) -> tuple[int, bytes]:
    if any(prefix for _, prefix in key):
        return 9, b"".join(lenenc(column) + lenenc(prefix) for column, prefix in key)
    return 8, b"".join(lenenc(column) for column, _ in key)


def _is_character(column: TableMapColumn, flavor: Flavor) -> bool:
    own = ColumnType.VECTOR if flavor is Flavor.MYSQL else ColumnType.GEOMETRY
    return column.real_type in BLOBS | VARCHARS | {ColumnType.STRING, own}
