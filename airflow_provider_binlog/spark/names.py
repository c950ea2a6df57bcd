"""Names between three worlds: MySQL, which takes anything, Spark's SQL, and a store's paths."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from string import Formatter

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import encode_name, quote_identifier
from airflow_provider_binlog.table_options import TableRules

_FIELDS = {"database", "table"}

_POSTGRESQL_BYTES_MAX = 63
_HASH_DIGITS = 8
_QUOTE = '"'
# Columns that every table of PostgreSQL has.
_SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})


def quote_text(text: str) -> str:
    """Return `text` as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def is_folder(target: str) -> bool:
    """Whether the quoted name of a table is that of a folder, and of no table in a catalog."""
    return target.startswith("delta.`")


def target_name(format_: str, lake: str, options: TableRules, database: str, table: str) -> str:
    """Return the quoted name of the lake table that follows a table of the source.

    `lake` is Iceberg's catalog, or the folder of Delta's tables that `options` do not name.
    """
    if format_ == "postgresql":
        return postgresql_name(options, database, table)
    template = options.of((database, table)).target
    if format_ == "iceberg":
        name = catalog_name(template or "{database}.{table}", database=database, table=table)
        return f"{quote_identifier(lake)}.{name}"
    if template is not None:
        return catalog_name(template, database=database, table=table)
    path = f"{lake.rstrip('/')}/{encode_name(database)}/{encode_name(table)}"
    return f"delta.{quote_identifier(path)}"


def postgresql_name(options: TableRules, database: str, table: str) -> str:
    """Return the quoted name of the table of PostgreSQL that follows a table of the source.

    Raises:
        ConfigurationError: The options do not name a schema and a table.
    """
    template = options.of((database, table)).target or "{database}.{table}"
    parts = _fill(template, {"database": database, "table": table})
    if len(parts) != 2:
        raise ConfigurationError(
            "the name of a table in PostgreSQL is that of a schema, a dot and that of the table",
            template=template,
        )
    return ".".join(f'"{shorten_name(part).replace(_QUOTE, 2 * _QUOTE)}"' for part in parts)


def shorten_name(name: str) -> str:
    """Return a name of at most 63 bytes, which PostgreSQL would truncate without a word.

    A longer one ends in `~` and a hash of the whole; so does one that every table has a column of.
    """
    data = name.encode()
    if len(data) <= _POSTGRESQL_BYTES_MAX and name not in _SYSTEM_COLUMNS:
        return name
    start = data[: _POSTGRESQL_BYTES_MAX - _HASH_DIGITS - 1].decode(errors="ignore")
    return f"{start}~{hashlib.sha256(data).hexdigest()[:_HASH_DIGITS]}"


def catalog_name(template: str, *, database: str, table: str) -> str:
    """Return the quoted name of a table in a catalog, `template` filled in.

    The template's dots separate the parts of the name. The names that fill it are encoded first, so
    that none brings a dot or a slash of its own.

    Raises:
        ConfigurationError: The template names anything but `{database}` and `{table}`, or has an
            empty part.
    """
    # A dot in an encoded name would end a part of the identifier.
    names = {
        "database": encode_name(database).replace(".", "%2E"),
        "table": encode_name(table).replace(".", "%2E"),
    }
    return ".".join(map(quote_identifier, _fill(template, names)))


def _fill(template: str, names: Mapping[str, str]) -> list[str]:
    """Return the parts of a name, filled in; see `catalog_name`."""
    try:
        fields = {field for _, field, _, _ in Formatter().parse(template) if field is not None}
    except ValueError as error:
        raise ConfigurationError("not a template of a table's name", template=template) from error
    if not fields <= _FIELDS:
        raise ConfigurationError(
            "the fields of a table's name are {database} and {table}", template=template
        )
    parts = [part.format(**names) for part in template.split(".")]
    if not all(parts):
        raise ConfigurationError("a part of the table's name is empty", template=template)
    return parts
