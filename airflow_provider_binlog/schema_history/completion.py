"""A TABLE_MAP completed by what is known of its table, if the two agree; or made of it alone.

Source: mysql-server, sql/log_event.cc, Table_map_log_event, libs/mysql/binlog/event/rows_event.h,
Table_map_event (metadata by type), and sql/field.cc, Field::save_field_metadata of each type;
mariadb, sql/field.cc; MySQL 9.7 reference manual, 28.3.8 The INFORMATION_SCHEMA COLUMNS Table;
MariaDB documentation, Data Types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from airflow_provider_binlog.binlog import charsets
from airflow_provider_binlog.binlog.column_types import (
    BLOBS,
    ENUMS,
    FRACTIONAL,
    HIDDEN_TYPES,
    NAMES,
    NUMERIC,
    OLD_TEMPORALS,
    VARCHARS,
    ColumnType,
    type_name,
)
from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
from airflow_provider_binlog.errors import BinlogError, UnsupportedError
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import Default, TableName
from airflow_provider_binlog.schema_history.statements import Undeterminable
from airflow_provider_binlog.sql import columns as sql

_T = ColumnType
_GEOMETRIES = {name: number for number, name in enumerate(sql.GEOMETRIES)} | {
    "geometrycollection": 7
}
_LENGTHS = sql.TEXTS | sql.BLOBS

# Data type -> the real types that a TABLE_MAP may have for it.
_CODES: dict[str, frozenset[int]] = {
    **{name: frozenset(code for code in NAMES if NAMES[code] == name) for name in NAMES.values()},
    **dict.fromkeys(("char", "binary", "inet4", "inet6", "uuid"), frozenset({_T.STRING})),
    **dict.fromkeys(("varchar", "varbinary"), VARCHARS),
    "vector": VARCHARS | {_T.VECTOR},
    "json": BLOBS | {_T.JSON},
    **dict.fromkeys(_LENGTHS, BLOBS),
    **dict.fromkeys(_GEOMETRIES, frozenset({_T.GEOMETRY})),
}
_BINARY_SIZES = {name: hidden.size for name, hidden in HIDDEN_TYPES.items() if hidden.size}
# By the size of a BINARY: the version of MariaDB from which on it may be a hidden type.
_SINCE = {
    size: min(hidden.since for hidden in HIDDEN_TYPES.values() if hidden.size == size)
    for size in _BINARY_SIZES.values()
}
_VECTOR_SINCE = HIDDEN_TYPES["vector"].since
_VECTOR_SIZE = 4


def mismatch(logged: TableMapColumn, facts: sql.Facts) -> str | None:
    """Return what the log and the facts disagree about; None where they agree."""
    kind = logged.real_type
    if facts.data_type is not None:
        if facts.data_type not in _CODES:
            return f"a type that is not known here, {facts.data_type}"
        if kind not in _CODES[facts.data_type]:
            return f"{type_name(kind)} in the log, {facts.data_type} there"
    checks = (
        ("nullable", logged.nullable, facts.nullable),
        ("unsigned", logged.unsigned if kind != _T.YEAR else None, facts.unsigned),
        ("size", *_sizes(logged, facts)),
        ("charset", _logged_charset(logged), facts.charset),
        ("geometry", logged.geometry_type, _GEOMETRIES.get(facts.data_type or "")),
    )
    for what, log, fact in checks:
        if log is not None and fact is not None and log != fact:
            return f"{what}: {log} in the log, {fact} there"
    return None


def _sizes(logged: TableMapColumn, facts: sql.Facts) -> tuple[object, object]:
    """Return a measure of the type by the log, and the same by the facts."""
    kind = logged.real_type
    measures: tuple[object, object] = (None, None)
    if kind == _T.NEWDECIMAL and facts.precision is not None:
        measures = (logged.precision, logged.scale), (facts.precision, facts.scale)
    elif kind == _T.BIT:
        measures = logged.bits, facts.precision
    elif kind in FRACTIONAL:
        measures = logged.fsp, facts.fsp
    elif kind in ENUMS and facts.values:
        measures = logged.pack_size, pack_size(kind, len(facts.values))
    elif kind in BLOBS:
        measures = logged.length_size, _LENGTHS.get(facts.data_type or "")
    elif kind in VARCHARS or kind == _T.STRING:
        measures = logged.bytes_max, _BINARY_SIZES.get(facts.data_type or "", facts.octets)
    return measures


def pack_size(kind: int, count: int) -> int:
    """Return the bytes of a value. Source: sql/field.h, get_enum_pack_length and _set_."""
    if kind == _T.ENUM:
        return 1 if count < 256 else 2
    size = (count + 7) // 8
    return 8 if size > 4 else size


def _logged_charset(logged: TableMapColumn) -> str | None:
    if logged.collation is None or not _has_charset(logged):
        return None
    return charsets.charset_of(logged.collation)


def _has_charset(logged: TableMapColumn) -> bool:
    kind = logged.real_type
    return kind in BLOBS or kind in VARCHARS or kind == _T.STRING or kind in ENUMS


def complete(logged: TableMapColumn, name: str, facts: sql.Facts, flavor: Flavor) -> TableMapColumn:
    """Return the column with what the facts say and the log does not."""
    kind = logged.real_type
    added: dict[str, object] = {}
    if logged.name is None:
        added["name"] = name
    if kind in NUMERIC and logged.unsigned is None:
        added["unsigned"] = True if kind == _T.YEAR else facts.unsigned
    if _has_charset(logged) and logged.collation is None and facts.charset is not None:
        added["collation"] = _collation(facts.charset)
    if kind in ENUMS and facts.values is not None and facts.charset is not None:
        field = "enum_values" if kind == _T.ENUM else "set_members"
        if getattr(logged, field) is None:
            added[field] = _encode_values(facts.values, facts.charset)
    if kind == _T.GEOMETRY and logged.geometry_type is None:
        added["geometry_type"] = _GEOMETRIES.get(facts.data_type or "")
    if kind in OLD_TEMPORALS:
        added["datetime_precision"] = 0 if flavor is Flavor.MYSQL else facts.fsp
    if logged.visible is None and flavor is Flavor.MYSQL:
        added["visible"] = facts.visible
    if flavor is Flavor.MARIADB and facts.data_type in HIDDEN_TYPES:
        added["data_type"] = facts.data_type
    added["generated"] = facts.generated
    added["auto_increment"] = facts.auto_increment
    added["default"] = _default(logged, facts)
    added["comment"] = facts.comment
    return replace(logged, **added)  # type: ignore[arg-type]


def mark_primary(
    columns: Sequence[TableMapColumn], key: Sequence[tuple[int, int]] | None
) -> list[TableMapColumn]:
    """Return the columns of a table, those of its primary key as such."""
    indexes = {index for index, _ in key or ()}
    return [replace(c, primary=True) if i in indexes else c for i, c in enumerate(columns)]


def _default(logged: TableMapColumn, facts: sql.Facts) -> Default | None:
    default = None if facts.generated else facts.default
    fits = default is not None and (default.value is not None or logged.nullable)
    return default if fits else None


def missing(
    column: TableMapColumn, facts: sql.Facts, flavor: Flavor, version: tuple[int, ...]
) -> str | None:
    """Return what it takes to read the column and is not known, even when completed; or None.

    `column` is as `complete` returns it, or as it was logged; `version` is of the server.
    """
    kind = column.real_type
    needed = (
        ("name", True, column.name),
        ("signedness", kind in NUMERIC, column.unsigned),
        ("character set", _has_charset(column), column.collation),
        ("enum values", kind == _T.ENUM, column.enum_values),
        ("set members", kind == _T.SET, column.set_members),
        ("geometry type", kind == _T.GEOMETRY, column.geometry_type),
    )
    for what, applies, value in needed:
        if applies and value is None:
            return what
    if flavor is Flavor.MARIADB:
        if kind in OLD_TEMPORALS and column.datetime_precision is None:
            return "digits of a fraction of a second"
        if facts.data_type is None and may_be_another_type(column, version):
            return "data type"
    return None


def may_be_another_type(column: TableMapColumn, version: tuple[int, ...]) -> bool:
    """Whether a column of MariaDB may be of a type that the log shows as another one."""
    if column.data_type is not None or column.collation not in (None, charsets.BINARY_COLLATION):
        return False
    if column.real_type == _T.STRING:
        since = _SINCE.get(column.bytes_max)
        return since is not None and version >= since
    vector = column.type_code == _T.VARCHAR and column.bytes_max % _VECTOR_SIZE == 0
    return vector and column.bytes_max > 0 and version >= _VECTOR_SINCE


@cache
def _collation(charset: str) -> int | None:
    """Return some collation of a character set: which one it is makes no difference here."""
    if charset == charsets.BINARY:
        return charsets.BINARY_COLLATION
    ranges = charsets.COLLATIONS.get(charset)
    return None if ranges is None else int(ranges.split(",")[0].split("-")[0])


def _encode_values(values: tuple[str, ...], charset: str) -> tuple[bytes, ...] | None:
    """Return them as a TABLE_MAP has them; None if one is invalid in the character set."""
    try:
        encoded = tuple(_encode(value, charset) for value in values)
        if charset == charsets.BINARY:
            return encoded
        same = tuple(charsets.decode_text(value, charset) for value in encoded) == values
    except (BinlogError, ValueError, KeyError):
        return None
    return encoded if same else None


def _encode(value: str, charset: str) -> bytes:
    if charset == charsets.BINARY:
        return value.encode("ascii")
    table = charsets.single_byte_table(charset)
    if table is not None:
        return bytes(map(table.index, value))
    codec = (
        charsets.UNICODE[charset][0]
        if charset in charsets.UNICODE
        else charsets.MULTI_BYTE[charset][0]
    )
    return value.encode(codec)


# ------------------------------------------------------------------- whole tables


def is_complete(table_map: TableMap, flavor: Flavor, version: tuple[int, ...]) -> bool:
    """Whether a TABLE_MAP that names its columns says all that it takes to read its rows."""
    return flavor is Flavor.MYSQL or not any(
        column.real_type in OLD_TEMPORALS or may_be_another_type(column, version)
        for column in table_map.columns
    )


def selects_otherwise(schema: sql.PartialSchema | Undeterminable | None) -> bool:
    """Whether SELECT may return other values of a table than the log has, whatever that says."""
    return isinstance(schema, sql.PartialSchema) and any(
        column.facts.data_type == sql.YEAR_OF_TWO_DIGITS for column in schema.columns
    )


def lacks_defaults(schema: sql.PartialSchema) -> bool:
    """Whether the default of a column is not known that an insert may leave out."""
    all_facts = (column.facts for column in schema.columns)
    return any(f.default is None and not f.generated and not f.auto_increment for f in all_facts)


def joined(known: sql.PartialSchema, shown: sql.PartialSchema) -> sql.PartialSchema:
    """Return a known schema with what information_schema shows besides, of the same columns."""
    if [fold_name(name) for name in known.names] != [fold_name(name) for name in shown.names]:
        return known
    pairs = zip(known.columns, shown.columns, strict=True)
    columns = tuple(replace(mine, facts=mine.facts.joined(its.facts)) for mine, its in pairs)
    return replace(known, columns=columns)


def complete_table_map(
    table_map: TableMap, schema: sql.PartialSchema, *, flavor: Flavor, version: tuple[int, ...]
) -> TableMap | Undeterminable:
    """Return the TABLE_MAP with all that the log leaves out; `version` is of the server."""
    table_map = _without_hidden(table_map, schema)
    reason = _misfit(table_map, schema)
    if reason is not None:
        return Undeterminable(reason)
    columns = []
    for logged, column in zip(table_map.columns, schema.columns, strict=True):
        completed = complete(logged, column.name, column.facts, flavor)
        lacking = missing(completed, column.facts, flavor, version)
        if lacking is not None:
            return Undeterminable(f"nothing says the {lacking} of column {column.name}")
        columns.append(completed)
    key = table_map.primary_key if table_map.has_names else _key(schema)
    if isinstance(key, Undeterminable):
        return key
    if schema.key is not None and schema.key.primary:
        columns = mark_primary(columns, key)
    return replace(table_map, columns=tuple(columns), primary_key=key)


def _without_hidden(table_map: TableMap, schema: sql.PartialSchema) -> TableMap:
    """Return a TABLE_MAP without names, which has hidden columns like any others, without these."""
    count = len(schema.columns)
    shown, hidden = table_map.columns[:count], table_map.columns[count:]
    numbers = all(
        column.real_type == _T.LONGLONG and column.unsigned is not False for column in hidden
    )
    if not hidden or table_map.has_names or len(hidden) != schema.hidden or not numbers:
        return table_map
    return replace(table_map, columns=shown, hidden=len(hidden))


def _misfit(table_map: TableMap, schema: sql.PartialSchema) -> str | None:
    """Return what the log contradicts."""
    if len(schema.columns) != len(table_map.columns):
        return f"{len(table_map.columns)} columns in the log, {len(schema.columns)} there"
    for logged, column in zip(table_map.columns, schema.columns, strict=True):
        if logged.name is not None and logged.name != column.name:
            return f"a column {logged.name} in the log, {column.name} there"
        differs = mismatch(logged, column.facts)
        if differs is not None:
            return f"column {column.name}: {differs}"
    return None


def _key(schema: sql.PartialSchema) -> tuple[tuple[int, int], ...] | Undeterminable | None:
    if schema.key is None:
        return Undeterminable("a statement may have changed its key")
    offsets = {fold_name(column.name): index for index, column in enumerate(schema.columns)}
    key = []
    for name, prefix in schema.key.columns:
        if fold_name(name) not in offsets:
            return Undeterminable(f"its key has a column {name}, and it has none")
        key.append((offsets[fold_name(name)], prefix))
    return tuple(key) or None


# ------------------------------------------------------------------- made of information_schema

_LENGTH_SIZE_MAX = 4
_WITH_LENGTHS = (_T.BLOB, _T.BLOB_COMPRESSED, _T.JSON, _T.GEOMETRY, _T.VECTOR)
_TYPE_CODES = {
    **{NAMES[code]: code for code in NAMES},
    "date": _T.DATE,
    "time": _T.TIME2,
    "datetime": _T.DATETIME2,
    "timestamp": _T.TIMESTAMP2,
    **dict.fromkeys(("enum", "set", "char", "binary", *_BINARY_SIZES), _T.STRING),
    **dict.fromkeys(("varchar", "varbinary"), _T.VARCHAR),
    **dict.fromkeys(_LENGTHS, _T.BLOB),
    **dict.fromkeys((*sql.GEOMETRIES, "geometrycollection"), _T.GEOMETRY),
}


def describe(
    name: TableName, schema: sql.PartialSchema, flavor: Flavor, version: tuple[int, ...]
) -> TableMap:
    """Return the TABLE_MAP of a table that information_schema describes.

    So a table that is read with SELECT has the same schema, types and conversions as in the log.

    Raises:
        UnsupportedError: The type of a column is not known here, or information_schema does not say
            all that it takes to read it.
    """
    columns = []
    for column in schema.columns:
        facts = column.facts
        if facts.data_type in sql.ENUMS and facts.values is None:
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
    key = tuple((offsets[column], prefix) for column, prefix in parts)
    if schema.key is not None and schema.key.primary:
        columns = mark_primary(columns, key)
    return TableMap(0, 0, *name, tuple(columns), key or None)


def _describe(facts: sql.Facts, flavor: Flavor) -> TableMapColumn | None:
    """Return a column as a TABLE_MAP without optional metadata has it."""
    name = facts.data_type or ""
    code: int | None = _TYPE_CODES.get(name)
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


def _metadata(code: int, name: str, facts: sql.Facts) -> bytes:
    """Return what a TABLE_MAP says of a type by its code."""
    if name in sql.ENUMS:
        kind = _T.ENUM if name == "enum" else _T.SET
        return bytes((kind, pack_size(kind, len(facts.values or ("",)))))
    size = _BINARY_SIZES.get(name, facts.octets or 0)
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
