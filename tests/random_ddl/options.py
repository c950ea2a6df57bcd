"""Random options of tables, and the rows that a lake table with them has of its source's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.target.modes import DELETED_AT, END, TableMode
from airflow_provider_binlog.table_options import TableOptions, TableRules

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random


def draw_options(random: Random) -> TableRules:
    """Return options of all tables: a renamed one has those that it had."""
    mode = random.choice(["current", "history", "multiset"])
    return TableRules(
        {
            "*": TableOptions(
                mode=mode,
                deletes=None if mode == "history" else random.choice([None, "hard", "soft"]),
                # A multiset has neither.
                metadata=None if mode == "multiset" else random.choice([None, True]),
                prefix=random.choice([None, "cdc_"]),
            )
        }
    )


def living_rows(lake: Mapping[str, list[Any]], mode: TableMode) -> dict[str, list[Any]]:
    """Return the columns that the source has, of rows that are neither deleted nor replaced."""
    ends = [lake[mode.names[of]] for of in (DELETED_AT, END) if of in mode.names]
    return {
        name: [
            value for number, value in enumerate(values) if all(end[number] is None for end in ends)
        ]
        for name, values in lake.items()
        if name not in mode.names.values()
    }
