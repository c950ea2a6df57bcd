"""Lake tables of a workplace beside those of the plain model."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.target.modes import choose_mode
from tests.unit.spark.plain_modes import PlainLakes

if TYPE_CHECKING:
    from airflow_provider_binlog.table_options import TableOptions
    from tests.unit.spark.history import Table
    from tests.unit.spark.workplace import Workplace


def expected_rows(table: Table, options: TableOptions) -> list[str]:
    """Return the rows that the lake table of a name is to have after all that was done."""
    plain = PlainLakes(choose_mode(options, keyed=True), options.track_columns)
    for event in table.source.events:
        plain.apply(event)
    return in_order(_as_text(plain.lakes[table.name].read()))


def found_rows(workplace: Workplace, table: Table) -> list[str]:
    """Return the rows of the lake table."""
    return in_order(_as_text(workplace.found(table)))


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows in an order and a form that can be compared."""
    return sorted(repr(sorted(row.items())) for row in rows)


def _as_text(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            name: f"{value:%F %T.%f}" if isinstance(value, datetime) else value
            for name, value in row.items()
        }
        for row in rows
    ]
