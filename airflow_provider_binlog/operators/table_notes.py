"""What differs in a lake from SELECT although nothing failed, as a line for the log of a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from airflow_provider_binlog.manifest import Manifest, Part
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.protected_columns import find_misspelled
from airflow_provider_binlog.schema import Schema, TableName
from airflow_provider_binlog.table_options import ColumnOptions

_SHOWN = 20


def describe_keyless(names: Collection[TableName]) -> str:
    """Return that tables have no key; empty if there are none."""
    if not names:
        return ""
    return (
        "no primary key, so that a lake table gets a row for each change in place of the table's "
        f"rows, unless TableOptions(key=...) names a key: {list_tables(names)}"
    )


def describe_replaced(replaced: Mapping[TableName, Mapping[str, int]]) -> str:
    """Return which values were staged as others, by table and column; empty if none were."""
    columns = [
        f"{join_table_name(name)}.{column} {count:,}"
        for name, counts in sorted(replaced.items())
        for column, count in sorted(counts.items())
    ]
    if not columns:
        return ""
    return (
        "staged as NULL (zero dates and invalid dates) or with U+FFFD (invalid byte sequences), "
        f"number of values by column: {_shorten(columns)}"
    )


def count_replaced(parts: Iterable[Part]) -> dict[str, int]:
    """Return how many values of some parts were staged as others, by column."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part.replaced)
    return dict(total)


def describe_staged(
    manifests: Iterable[Manifest], named: set[tuple[str, ...]] | None = None
) -> list[str]:
    """Return lines about the tables of some manifests that differ from SELECT.

    What is in `named`, by lines of earlier manifests, is left out; what these lines name is added.
    """
    earlier = set() if named is None else named

    def is_new(*what: str) -> bool:
        new = what not in earlier
        earlier.add(what)
        return new

    keyless: set[TableName] = set()
    replaced: dict[TableName, Counter[str]] = {}
    columns: tuple[ColumnOptions, ...] = ()
    schemas: dict[TableName, Schema] = {}
    for manifest in manifests:
        for table in manifest.tables:
            schema = table.state.schema
            if manifest.columns and schema is not None and not table.is_partial:
                columns, schemas[table.name] = manifest.columns, schema
            # Once: later ranges have the same schema.
            if table.changed and not table.dropped and schema is not None and not schema.key:
                keyless.add(table.name)
            for counts in (table.unrepresentable, table.invalid_text):
                replaced.setdefault(table.name, Counter()).update(counts)
    lines = (
        describe_keyless([name for name in keyless if is_new("key", *name)]),
        describe_replaced(
            {
                name: {
                    column: count
                    for column, count in counts.items()
                    if is_new("value", *name, column)
                }
                for name, counts in replaced.items()
            }
        ),
        describe_missing(
            columns, {name: of for name, of in schemas.items() if is_new("columns", *name)}
        ),
    )
    return [line for line in lines if line]


def describe_missing(
    options: Collection[ColumnOptions], schemas: Mapping[TableName, Schema]
) -> str:
    """Return a line about columns that the options of a table name, and that it lacks; or none."""
    missing = {name: find_misspelled(options, name, of.fields) for name, of in schemas.items()}
    tables = [f"{join_table_name(name)} ({', '.join(own)})" for name, own in missing.items() if own]
    if not tables:
        return ""
    return (
        "the options exclude or hash columns that their tables do not have: they are misspelled, "
        f"or not there yet, or the account does not see them: {_shorten(sorted(tables))}"
    )


def list_tables(names: Collection[TableName]) -> str:
    """Return tables as a text, the first ones of many."""
    return _shorten([join_table_name(name) for name in sorted(names)])


def _shorten(texts: list[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more
