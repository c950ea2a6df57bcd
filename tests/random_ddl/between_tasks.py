"""Random DDL between the tasks of several runs of the one-call DAG, and runs that settle it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from airflow_provider_binlog.sources import lakes
from tests.random_ddl.lakes import MemoryLake, SparkLake
from tests.random_ddl.one_call import OneCall
from tests.random_ddl.run import Outcome
from tests.random_ddl.seam_statements import KINDS, Case
from tests.support.stores import open_store
from tests.unit.spark.database_workplace import database_workplace
from tests.unit.spark.workplace import local_workplace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from tests.fixtures.mysql import Database
    from tests.random_ddl.lakes import TestedLake
    from tests.services.postgresql import PostgresServer

_numbers = count(1)


def open_dag(
    databases: Sequence[Database],
    format_: str,
    folder: Any,
    spark: Callable[[], SparkSession],
    *,
    chunk_bytes: int = 8192,
    postgresql: PostgresServer | None = None,
    **options: Any,
) -> OneCall:
    """Return the DAG of databases into a new lake in a folder: `memory` needs no Spark.

    Tables of the format `postgresql` are on that server. `options` are further arguments of
    `OneCall`.
    """
    source, staging = f"between-{next(_numbers)}", f"file://{folder}/staging"
    if format_ == "memory":
        lake: TestedLake = MemoryLake(open_store(staging), source)
    elif postgresql is not None:
        lake = SparkLake(database_workplace(spark(), postgresql, folder))
    else:
        lake = SparkLake(local_workplace(spark(), format_, folder))
    options |= {"source": source, "staging": staging, "chunk_bytes": chunk_bytes}
    return OneCall(databases, lake, **options)


def run_between(
    database: Database,
    open_: Callable[..., OneCall],
    seed: str,
    *,
    ranges: int,
    tables: int,
) -> Outcome:
    """Run the DAG that `open_` returns with random DDL between its tasks, then until it is settled.

    Raises:
        WrongError: A table is neither equal nor named, or named in the end.
    """
    random, log = Random(seed), list[str]()
    cases = [Case("swap", f"t{number}", database) for number in range(tables)]
    for case in cases:
        database.execute(*case.create(random.randint(0, 40)))
    chunk_bytes = random.choice([1024, 8192, 1 << 20])
    dag = open_(chunk_bytes=chunk_bytes)

    def change(seam: str, table: str) -> None:
        for case in cases:
            if random.random() < (0.5 if table == case.table else 0.15):
                case.kind = random.choice(list(KINDS))
                log.append(f"{dag.runs} {seam}: {case.kind} {case.table}")
                case.change(log.append)

    # Without the growing times between two snapshots of a table that stays as it is.
    try:
        with patch.object(lakes, "next_time", lambda *_: datetime.min.replace(tzinfo=UTC)):
            for _ in range(ranges):
                # A run in which nothing is new is skipped.
                change("changes", "")
                dag.run(change)
            dag.settle()
    except Exception as error:
        error.add_note("\n".join(log))
        raise
    return Outcome(statements=len(log), equal=dag.equal, snapshots=dag.runs)
