"""A TABLE_MAP completed by what is known of its table, if the two agree: columns, then tables.

Source: mysql-server, sql/log_event.cc, Table_map_log_event; MySQL 9.7 reference manual, 28.3.8 The
INFORMATION_SCHEMA COLUMNS Table; MariaDB documentation, Data Types.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.charsets import (
    BINARY,
    BINARY_COLLATION,
    COLLATIONS,
    MULTI_BYTE,
    UNICODE,
    charset_of,
    decode_text,
    single_byte_table,
)
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
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema_history.statements import Undeterminable
from airflow_provider_binlog.sql.columns import BLOBS as SQL_BLOBS
from airflow_provider_binlog.sql.columns import (
    BYTES,
    GEOMETRIES,
    NUMBERS,
    OWN_FORM,
    TEXTS,
    YEAR_OF_TWO_DIGITS,
    Facts,
    PartialSchema,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
    from airflow_provider_binlog.schema import Default
    from airflow_provider_binlog.sql.definitions import Definition


def facts_of(definition: Definition) -> Facts:
    """Return what a column's definition says of it for certain.

    The name of a type of text is not: its character set, or its length, may turn it into another.
    """
    of = definition.type
    if of is None:
        return Facts(
            generated=definition.generated,
            auto_increment=definition.auto_increment,
            visible=definition.visible,
        )
    charset: str | None = BINARY
    if of.name == "json":
        charset = "utf8mb4"  # MariaDB's is a LONGTEXT
    elif of.name not in BYTES | OWN_FORM:
        charset = of.charset if of.charset in COLLATIONS else None
    return Facts(
        data_type=None if of.is_text else of.name,
        unsigned=of.unsigned if of.name in NUMBERS else None,
        charset=charset,
        values=of.values,
        generated=definition.generated,
        auto_increment=definition.auto_increment,
        visible=definition.visible,
    )


_GEOMETRIES = {name: number for number, name in enumerate(GEOMETRIES)} | {"geometrycollection": 7}
_LENGTHS = TEXTS | SQL_BLOBS

# Data type -> the real types that a TABLE_MAP may have for it.
_CODES: dict[str, frozenset[int]] = {
    **{name: frozenset(code for code in NAMES if NAMES[code] == name) for name in NAMES.values()},
    **dict.fromkeys(("char", "binary", "inet4", "inet6", "uuid"), frozenset({ColumnType.STRING})),
    **dict.fromkeys(("varchar", "varbinary"), VARCHARS),
    "vector": VARCHARS | {ColumnType.VECTOR},
    "json": BLOBS | {ColumnType.JSON},
    **dict.fromkeys(_LENGTHS, BLOBS),
    **dict.fromkeys(_GEOMETRIES, frozenset({ColumnType.GEOMETRY})),
}
_BINARY_SIZES = {name: hidden.size for name, hidden in HIDDEN_TYPES.items() if hidden.size}
# By the size of a BINARY: the version of MariaDB from which on it may be a hidden type.
_SINCE = {
    size: min(hidden.since for hidden in HIDDEN_TYPES.values() if hidden.size == size)
    for size in _BINARY_SIZES.values()
}
_VECTOR_SINCE = HIDDEN_TYPES["vector"].since
_VECTOR_SIZE = 4


def mismatch(logged: TableMapColumn, facts: Facts) -> str | None:
    """Return what the log and the facts disagree about; None where they agree."""
    kind = logged.real_type
    if facts.data_type is not None:
        if facts.data_type not in _CODES:
            return f"a type that is not known here, {facts.data_type}"
        if kind not in _CODES[facts.data_type]:
            return f"{type_name(kind)} in the log, {facts.data_type} there"
    checks = (
        ("nullable", logged.nullable, facts.nullable),
        ("unsigned", logged.unsigned if kind != ColumnType.YEAR else None, facts.unsigned),
        ("size", *_sizes(logged, facts)),
        ("charset", _logged_charset(logged), facts.charset),
        ("geometry", logged.geometry_type, _GEOMETRIES.get(facts.data_type or "")),
    )
    for what, log, fact in checks:
        if log is not None and fact is not None and log != fact:
            return f"{what}: {log} in the log, {fact} there"
    return None


def _sizes(logged: TableMapColumn, facts: Facts) -> tuple[object, object]:
    """Return a measure of the type by the log, and the same by the facts."""
    kind = logged.real_type
    measures: tuple[object, object] = (None, None)
    if kind == ColumnType.NEWDECIMAL and facts.precision is not None:
        measures = (logged.precision, logged.scale), (facts.precision, facts.scale)
    elif kind == ColumnType.BIT:
        measures = logged.bits, facts.precision
    elif kind in FRACTIONAL:
        measures = logged.fsp, facts.fsp
    elif kind in ENUMS and facts.values is not None:
        measures = logged.pack_size, pack_size(kind, len(facts.values))
    elif kind in BLOBS:
        measures = logged.length_size, _LENGTHS.get(facts.data_type or "")
    elif kind in VARCHARS or kind == ColumnType.STRING:
        measures = logged.bytes_max, _BINARY_SIZES.get(facts.data_type or "", facts.octets)
    return measures


def pack_size(kind: int, count: int) -> int:
    """Return the bytes of a value. Source: sql/field.h, get_enum_pack_length and _set_."""
    if kind == ColumnType.ENUM:
        return 1 if count < 256 else 2
    size = (count + 7) // 8
    return 8 if size > 4 else size


def _logged_charset(logged: TableMapColumn) -> str | None:
    if logged.collation is None or not _has_charset(logged):
        return None
    return charset_of(logged.collation)


def _has_charset(logged: TableMapColumn) -> bool:
    kind = logged.real_type
    return kind in BLOBS or kind in VARCHARS or kind == ColumnType.STRING or kind in ENUMS


def complete(logged: TableMapColumn, name: str, facts: Facts, flavor: Flavor) -> TableMapColumn:
    """Return the column with what the facts say and the log does not."""
    kind = logged.real_type
    added: dict[str, object] = {}
    if logged.name is None:
        added["name"] = name
    if kind in NUMERIC and logged.unsigned is None:
        added["unsigned"] = True if kind == ColumnType.YEAR else facts.unsigned
    if _has_charset(logged) and logged.collation is None and facts.charset is not None:
        added["collation"] = _collation(facts.charset)
    if kind in ENUMS and facts.values is not None and facts.charset is not None:
        field = "enum_values" if kind == ColumnType.ENUM else "set_members"
        if getattr(logged, field) is None:
            added[field] = _encode_values(facts.values, facts.charset)
    if kind == ColumnType.GEOMETRY and logged.geometry_type is None:
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
    return replace(logged, **added)  # type: ignore[arg-type]


def mark_primary(
    columns: Sequence[TableMapColumn], key: Sequence[tuple[int, int]] | None
) -> list[TableMapColumn]:
    """Return the columns of a table, those of its primary key as such."""
    indexes = {index for index, _ in key or ()}
    return [
        replace(column, primary=True) if index in indexes else column
        for index, column in enumerate(columns)
    ]


def _default(logged: TableMapColumn, facts: Facts) -> Default | None:
    default = facts.default
    if default is None or facts.generated:
        return None
    return default if default.value is not None or logged.nullable else None


def missing(
    column: TableMapColumn, facts: Facts, flavor: Flavor, version: tuple[int, ...]
) -> str | None:
    """Return what it takes to read the column and is not known, even when completed; or None.

    Args:
        column: As `complete` returns it, or as it was logged.
        facts: From which it was completed.
        flavor: Of the server that wrote the log.
        version: Of that server.
    """
    kind = column.real_type
    needed = (
        ("name", True, column.name),
        ("signedness", kind in NUMERIC, column.unsigned),
        ("character set", _has_charset(column), column.collation),
        ("enum values", kind == ColumnType.ENUM, column.enum_values),
        ("set members", kind == ColumnType.SET, column.set_members),
        ("geometry type", kind == ColumnType.GEOMETRY, column.geometry_type),
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
    if column.data_type is not None or column.collation not in (None, BINARY_COLLATION):
        return False
    if column.real_type == ColumnType.STRING:
        since = _SINCE.get(column.bytes_max)
        return since is not None and version >= since
    vector = column.type_code == ColumnType.VARCHAR and column.bytes_max % _VECTOR_SIZE == 0
    return vector and column.bytes_max > 0 and version >= _VECTOR_SINCE


def is_old_temporal(column: TableMapColumn) -> bool:
    """Whether it is a TIME, DATETIME or TIMESTAMP in the format from before MySQL 5.6."""
    return column.real_type in OLD_TEMPORALS


@cache
def _collation(charset: str) -> int | None:
    """Return some collation of a character set: which one it is makes no difference here."""
    if charset == BINARY:
        return BINARY_COLLATION
    ranges = COLLATIONS.get(charset)
    return None if ranges is None else int(ranges.split(",")[0].split("-")[0])


def _encode_values(values: tuple[str, ...], charset: str) -> tuple[bytes, ...] | None:
    """Return them as a TABLE_MAP has them; None if one is invalid in the character set."""
    try:
        encoded = tuple(_encode(value, charset) for value in values)
        if charset == BINARY:
            return encoded
        same = tuple(decode_text(each, charset) for each in encoded) == values
    except (BinlogError, ValueError, KeyError):
        return None
    return encoded if same else None


def _encode(value: str, charset: str) -> bytes:
    if charset == BINARY:
        return value.encode("ascii")
    table = single_byte_table(charset)
    if table is not None:
        return bytes(map(table.index, value))
    codec = UNICODE[charset][0] if charset in UNICODE else MULTI_BYTE[charset][0]
    return value.encode(codec)


# ------------------------------------------------------------------- whole tables


def is_complete(table_map: TableMap, flavor: Flavor, version: tuple[int, ...]) -> bool:
    """Whether a TABLE_MAP that names its columns says all that it takes to read its rows."""
    return flavor is Flavor.MYSQL or not any(
        is_old_temporal(column) or may_be_another_type(column, version)
        for column in table_map.columns
    )


def selects_otherwise(schema: PartialSchema | Undeterminable | None) -> bool:
    """Whether SELECT may return other values of a table than the log has, whatever that says."""
    return isinstance(schema, PartialSchema) and any(
        column.facts.data_type == YEAR_OF_TWO_DIGITS for column in schema.columns
    )


def lacks_defaults(schema: PartialSchema) -> bool:
    """Whether the default of a column is not known that an insert may leave out."""
    return any(
        column.facts.default is None
        and not column.facts.generated
        and not column.facts.auto_increment
        for column in schema.columns
    )


def joined(known: PartialSchema, shown: PartialSchema) -> PartialSchema:
    """Return a known schema with what information_schema shows besides, of the same columns."""
    if [fold_name(name) for name in known.names] != [fold_name(name) for name in shown.names]:
        return known
    pairs = zip(known.columns, shown.columns, strict=True)
    columns = tuple(replace(mine, facts=mine.facts.joined(its.facts)) for mine, its in pairs)
    return replace(known, columns=columns)


def complete_table_map(
    table_map: TableMap, schema: PartialSchema, *, flavor: Flavor, version: tuple[int, ...]
) -> TableMap | Undeterminable:
    """Return the TABLE_MAP with all that the log leaves out.

    Args:
        table_map: As it was logged.
        schema: Of the table, by anything but the TABLE_MAP.
        flavor: Of the server that wrote the log.
        version: Of that server.
    """
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


def _without_hidden(table_map: TableMap, schema: PartialSchema) -> TableMap:
    """Return a TABLE_MAP without names, which has hidden columns like any others, without these."""
    shown, hidden = (
        table_map.columns[: len(schema.columns)],
        table_map.columns[len(schema.columns) :],
    )
    numbers = all(
        each.real_type == ColumnType.LONGLONG and each.unsigned is not False for each in hidden
    )
    if not hidden or table_map.has_names or len(hidden) != schema.hidden or not numbers:
        return table_map
    return replace(table_map, columns=shown, hidden=len(hidden))


def _misfit(table_map: TableMap, schema: PartialSchema) -> str | None:
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


def _key(schema: PartialSchema) -> tuple[tuple[int, int], ...] | Undeterminable | None:
    if schema.key is None:
        return Undeterminable("a statement may have changed its key")
    offsets = {fold_name(column.name): index for index, column in enumerate(schema.columns)}
    key = []
    for name, prefix in schema.key.columns:
        if fold_name(name) not in offsets:
            return Undeterminable(f"its key has a column {name}, and it has none")
        key.append((offsets[fold_name(name)], prefix))
    return tuple(key) or None
