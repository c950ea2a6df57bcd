"""A table as its TABLE_MAP would describe it, from what information_schema says of it.

So a table that is read with SELECT has the same schema, types and conversions as in the log.

Source: mysql-server, libs/mysql/binlog/event/rows_event.h, Table_map_event (metadata by type), and
sql/field.cc, Field::save_field_metadata of each type; mariadb, sql/field.cc.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.column_types import HIDDEN_TYPES, NAMES, ColumnType
from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema_history.completion import (
    complete,
    mark_primary,
    missing,
    pack_size,
)
from airflow_provider_binlog.sql.columns import BLOBS, ENUMS, GEOMETRIES, TEXTS

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.sql.columns import Facts, PartialSchema

_T = ColumnType
_LENGTHS = TEXTS | BLOBS
_PACKED_SIZES = {name: hidden.size for name, hidden in HIDDEN_TYPES.items() if hidden.size}
_LENGTH_SIZE_MAX = 4
_WITH_LENGTHS = (_T.BLOB, _T.BLOB_COMPRESSED, _T.JSON, _T.GEOMETRY, _T.VECTOR)
_CODES = {
    **{NAMES[code]: code for code in NAMES},
    "date": _T.DATE,
    "time": _T.TIME2,
    "datetime": _T.DATETIME2,
    "timestamp": _T.TIMESTAMP2,
    **dict.fromkeys(("enum", "set", "char", "binary", *_PACKED_SIZES), _T.STRING),
    **dict.fromkeys(("varchar", "varbinary"), _T.VARCHAR),
    **dict.fromkeys(_LENGTHS, _T.BLOB),
    **dict.fromkeys((*GEOMETRIES, "geometrycollection"), _T.GEOMETRY),
}


def describe(
    name: TableName, schema: PartialSchema, flavor: Flavor, version: tuple[int, ...]
) -> TableMap:
    """Return the TABLE_MAP of a table that information_schema describes.

    Args:
        name: Database and table.
        schema: All its columns, and its key.
        flavor: Of the server.
        version: Of the server.

    Raises:
        UnsupportedError: The type of a column is not known here, or information_schema does not say
            all that it takes to read it.
    """
    columns = []
    for column in schema.columns:
        facts = column.facts
        if facts.data_type in ENUMS and facts.values is None:
            # A SELECT returns the text, whatever the values are.
            facts = replace(facts, values=())
        described = _describe(facts, flavor)
        if described is not None:
            described = complete(described, column.name, facts, flavor)
        if described is None or missing(described, facts, flavor, version) is not None:
            raise UnsupportedError(
                "a column of this type cannot be read: leave the table out",
                table=".".join(name),
                column=column.name,
                type=facts.data_type,
            )
        columns.append(described)
    offsets = {column.name: index for index, column in enumerate(schema.columns)}
    parts = () if schema.key is None else schema.key.columns
    key = tuple((offsets[each], prefix) for each, prefix in parts)
    if schema.key is not None and schema.key.primary:
        columns = mark_primary(columns, key)
    return TableMap(0, 0, *name, tuple(columns), key or None)


def _describe(facts: Facts, flavor: Flavor) -> TableMapColumn | None:
    """Return a column as a TABLE_MAP without optional metadata has it."""
    name = facts.data_type or ""
    code: int | None = _CODES.get(name)
    if name == "vector":
        code = _T.VECTOR if flavor is Flavor.MYSQL else _T.VARCHAR
    if code is None:
        return None
    if facts.compressed:
        code = _T.VARCHAR_COMPRESSED if code == _T.VARCHAR else _T.BLOB_COMPRESSED
    real_type = {"enum": _T.ENUM, "set": _T.SET}.get(name, code)
    return TableMapColumn(
        code,
        _metadata(code, name, facts),
        real_type,
        nullable=bool(facts.nullable),
        vector_dimension=facts.dimension if code == _T.VECTOR else None,
    )


def _metadata(code: int, name: str, facts: Facts) -> bytes:
    """Return what a TABLE_MAP says of a type by its code."""
    if name in ENUMS:
        kind = _T.ENUM if name == "enum" else _T.SET
        return bytes((kind, pack_size(kind, len(facts.values or ("",)))))
    size = _PACKED_SIZES.get(name, facts.octets or 0)
    known: dict[int, tuple[int, ...]] = {
        _T.FLOAT: (4,),
        _T.DOUBLE: (8,),
        _T.NEWDECIMAL: (facts.precision or 0, facts.scale or 0),
        _T.BIT: ((facts.precision or 0) % 8, (facts.precision or 0) // 8),
        **dict.fromkeys((_T.TIME2, _T.DATETIME2, _T.TIMESTAMP2), (facts.fsp or 0,)),
        # Bits 8 and 9 of the length, inverted: see `real_type`.
        _T.STRING: (_T.STRING ^ (size & 0x300) >> 4, size & 0xFF),
        _T.VARCHAR: (size & 0xFF, size >> 8 & 0xFF),
        _T.VARCHAR_COMPRESSED: ((size + 1) & 0xFF, (size + 1) >> 8 & 0xFF),
        **dict.fromkeys(_WITH_LENGTHS, (_LENGTHS.get(name, _LENGTH_SIZE_MAX),)),
    }
    return bytes(known.get(code, ()))
