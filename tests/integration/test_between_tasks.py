"""DDL between any two tasks of the one-call DAG: each table ends equal to SELECT, or is named."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from tests.random_ddl.between_tasks import open_dag
from tests.random_ddl.one_call import SEAMS
from tests.random_ddl.seam_statements import KINDS, Case
from tests.unit.spark.session import shared_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fixtures.mysql import Database
    from tests.services.servers import Server


_ROWS = 12


@pytest.mark.server
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "seam",
    [
        pytest.param(seam, marks=() if seam in ("chunk", "merge") else pytest.mark.slow)
        for seam in SEAMS
    ],
)
@pytest.mark.parametrize("state", ["new", pytest.param("stale", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kinds",
    [
        ("mysql97", "memory"),
        *(
            pytest.param(kinds, marks=[pytest.mark.slow, pytest.mark.spark])
            for kinds in product(("mysql97", "mariadb118"), ("memory", "iceberg", "delta"))
            if kinds != ("mysql97", "memory")
        ),
    ],
    ids="-".join,
)
def test_every_statement_before_a_task(
    kinds: tuple[str, str],
    state: str,
    seam: str,
    *,
    create_database: Callable[[Server], Database],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    server, format_ = kinds
    database = create_database(request.getfixturevalue(server))
    dropped = create_database(database.server)
    cases = [Case(each, f"{each}_t", dropped if each == "database" else database) for each in KINDS]
    for case in cases:
        case.database.execute(*case.create(_ROWS))

    def spark() -> SparkSession:
        return shared_session(request.getfixturevalue("spark_environment"))

    dag = open_dag([database, dropped], format_, tmp_path, spark)
    if state == "stale":
        dag.run()
        assert not dag.held
        for case in cases:
            case.rewrite()
        dag.run()
        assert len(dag.held) >= len(cases)
    done: set[str] = set()

    def change(at: str, table: str) -> None:
        for case in cases:
            if at == seam and table in ("", case.table) and case.table not in done:
                done.add(case.table)
                case.change()

    dag.run(change)

    assert len(done) == len(cases)
    dag.settle()
