"""BinlogSnapshotOperator: what it refuses before it reads anything."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog import BinlogSnapshotOperator, BinlogSource
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.operators.snapshot import read_chunk_range, read_table_name

SHOP = BinlogSource("shop", start="now")


@pytest.mark.parametrize("table", ["", "orders", ".orders", "shop.", None, 7])
def test_a_table_has_a_database_and_a_name(table: object) -> None:
    with pytest.raises(ConfigurationError, match="table is the name of one table"):
        read_table_name(table)


def test_a_name_may_contain_dots() -> None:
    assert read_table_name("shop.orders.2024") == ("shop", "orders.2024")


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"lock": "always"}, "lock is one of auto, none, brief"),
        ({"chunk_bytes": "much"}, "a limit is a positive number"),
        ({"limits": 5}, "limits are given as"),
        ({"source": BinlogSource("shop", start="now", files="/logs")}, "a snapshot reads a server"),
        ({"table": "orders"}, "table is the name"),
        ({"max_rows_per_second": 0}, "a limit is a positive number"),
        ({"max_threads_running": "20"}, "a limit is a positive number"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused(
    arguments: dict[str, Any], refusal: str
) -> None:
    defaults: dict[str, Any] = {"source": SHOP, "staging_path": "/s", "table": "shop.orders"}
    operator = BinlogSnapshotOperator(task_id="orders", **defaults | arguments)

    with pytest.raises(ConfigurationError, match=refusal):
        operator._take("a run")


@pytest.mark.parametrize("chunks", [{}, {"snapshot": "id", "first": "0", "stop": 1}, 5, None])
def test_chunks_are_those_that_were_shared(chunks: object) -> None:
    with pytest.raises(ConfigurationError, match="that a BinlogSnapshotChunksOperator returned"):
        read_chunk_range(chunks)
