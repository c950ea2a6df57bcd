"""Random DDL through capture and merge, seed after seed: `python -m tests.random_ddl --minutes 10`.

Exits 1 where a lake table is wrong and no error says so; prints how to run that seed alone.
"""

from __future__ import annotations

import argparse
import logging
import secrets
import shutil
import sys
import time
import traceback
from collections import Counter
from contextlib import ExitStack, closing
from functools import partial
from random import Random
from tempfile import mkdtemp

from tests.fixtures.mysql import Database, connect
from tests.fixtures.spark import find_environment
from tests.random_ddl.between_tasks import open_dag, run_between
from tests.random_ddl.disturbances import disturb_merges
from tests.random_ddl.loading import run_loading
from tests.random_ddl.options import draw_options
from tests.random_ddl.run import Outcome, run
from tests.services.postgresql import PostgresServer
from tests.services.processes import RUN_FOLDER
from tests.services.servers import Server
from tests.support.pipeline import Pipeline
from tests.unit.spark.database_workplace import database_workplace
from tests.unit.spark.session import shared_session
from tests.unit.spark.workplace import local_workplace

SERVERS = ("mysql97", "mysql80", "mariadb1011", "mariadb118")
FORMATS = ("iceberg", "delta")


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_ddl", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--changes", type=int, help="how many, whatever the time")
    parser.add_argument("--bulk", type=int, default=0, help="rows that some statements insert")
    parser.add_argument("--seed", type=int, help="the first run's; the next one's is one more")
    parser.add_argument("--count", type=int, help="how many seeds, whatever the time")
    parser.add_argument("--ranges", type=int, default=6, help="that a run is captured in")
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--servers", nargs="+", default=SERVERS, choices=SERVERS)
    parser.add_argument(
        "--formats", nargs="+", default=FORMATS, choices=(*FORMATS, "memory", "postgresql")
    )
    parser.add_argument("--metadata", default="FULL", choices=("FULL", "MINIMAL"))
    parser.add_argument(
        "--snapshots", action="store_true", help="of tables that are older than the log"
    )
    parser.add_argument(
        "--between-tasks", action="store_true", help="of the one-call DAG, instead of ranges"
    )
    parser.add_argument("--options", action="store_true", help="random ones of the tables")
    parser.add_argument(
        "--disturb", action="store_true", help="kill merges, and run two at the same time"
    )
    parser.add_argument("--keep-going", action="store_true", help="after a failure as well")
    chosen = parser.parse_args()
    formats = {*chosen.formats}
    if chosen.between_tasks and (chosen.options or chosen.disturb or "postgresql" in formats):
        parser.error("--options, --disturb and PostgreSQL are of runs in ranges")
    if "memory" in formats and not chosen.between_tasks:
        parser.error("the lake in memory is of --between-tasks")
    # They log each connection between the two processes.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    folder = RUN_FOLDER / "random-ddl"
    shutil.rmtree(folder, ignore_errors=True)
    servers = [Server.create(name, folder / name) for name in chosen.servers]
    with ExitStack() as running:
        for server in servers:
            running.callback(server.stop)
            server.start({"binlog_row_metadata": chosen.metadata})
        lake = None
        if "postgresql" in chosen.formats:
            lake = PostgresServer.create("postgresql18", folder / "postgresql18")
            running.callback(lake.stop)
            lake.start()
        return _run_all(chosen, servers, lake)


def _run_all(chosen: argparse.Namespace, servers: list[Server], lake: PostgresServer | None) -> int:
    folder = RUN_FOLDER / "random-ddl"
    spark = shared_session(find_environment(folder))
    until = time.monotonic() + chosen.minutes * 60
    seed = chosen.seed if chosen.seed is not None else secrets.randbelow(1 << 31)
    total, refused, runs, failed = Outcome(), Counter[str](), 0, 0

    def is_short() -> bool:
        if chosen.changes is not None:
            return total.changes < int(chosen.changes)
        return runs < int(chosen.count) if chosen.count is not None else time.monotonic() < until

    while is_short():
        server = servers[runs % len(servers)]
        format_ = chosen.formats[runs // len(servers) % len(chosen.formats)]
        name = f"python -m tests.random_ddl --seed {seed} --count 1 --servers {server.name}"
        name += f" --formats {format_} --ranges {chosen.ranges} --tables {chosen.tables}"
        name += f" --bulk {chosen.bulk} --metadata {chosen.metadata}"
        name += " --options" if chosen.options else ""
        name += " --disturb" if chosen.disturb else ""
        name += " --snapshots" if chosen.snapshots else ""
        name += " --between-tasks" if chosen.between_tasks else ""
        database, below = Database(server, f"random_{seed}"), mkdtemp(dir=folder)
        begun = time.monotonic()
        with closing(connect(server)) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {database.name} CHARACTER SET utf8mb4")
            try:
                sizes = {"ranges": chosen.ranges, "tables": chosen.tables}
                if chosen.between_tasks:
                    dag = partial(open_dag, [database], format_, below, lambda: spark)
                    outcome = run_between(database, dag, str(seed), **sizes)
                else:
                    workplace = (
                        local_workplace(spark, format_, below)
                        if lake is None or format_ != "postgresql"
                        else database_workplace(spark, lake, below)
                    )
                    pipeline = Pipeline(database, workplace)
                    _vary(pipeline, chosen, seed)
                    begin = run_loading if chosen.snapshots else run
                    outcome = begin(pipeline, str(seed), bulk=chosen.bulk, **sizes)
            except Exception:  # noqa: BLE001 - printed, and the exit code says it
                failed += 1
                traceback.print_exc()
                print(f"FAILED: {name}", flush=True)
                if not chosen.keep_going:
                    return 1
            else:
                total.statements += outcome.statements
                total.changes += outcome.changes
                total.equal += outcome.equal
                total.snapshots += outcome.snapshots
                total.loaded += outcome.loaded
                refused.update(outcome.refused)
                seconds = time.monotonic() - begun
                print(f"{seed} {server.name} {format_} {seconds:.0f} s: {outcome}", flush=True)
            cursor.execute(f"DROP DATABASE IF EXISTS {database.name}")
        runs, seed = runs + 1, seed + 1
    print(
        f"{runs} runs, {failed} failed: {total.statements} statements, {total.changes} changes, "
        f"{total.equal} tables equal SELECT, {total.snapshots} snapshots of {total.loaded} rows, "
        f"{refused.total()} refused: {dict(refused)}"
    )
    return int(failed > 0)


def _vary(pipeline: Pipeline, chosen: argparse.Namespace, seed: int) -> None:
    if chosen.options:
        pipeline.table_options = draw_options(Random(f"options {seed}"))
    if chosen.disturb:
        disturb_merges(pipeline, Random(f"disturbance {seed}"))


if __name__ == "__main__":
    sys.exit(main())
