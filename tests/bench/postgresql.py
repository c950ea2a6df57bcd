"""What a merge into PostgreSQL costs beside COPY and MERGE by hand.

A tenth of the rows of a table changes. By hand the final changes are in a file already: they are
copied to an unlogged table, and merged by one statement. Ours reads the staged Parquet files, and
collapses them first. The seconds are processor time, of the server, the JVM and Python.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import csv

from airflow_provider_binlog.spark.target.jvm import java_class
from tests.bench.merge_data import BigTable, change_rows
from tests.bench.merge_lake import cpu_seconds, start_spark
from tests.services.postgresql import PostgresServer
from tests.services.processes import RUN_FOLDER
from tests.support.postgresql import administer
from tests.unit.spark.database_workplace import database_workplace

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.spark.target.postgresql.connection import Connection

RESULT = RUN_FOLDER / "bench-postgresql.json"
_TARGET = 1.3


def main(arguments: list[str]) -> int:
    """Measure, print, keep, and return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.bench postgresql", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--release", default="postgresql18")
    options = parser.parse_args(arguments)
    folder = RUN_FOLDER / f"bench-postgresql-{os.getpid()}"
    folder.mkdir(parents=True)
    server = PostgresServer.create(options.release, folder / "server")
    server.start({"shared_buffers": "512MB", "max_wal_size": "4GB"})
    spark = start_spark("postgresql", folder, memory="3g")
    load = os.getloadavg()[0]
    try:
        found = measure(spark, server, folder, rows=options.rows, rounds=options.rounds)
    finally:
        spark.stop()
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    ratio = found["ours"] / found["by hand"]
    found |= {"ratio": ratio, "rows": options.rows, "load": load}
    RESULT.write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))
    print(f"{ratio:.2f} × COPY and MERGE by hand, target at most {_TARGET}")
    return 0


def measure(
    spark: SparkSession, server: PostgresServer, folder: Path, *, rows: int, rounds: int
) -> dict[str, float]:
    """Return the least seconds of each way, in turns."""
    workplace = database_workplace(spark, server, folder)
    table, tenth = BigTable(workplace.store, workplace.source), rows // 10
    table.commit([("insert", np.arange(rows))])
    began = time.perf_counter()
    workplace.merge()
    best = {"first load": time.perf_counter() - began}
    other = administer(spark, server)
    other.execute("CREATE SCHEMA hand")
    other.execute("CREATE TABLE hand.accounts (LIKE bench.accounts INCLUDING ALL)")
    other.execute("INSERT INTO hand.accounts SELECT * FROM bench.accounts")
    chance = np.random.default_rng(7)
    for number in range(rounds):
        # The keys change anywhere, and a tenth of them is deleted.
        keys = np.arange(number, rows, 10)
        chance.shuffle(keys)
        changed, deleted = np.sort(keys[: -tenth // 10]), np.sort(keys[-tenth // 10 :])
        kinds = [("update_postimage", changed), ("delete", deleted)]
        table.commit(kinds)
        file = _write_changes(folder, kinds, version=number + 2)
        for way, work in (
            ("by hand", partial(_by_hand, spark, other, file)),
            ("ours", workplace.merge),
        ):
            other.execute("CHECKPOINT")
            began, busy = time.perf_counter(), server.cpu_seconds + cpu_seconds(spark)
            work()
            spent = server.cpu_seconds + cpu_seconds(spark) - busy
            best[way] = min(best.get(way, float("inf")), spent)
            best[f"{way}, clock"] = time.perf_counter() - began
        differing = other.read(
            "SELECT count(*) FROM (TABLE bench.accounts EXCEPT TABLE hand.accounts) AS differing"
        )
        if differing != "0":
            raise RuntimeError(differing)
    other.close()
    return best


def _write_changes(folder: Path, kinds: list[tuple[str, np.ndarray]], *, version: int) -> Path:
    """Write the final changes to a file, as COPY reads CSV."""
    parts = []
    for kind, keys in kinds:
        rows = change_rows(kind, keys, version=version, first=0)
        token = pa.array([f"\\x{value.as_py().hex()}" for value in rows["token"]])
        names = rows.column_names[: rows.column_names.index("token")]
        deleted = pa.repeat(kind == "delete", len(keys))
        parts.append(
            pa.table(
                [*(rows[name] for name in names), token, deleted], [*names, "token", "deleted"]
            )
        )
    plain = csv.WriteOptions(include_header=False)
    csv.write_csv(pa.concat_tables(parts), folder / "changes.csv", plain)
    return folder / "changes.csv"


def _by_hand(spark: SparkSession, other: Connection, file: Path) -> None:
    """Copy the final changes to a table, and merge them."""
    other.execute("DROP TABLE IF EXISTS hand.changes")
    other.execute(
        "CREATE UNLOGGED TABLE hand.changes AS"
        " SELECT *, true AS deleted FROM bench.accounts LIMIT 0"
    )
    manager = java_class(spark, "org.postgresql.copy.CopyManager")(other._connection)
    stream = java_class(spark, "java.io.FileInputStream")(str(file))
    manager.copyIn("COPY hand.changes FROM STDIN WITH (FORMAT csv)", stream, 1 << 16)
    stream.close()
    names = json.loads(
        other.read(
            "SELECT json_agg(attname ORDER BY attnum) FROM pg_attribute"
            " WHERE attrelid = 'bench.accounts'::regclass AND attnum > 0"
        )
    )
    sets = ", ".join(f"{name} = s.{name}" for name in names)
    values = ", ".join(f"s.{name}" for name in names)
    other.execute(
        "MERGE INTO hand.accounts AS t USING hand.changes AS s ON t.id = s.id"
        " WHEN MATCHED AND s.deleted THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED AND NOT s.deleted THEN INSERT ({', '.join(names)}) VALUES ({values})"
    )
