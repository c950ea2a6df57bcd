"""Random options of tables, and the rows that a lake table with them has of its source's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.target.modes import DELETED_AT, END, TableMode
from airflow_provider_binlog.table_options import TableOptions, TableRules

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random


# Those of tables that are renamed may be others afterwards.
_SOME_TABLES = ("*.orders*", "*.from*", "*.a/b*")


def draw_options(random: Random) -> TableRules:
    """Return options of all tables, or of some of them others."""
    globs = ("*", *(_SOME_TABLES if random.random() < 0.5 else ()))
    return TableRules({glob: _draw(random) for glob in globs})


def _draw(random: Random) -> TableOptions:
    mode = random.choice(["current", "current", "history", "multiset"])
    deletes = random.choice(["hard", "soft", "ignore"])
    return TableOptions(
        mode=mode,
        # A multiset has neither others nor metadata.
        deletes=deletes if mode == "current" else "hard",
        metadata=mode != "multiset" and random.random() < 0.5,
        prefix=random.choice([None, "cdc_"]),
        track_columns=random.choice([None, ("n",)]) if mode == "history" else None,
        comments=random.random() < 0.5,
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
