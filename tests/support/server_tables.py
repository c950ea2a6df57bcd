"""Tables as information_schema has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_provider_binlog.sql.columns import Facts, Key, PartialColumn, PartialSchema


def server_facts(data_type: str, **facts: Any) -> Facts:
    """Return what is known of a column; what is not given is as most columns have it."""
    usual = {"nullable": True, "visible": True}
    usual |= dict.fromkeys(("unsigned", "generated", "auto_increment"), False)
    return Facts(data_type, **(usual | facts))


def server_column(name: str, data_type: str = "int", **facts: Any) -> PartialColumn:
    """Return a column."""
    return PartialColumn(name, server_facts(data_type, **facts))


def server_table(*columns: PartialColumn) -> PartialSchema:
    """Return a table whose primary key is its first column, which is NOT NULL."""
    first, *others = columns
    keyed = replace(first, facts=replace(first.facts, nullable=False))
    key = Key(((first.name, 0),), primary=True, others=False)
    return PartialSchema((keyed, *others), key)
