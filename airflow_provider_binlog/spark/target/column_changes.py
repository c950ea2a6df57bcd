"""The ALTER TABLE statements that evolve a lake table, in an order in which no name is taken."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from airflow_provider_binlog.spark.target import sql as merge_sql

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from airflow_provider_binlog.spark.plan.evolution import Evolution


def alter_statements(target: str, columns: Iterable[str], evolution: Evolution) -> list[str]:
    """Return the statements.

    A dropped column is dropped last, so that the table always has one; until then another column
    may need its name. One that gives its name to another, or changes its case, takes a free name
    in between.

    Args:
        target: The table's name, quoted.
        columns: Names of the columns that it has.
        evolution: How it has to change.
    """
    names = set(columns)
    taken = {name.lower() for name in (*names, *evolution.renamed.values(), *evolution.added)}
    free = filter(lambda name: name not in taken, map("_column_{}".format, count(1)))
    statements, dropped = [], []
    needed = {name.lower() for name in (*evolution.renamed.values(), *evolution.added)}

    def rename(old: str, new: str) -> None:
        statements.append(merge_sql.rename_column(target, old, new))
        names.remove(old)
        names.add(new)

    for name in evolution.dropped:
        if name.lower() in needed:
            aside = next(free)
            rename(name, aside)
            dropped.append(aside)
        else:
            dropped.append(name)
    pending = dict(evolution.renamed)
    while pending:
        old = _find_free(pending, names)
        if old is None:
            old, new = next(iter(pending.items()))
            aside = next(free)
            rename(old, aside)
            del pending[old]
            pending[aside] = new
        else:
            rename(old, pending.pop(old))
    for name, type_ in evolution.widened.items():
        statements.append(merge_sql.change_type(target, name, type_))
    if evolution.added:
        statements.append(merge_sql.add_columns(target, evolution.added))
    if dropped:
        statements.append(merge_sql.drop_columns(target, dropped))
    return statements


def _find_free(pending: dict[str, str], names: Collection[str]) -> str | None:
    """Return a column whose new name no column has."""
    taken = {name.lower() for name in names}
    return next((old for old, new in pending.items() if new.lower() not in taken), None)
