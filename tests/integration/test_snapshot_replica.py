"""Snapshots that are read from a replica, while the log is captured at its source."""

from __future__ import annotations

import math
from contextlib import closing

import pytest

from airflow_provider_binlog.spark.reload.plan import find_first, is_reached
from airflow_provider_binlog.transport.server.queries import replica_lag
from tests.fixtures.mysql import execute
from tests.integration.test_failover import TABLES, Capture, Pair, pair
from tests.support.ranges import Staged
from tests.support.snapshots import fold, read_parts, rows_of, take

__all__ = ["pair"]

pytestmark = pytest.mark.server


@pytest.mark.parametrize(
    "pair", ["mysql97", pytest.param("mariadb118", marks=pytest.mark.slow)], indirect=True
)
def test_a_snapshot_of_a_replica_is_compared_by_its_gtids(pair: Pair) -> None:
    source = pair.source
    execute(source.server, "CREATE DATABASE shop")
    capture = Capture(source)
    rows = ", ".join(f"({number}, 'first')" for number in range(200))
    source.execute(*TABLES, f"INSERT INTO t VALUES {rows}")
    first = capture.run(source.server)
    source.execute("UPDATE t SET a = 'second' WHERE id < 50", "DELETE FROM t WHERE id = 3")
    pair.catch_up()

    taken = take(pair.replica, "t", capture.store, chunk_bytes=1024)
    source.execute("UPDATE t SET a = 'third' WHERE id BETWEEN 40 AND 60")
    second = capture.run(source.server)

    snapshot = taken
    assert snapshot.identity != second.identity
    assert not is_reached(snapshot, first)
    assert is_reached(snapshot, second)
    assert find_first(snapshot, [second, first]) == second.sequence
    staged = Staged(second, capture.store)
    changes = [row for table in second.tables for row in staged.rows(table)]
    found = fold(rows_of(read_parts(capture.store, snapshot.parts)), changes, ("id",))
    assert {(row["id"], row["a"]) for row in found.values()} == {*source.query("SELECT * FROM t")}

    with closing(pair.replica.connect()) as connection:
        assert replica_lag(connection) is not None
        pair.replicate("STOP")
        assert replica_lag(connection) == math.inf
