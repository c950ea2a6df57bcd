"""Endurance: writes and DDL without end, a run of each source every minute, faults in most of them.

    python -m tests.soak.endurance --minutes 60

MySQL is merged into Iceberg, MariaDB into Delta, by one process, while triggers watch both logs. A
run that a fault made fail is tried again, as by Airflow. After each run the checkpoint has reached
what was the end of the log at its start; how much was logged since, memory, and what is open are
measured. Now and then, and in the end, the writers pause, and every lake table must equal SELECT.
Exits 1 where one does not, or where the lag, memory, or what is open grows.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.sources.binlog_source import BinlogSource
from airflow_provider_binlog.transport.server import queries
from tests.faults.gate import Gate
from tests.faults.tasks import Tasks, wait_until
from tests.fixtures.mysql import Database, connect, execute
from tests.fixtures.spark import SparkEnvironment, find_environment
from tests.random_ddl.comparison import find_differences
from tests.services.processes import RUN_FOLDER
from tests.services.servers import Server
from tests.soak.figures import Figures, Processes, WrongError
from tests.soak.mishaps import MISHAPS, Site
from tests.soak.watchers import Watchers
from tests.soak.workload import DATABASE, SETUP, Writer
from tests.support.pipeline import Pipeline
from tests.support.staged import changes_of
from tests.support.worker import Worker
from tests.unit.spark.session import shared_session
from tests.unit.spark.workplace import local_workplace

FAMILIES = (("mysql97", "iceberg"), ("mariadb118", "delta"))

_PER_SECOND = 4.0
_TRIES_MAX = 4
_COMPARED_EVERY = 10
# How many of ten runs meet a fault.
_MISHAPS = 0.7
# Of a process that many others leave little time, too.
_READ_TIMEOUT = 10


class Source:
    """A server that is written to, its tasks, and its lake."""

    def __init__(self, site: Site, figures: Figures, seed: int) -> None:
        self.site, self.figures, self.seed = site, figures, seed
        self.writers: list[Writer] = []
        # When the log ended where the lake's tables are now, or before.
        self.covered = time.monotonic()

    def write(self) -> None:
        """Begin to write, or go on."""
        account = self.site.tasks.database.server.account
        self.seed += 2
        self.writers = [
            Writer(
                account,
                self.seed + number,
                per_second=_PER_SECOND,
                alters=number == 0,
            )
            for number in range(2)
        ]
        for each in self.writers:
            each.start()

    def pause(self) -> None:
        """End writing."""
        for each in self.writers:
            each.stop()

    def run(self, mishap: Callable[[Site], None] | None, processes: Processes) -> None:
        """Run the tasks, of which something makes the first tries fail; measure then."""
        began = time.monotonic()
        if mishap is not None:
            self.figures.mishaps[mishap.__name__] += 1
            self._try(lambda: mishap(self.site))
        for _ in range(_TRIES_MAX):
            sampled, end = time.monotonic(), self._log_end()
            if self._try(self.site.run):
                break
        else:
            raise WrongError("no try succeeded")
        position = self.site.tasks.checkpoint().position
        if position.coordinates < end.coordinates:
            raise WrongError(f"the log ended at {end}, and the run has staged up to {position}")
        now = time.monotonic()
        self.figures.samples.append(
            processes.measure(
                seconds=now - began,
                log_bytes=self._bytes_after(position),
                log_seconds=now - sampled,
                stale_seconds=now - self.covered,
            )
        )
        self.covered = sampled

    def compare(self, processes: Processes) -> None:
        """Compare the lake with the server, while nothing is written."""
        self.pause()
        self.run(None, processes)
        self.check_sessions()
        tasks, workplace = self.site.tasks, self.site.workplace
        manifests = tasks.manifests()
        pipeline = SimpleNamespace(
            database=tasks.database, workplace=workplace, manifests=manifests
        )
        wrong = list(find_differences(cast("Pipeline", pipeline), but=()))
        if wrong:
            raise WrongError("\n".join(wrong)[:5000])
        self.figures.compared += len(tasks.database.query("SHOW TABLES"))
        self.figures.rows = sum(manifest.rows for manifest in manifests)

    def check_sessions(self) -> None:
        """Check that nobody is connected to the server; those of the triggers come and end."""
        wait_until(lambda: self.site.tasks.sessions() == 0)

    def check_files(self) -> str:
        """Check that everything that was staged is still there; return how much that is."""
        tasks = self.site.tasks
        manifests = tasks.manifests()
        parts = 0
        for manifest in manifests:
            for table in manifest.tables:
                parts += len(table.parts)
                for _ in changes_of(tasks.store, tasks.source.name, table):
                    pass
        stored = sum(1 for _ in Path(str(tasks.store._root)).rglob("*.parquet"))
        return f"{len(manifests)} manifests, {parts} parts, {stored - parts} that none names"

    def _log_end(self) -> Position:
        with closing(connect(self.site.tasks.database.server)) as connection:
            return queries.log_end(connection)

    def _bytes_after(self, position: Position) -> int:
        with closing(connect(self.site.tasks.database.server)) as connection:
            return queries.bytes_between(connection, position, queries.log_end(connection))

    def _try(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except AirflowSkipException:
            return True
        except AirflowFailException as error:
            raise WrongError(f"failed without a retry: {error}") from error
        except BinlogError as error:
            if not error.retryable:
                raise
            self.figures.errors[type(error).__name__] += 1
            return False
        return True


def soak(folder: Path, *, minutes: float, every: float, seed: int) -> None:
    """Run for a while, and print what was measured.

    Raises:
        WrongError: A lake table is wrong, something grows, or is left open.
    """
    # They log each connection between the two processes.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = shared_session(_forgetful(find_environment(folder)))
    worker = Worker("tests.support.extract_worker", folder=folder, name="worker", env=os.environ)
    patch = pytest.MonkeyPatch()
    sources: list[Source] = []
    try:
        for name, format_ in FAMILIES:
            site = make_site(name, format_, spark, folder / name, worker=worker, patch=patch)
            sources.append(Source(site, Figures(), seed))
            sources[-1].write()
        servers = {source.site.name: source.site.tasks.database.server for source in sources}
        watchers = Watchers(servers, patch)
        rounds = _run_rounds(sources, Processes.of(spark), Random(seed), minutes, every)
        watchers.stop()
        for source in sources:
            source.check_sessions()
            heading = f"{source.site.name} to {source.site.workplace.format}, {rounds} rounds"
            fired = f"{watchers.fired[source.site.name]} times a trigger found new log"
            lines = [heading, *source.figures.lines(), fired, source.check_files()]
            print("\n  ".join(lines), flush=True)
        for source in sources:
            source.figures.check()
    finally:
        patch.undo()
        worker.stop()
        for source in sources:
            source.site.close()


def _run_rounds(
    sources: list[Source], processes: Processes, random: Random, minutes: float, every: float
) -> int:
    """Run every source until the time is up, and compare; return how often."""
    began, number = time.monotonic(), 0
    while time.monotonic() < began + minutes * 60:
        next_round = time.monotonic() + every
        number += 1
        for source in sources:
            mishap = random.choice(MISHAPS) if random.random() < _MISHAPS else None
            source.run(mishap, processes)
            if number % _COMPARED_EVERY == 0:
                source.compare(processes)
                source.write()
            what = mishap.__name__ if mishap else "-"
            minute = (time.monotonic() - began) / 60
            print(f"{minute:.1f} {number} {source.site.name} {what}", flush=True)
            print(f"  {source.figures.samples[-1]}", flush=True)
        time.sleep(max(0.0, next_round - time.monotonic()))
    for source in sources:
        source.compare(processes)
    return number


def _forgetful(environment: SparkEnvironment) -> SparkEnvironment:
    """Return the environment of a session that keeps little of what it has run.

    A merge has a session of its own: how much one keeps of a hundred of them is no matter.
    """
    kept = ("ui.retainedJobs", "ui.retainedStages", "ui.retainedTasks", "sql.ui.retainedExecutions")
    return replace(environment, conf=environment.conf | {f"spark.{name}": "10" for name in kept})


def make_site(
    name: str, format_: str, spark: Any, folder: Path, *, worker: Worker, patch: pytest.MonkeyPatch
) -> Site:
    """Start a server, and return it with what follows it."""
    folder.mkdir(parents=True)
    server = Server.create(name, folder / "server")
    server.start()
    execute(server, *SETUP)
    workplace = local_workplace(spark, format_, folder)
    workplace.source = name
    gate = Gate(server)
    tasks = Tasks(
        Database(server, DATABASE),
        f"{workplace.root}/staging",
        workplace.store,
        patch,
        source=BinlogSource(name, start="earliest"),
        port=gate.port,
        read_timeout=_READ_TIMEOUT,
        pooled=True,
    )
    return Site(name, tasks, workplace, gate, worker, folder, Random(name))


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=60, help="seconds between two runs")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31))
    chosen = parser.parse_args()
    folder = RUN_FOLDER / "endurance"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"{chosen.minutes:g} minutes, seed {chosen.seed}", flush=True)
    try:
        soak(folder, minutes=chosen.minutes, every=chosen.every, seed=chosen.seed)
    except WrongError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
