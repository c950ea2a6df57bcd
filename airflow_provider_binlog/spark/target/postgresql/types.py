"""PostgreSQL's type of each column, and values as COPY reads them.

docs/postgresql.md has the types as a table. A column keeps a type that somebody else gave it, as
long as its own does not change: the values are then cast to it, a `json` to `jsonb` for example.
"""

from __future__ import annotations

import re

from airflow_provider_binlog.spark.names import quote_text

_TYPES = {
    "boolean": "boolean",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
    "array<float>": "real[]",
    "array<string>": "text[]",
}
# What planning takes a type for that somebody else chose.
_OTHERS = {
    "smallint": "int",
    "interval": "bigint",
    "json": "string",
    "jsonb": "string",
    "uuid": "string",
    "numeric": "string",
    "character varying": "string",
    "character": "string",
    "bit": "binary",
    "bit varying": "binary",
}
_SPARK_TYPES = {type_: spark for spark, type_ in _TYPES.items()} | _OTHERS
_WRITTEN = re.compile(r"(\w+)(?:\(([^)]*)\))?", re.ASCII)
_PARAMETERS = re.compile(r"\((\d+)(?:,(\d+))?\)", re.ASCII)
_SPARK_DIGITS_MAX = 38
_SPATIAL = frozenset(
    {
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
        *("multipolygon", "geomcollection", "geometrycollection"),
    }
)

NUL_REFUSED = "a text has a NUL character, which PostgreSQL does not hold"
"""Message of a value that is refused, before the name of its column."""

_HEX, _NULL = quote_text(r"\x"), quote_text(r"\N")
_NUL = r"'\0'"
_NULS = {
    "fail": f"if(instr({{0}}, {_NUL}) > 0, raise_error({{1}}), {{0}})",
    "strip": f"replace({{0}}, {_NUL}, '')",
    "replace": f"replace({{0}}, {_NUL}, '\ufffd')",
}


def column_type(spark_type: str, source_type: str | None) -> str:
    """Return the type of a column, as `format_type` prints it.

    Args:
        spark_type: The type in which the values are staged, as Spark reads them.
        source_type: The type at the source; None where it is not known.
    """
    name, parameters = _read_source(source_type)
    if spark_type == "bigint" and name == "time":
        return "interval"
    if spark_type == "string" and name == "json":
        return "json"
    if spark_type == "string" and name == "decimal":
        return f"numeric({parameters})"
    if spark_type == "binary" and name == "bit":
        return f"bit({parameters or 1})"
    if spark_type.startswith("decimal"):
        return spark_type.replace("decimal", "numeric", 1)
    return _TYPES[spark_type]


def spark_type(type_: str) -> str:
    """Return the type that planning takes a column for; an unknown one is none of Spark's."""
    name = " ".join(_PARAMETERS.sub("", type_).split())
    found = _PARAMETERS.search(type_)
    if name == "numeric" and found is not None and int(found[1]) <= _SPARK_DIGITS_MAX:
        return f"decimal({found[1]},{found[2] or 0})"
    return _SPARK_TYPES.get(name, type_)


def conversion(column: str, before: str, after: str) -> str:
    """Return the SQL of a quoted column's values in another type."""
    numbers = ("integer", "bigint", "real", "double precision", "numeric", "smallint")
    are_numbers = all(type_.partition("(")[0] in numbers for type_ in (before, after))
    return f"{column}::{after}" if are_numbers else f"{column}::text::{after}"


def value_text(value: str, type_: str, source_type: str | None, *, spark: str) -> str:
    """Return the Spark SQL of a value as PostgreSQL reads it as text; NULL stays NULL.

    `value` is the SQL of a value in Spark's type `spark`, `type_` is the column's.
    """
    name, parameters = _read_source(source_type)
    if type_ == "interval":
        return f"concat(CAST({value} AS string), ' microseconds')"
    if spark == "binary" and name == "bit" and type_.startswith("bit"):
        return f"lpad(conv(hex({value}), 16, 2), {int(parameters or 1)}, '0')"
    if spark == "binary" and name in _SPATIAL:
        return f"concat({_HEX}, {_ewkb(f'hex({value})')})"
    return _TEXTS.get(spark, "CAST({} AS string)").replace("{}", value)


def copied(text: str, *, is_text: bool) -> str:
    r"""Return the Spark SQL of a text as a field of COPY: escaped, `\N` for NULL."""
    escaped = _prefixed(text, ("\\", "\t", "\n", "\r")) if is_text else _prefixed(text, ("\\",))
    return f"coalesce({escaped}, {_NULL})"


def without_nul(value: str, column: str, policy: str) -> str:
    """Return the Spark SQL of a text without NUL characters, or that fails on them."""
    message = quote_text(f"{NUL_REFUSED} (column={column})")
    return _NULS[policy].format(value, message)


def _prefixed(text: str, characters: tuple[str, ...]) -> str:
    r"""Return SQL that puts a backslash before each of some characters, `\` the first of them."""
    for character in characters:
        before, after = quote_text(character), quote_text(f"\\{character}")
        text = f"replace({text}, {before}, {after})"
    return text


# Of texts in an array, which are names of columns, each is quoted.
_QUOTED = f"concat('\"', {_prefixed('x', (chr(92), chr(34)))}, '\"')"
_TEXTS = {
    "array<float>": "concat('{', array_join(CAST({} AS array<string>), ','), '}')",
    "array<string>": f"concat('{{', array_join(transform({{}}, x -> {_QUOTED}), ','), '}}')",
    "binary": f"concat({_HEX}, hex({{}}))",
    "string": "{}",
    "timestamp": "concat(CAST({} AS string), '+00')",
}


def _read_source(source_type: str | None) -> tuple[str, str]:
    match = _WRITTEN.match(source_type or "")
    return (match[1].lower(), match[2] or "") if match is not None else ("", "")


def _ewkb(digits: str) -> str:
    """Return the SQL of WKB with its SRID, in hexadecimal, of 4 bytes of SRID and then WKB.

    PostGIS names it so: a bit of the type says that an SRID follows. Without SRID it is WKB.
    """
    srid, rest = f"substring({digits}, 1, 8)", f"substring({digits}, 19)"
    marked = f"concat(substring({digits}, 9, 8), '20', {srid}, {rest})"
    return f"if({srid} = '00000000', substring({digits}, 9), {marked})"
