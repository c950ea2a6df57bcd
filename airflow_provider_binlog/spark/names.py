"""Names between three worlds: MySQL, which takes anything, Spark's SQL, and a store's paths."""

from __future__ import annotations

from string import Formatter

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import encode_name, quote_identifier
from airflow_provider_binlog.table_options import TableRules

_FIELDS = {"database", "table"}


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
    template = options.of((database, table)).target
    if format_ == "iceberg":
        name = catalog_name(template or "{database}.{table}", database=database, table=table)
        return f"{quote_identifier(lake)}.{name}"
    if template is not None:
        return catalog_name(template, database=database, table=table)
    path = f"{lake.rstrip('/')}/{encode_name(database)}/{encode_name(table)}"
    return f"delta.{quote_identifier(path)}"


def catalog_name(template: str, *, database: str, table: str) -> str:
    """Return the quoted name of a table in a catalog, `template` filled in.

    The template's dots separate the parts of the name. The names that fill it are encoded first, so
    that none brings a dot or a slash of its own.

    Raises:
        ConfigurationError: The template names anything but `{database}` and `{table}`, or has an
            empty part.
    """
    try:
        fields = {field for _, field, _, _ in Formatter().parse(template) if field is not None}
    except ValueError as error:
        raise ConfigurationError("not a template of a table's name", template=template) from error
    if not fields <= _FIELDS:
        raise ConfigurationError(
            "the fields of a table's name are {database} and {table}", template=template
        )
    # A dot in an encoded name would end a part of the identifier.
    names = {
        "database": encode_name(database).replace(".", "%2E"),
        "table": encode_name(table).replace(".", "%2E"),
    }
    parts = [part.format(**names) for part in template.split(".")]
    if not all(parts):
        raise ConfigurationError("a part of the table's name is empty", template=template)
    return ".".join(map(quote_identifier, parts))
