"""Endurance: writes and DDL without end, a run of each source every minute, faults in most of them.

    python -m tests.soak.endurance --minutes 60

MySQL is merged into Iceberg, MariaDB into Delta, by one process: its memory is measured after each
run. A run that a fault made fail is tried again, as by Airflow. Now and then, and in the end, the
writers pause, and every lake table must equal SELECT. Exits 1 where one does not, or memory grows.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import secrets
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.sources.binlog_source import BinlogSource
from tests.demo.worker import Worker
from tests.faults.gate import Gate
from tests.faults.tasks import Tasks
from tests.fixtures.mysql import Database, execute
from tests.fixtures.spark import find_environment
from tests.random_ddl.comparison import find_differences
from tests.services.processes import RUN_FOLDER
from tests.services.servers import Server
from tests.soak.mishaps import MISHAPS, Site
from tests.soak.workload import DATABASE, SETUP, Writer
from tests.support.pipeline import Pipeline
from tests.support.staged import changes_of
from tests.unit.spark.session import shared_session
from tests.unit.spark.workplace import local_workplace

FAMILIES = (("mysql97", "iceberg"), ("mariadb118", "delta"))

_PER_SECOND = 4.0
_TRIES_MAX = 4
_COMPARED_EVERY = 10
# A process needs a while until all of its code is loaded and its pools are filled.
_WARM_RUNS = 8
_GROWTH_MAX = 1.15


class WrongError(Exception):
    """A lake table is not what SELECT returns, or memory grows."""


@dataclass
class Figures:
    """What was measured.

    Attributes:
        mishaps: How often each fault was tried.
        errors: How often each error failed a task.
        seconds: How long each run took, its tries included.
        memory: Resident bytes of this process and of its JVM, after each run.
        compared: How many comparisons of a table held.
    """

    mishaps: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)
    compared: int = 0
    rows: int = 0

    def growth(self, index: int) -> float:
        """Return how much more memory the last third of the runs has than the first one."""
        sizes = [each[index] for each in self.memory[_WARM_RUNS:]]
        third = len(sizes) // 3
        if not third:
            return 1.0
        return statistics.median(sizes[-third:]) / statistics.median(sizes[:third])


class Source:
    """A server that is written to, its tasks, and its lake."""

    def __init__(self, site: Site, figures: Figures, seed: int) -> None:
        self.site, self.figures, self.seed = site, figures, seed
        self.writers: list[Writer] = []

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
                reconnects=True,
            )
            for number in range(2)
        ]
        for each in self.writers:
            each.start()

    def pause(self) -> None:
        """End writing."""
        for each in self.writers:
            each.stop()

    def run(self, mishap: Callable[[Site], None] | None) -> None:
        """Run the tasks, of which something makes the first tries fail."""
        began = time.monotonic()
        if mishap is not None:
            self.figures.mishaps[mishap.__name__] += 1
            self._try(lambda: mishap(self.site))
        for left in reversed(range(_TRIES_MAX)):
            if self._try(self.site.run) or not left:
                break
        else:
            raise WrongError("no try succeeded")
        self.figures.seconds.append(time.monotonic() - began)

    def compare(self) -> None:
        """Compare the lake with the server, while nothing is written."""
        self.pause()
        self.run(None)
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


def resident(pid: int | str) -> int:
    """Return the resident bytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = [each for each in status.splitlines() if each.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def soak(folder: Path, *, minutes: float, every: float, seed: int) -> list[str]:
    """Run for a while; return what was measured, line by line.

    Raises:
        WrongError: A lake table is wrong, or memory grows.
    """
    random, figures = Random(seed), {name: Figures() for name, _ in FAMILIES}
    environment = find_environment(folder)
    # They log each connection between the two processes.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = shared_session(environment)
    jvm = cast("Any", spark.sparkContext)._gateway.proc.pid
    worker = Worker("tests.support.extract_worker", folder=folder, name="worker", env=os.environ)
    patch = pytest.MonkeyPatch()
    sources: list[Source] = []
    try:
        for name, format_ in FAMILIES:
            site = make_site(name, format_, spark, folder / name, worker=worker, patch=patch)
            sources.append(Source(site, figures[name], seed))
            sources[-1].write()
        until, number = time.monotonic() + minutes * 60, 0
        while time.monotonic() < until:
            next_run = time.monotonic() + every
            number += 1
            for source in sources:
                mishap = random.choice(MISHAPS) if random.random() < 0.7 else None
                print(f"{number} {source.site.name} {mishap and mishap.__name__}", flush=True)
                source.run(mishap)
                if number % _COMPARED_EVERY == 0:
                    source.compare()
                    source.write()
                source.figures.memory.append((resident("self"), resident(_java(jvm))))
            time.sleep(max(0.0, next_run - time.monotonic()))
        for source in sources:
            source.compare()
        return [describe(source) for source in sources]
    finally:
        patch.undo()
        worker.stop()
        for source in sources:
            source.site.close()


def _java(pid: int) -> int:
    """Return the Java machine that a shell script of Spark's has started, or become."""
    if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").startswith("java"):
        return pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(children[0]) if children else pid


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
        pooled=True,
    )
    return Site(name, tasks, workplace, gate, worker, folder, Random(name))


def describe(source: Source) -> str:
    """Return the figures of a source, checked.

    Raises:
        WrongError: Memory grows.
    """
    found = source.figures
    growths = [found.growth(index) for index in range(2)]
    if growths[0] > _GROWTH_MAX:
        raise WrongError(f"memory grows: {found.memory}")
    last = [round(size / 2**20) for size in found.memory[-1]]
    return (
        f"{source.site.name} to {source.site.workplace.format}: {len(found.seconds)} runs of "
        f"{statistics.median(found.seconds):.1f} s (at most {max(found.seconds):.1f}), "
        f"{found.rows} changes, {found.compared} comparisons equal SELECT; "
        f"{source.check_files()}; resident {last[0]} MiB, JVM {last[1]} MiB, "
        f"last third to first third {growths[0]:.2f}, {growths[1]:.2f}; "
        f"faults {json.dumps(dict(sorted(found.mishaps.items())))}; "
        f"errors {json.dumps(dict(sorted(found.errors.items())))}"
    )


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
    lines = soak(folder, minutes=chosen.minutes, every=chosen.every, seed=chosen.seed)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
