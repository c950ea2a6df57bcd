"""What happens to a source while it is soaked: each is one try of its tasks, which may fail."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog.checkpoint import checkpoint_key, rebuild
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from tests.faults.gate import Gate
from tests.faults.tasks import Tasks
from tests.fixtures.mysql import connect, execute, query
from tests.support.extract_worker import Extract
from tests.support.worker import Worker
from tests.unit.spark.workplace import Workplace

LIMITS = Limits(part_bytes_max=1 << 20, pending_bytes_max=4 << 20)


@dataclass
class Site:
    """A source: its server, its tasks and its lake.

    Attributes:
        name: Of the server's kind, and of the source.
        tasks: Extract and checkpoint.
        workplace: The merge.
        gate: The way of the tasks to the server.
        worker: Runs extracts that are killed.
        folder: Everything of the source.
        random: Chooses.
    """

    name: str
    tasks: Tasks
    workplace: Workplace
    gate: Gate
    worker: Worker
    folder: Path
    random: Random

    def run(self) -> None:
        """Run the tasks: extract, merge, checkpoint."""
        staged = self.tasks.stage(limits=LIMITS)
        self.merge()
        self.tasks.save(staged)

    def merge(self) -> None:
        """Merge everything that is staged."""
        self.workplace.merge(initial_load="snapshot")

    def close(self) -> None:
        """End the server."""
        self.gate.close()
        self.tasks.database.server.stop()


def killed_extract(site: Site) -> None:
    """The extract task is killed at one of its writes."""
    variables = site.folder / "variables"
    variables.mkdir(exist_ok=True)
    for key, value in site.tasks.variables.items():
        (variables / key).write_text(value)
    tasks = site.tasks
    task = Extract(
        variables,
        {"AIRFLOW_CONN_BINLOG_DEFAULT": tasks.connection()},
        {
            "source": {"name": tasks.source.name, "start": tasks.source.start},
            "staging_path": tasks.staging,
            "tables": [f"{tasks.database.name}.*"],
            "limits": LIMITS,
        },
        kill_after=site.random.randrange(12),
    )
    if tasks.variables:
        kind, value = site.worker.call("run", task)
        assert kind in {"killed", "done", "skipped"}, value


def killed_server(site: Site) -> None:
    """The server is killed while it is read, and started again."""
    server = site.tasks.database.server
    site.gate.act_after(site.random.randrange(200_000), server.kill)
    try:
        site.run()
    finally:
        site.gate.open_again()
        if not server.alive:
            server.start()


def restarted_server(site: Site) -> None:
    """The server is restarted in good order."""
    site.tasks.database.server.restart()
    site.run()


def frozen_server(site: Site) -> None:
    """The server is stopped for as long as a try takes."""
    pid = site.tasks.database.server.pid
    site.gate.act_after(site.random.randrange(200_000), lambda: os.kill(pid, signal.SIGSTOP))
    try:
        site.run()
    finally:
        site.gate.open_again()
        os.kill(pid, signal.SIGCONT)


def cut_connection(site: Site) -> None:
    """The connection is cut, or silent, after some bytes."""
    passed = site.gate.passed + site.random.randrange(200_000)
    if site.random.random() < 0.2:
        site.gate.hold_after = passed
    else:
        site.gate.cut_after = passed
    try:
        site.run()
    finally:
        site.gate.open_again()


def slow_connection(site: Site) -> None:
    """The connection is slow."""
    site.gate.bytes_per_second = 400_000
    try:
        site.run()
    finally:
        site.gate.open_again()


def killed_dump_thread(site: Site) -> None:
    """Somebody ends the session that sends us the log."""
    server = site.tasks.database.server

    def kill() -> None:
        sessions = query(
            server, "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog%'"
        )
        with closing(connect(server)) as connection, connection.cursor() as cursor:
            for (number,) in sessions:
                cursor.execute(f"KILL {number}")

    site.gate.act_after(150_000, kill)
    try:
        site.run()
    finally:
        site.gate.open_again()


def purged_log(site: Site) -> None:
    """Somebody purges what the checkpoint has passed."""
    if site.tasks.variables:
        file = site.tasks.checkpoint().position.file
        execute(site.tasks.database.server, "FLUSH BINARY LOGS", f"PURGE BINARY LOGS TO '{file}'")
    site.run()


def switched_settings(site: Site) -> None:
    """Checksums and compression are switched."""
    mysql = site.name.startswith("mysql")
    compression = "binlog_transaction_compression" if mysql else "log_bin_compress"
    execute(
        site.tasks.database.server,
        f"SET GLOBAL binlog_checksum = {site.random.choice(['NONE', 'CRC32'])}",
        f"SET GLOBAL {compression} = {site.random.choice(['ON', 'OFF'])}",
    )
    site.run()


def lost_variable(site: Site) -> None:
    """The checkpoint is lost, and rebuilt from the manifests after a merge."""
    tasks = site.tasks
    if not tasks.variables:
        return
    site.merge()
    log = ManifestLog(tasks.store, tasks.source.name)
    tasks.variables.clear()
    _refused(site, "CheckpointMissingError")
    rebuilt = rebuild(log, saved_at="now", saved_by="a person")
    tasks.variables[checkpoint_key(tasks.source.name)] = rebuilt.encode()


def damaged_manifest(site: Site) -> None:
    """The newest manifest is cut for a while."""
    tasks = site.tasks
    if not tasks.variables:
        return
    log = ManifestLog(tasks.store, tasks.source.name)
    file = Path(f"{tasks.store._root}/{log.key(log.sequences()[-1])}")
    whole = file.read_bytes()
    file.write_bytes(whole[: site.random.randrange(len(whole))])
    try:
        _refused(site, "ManifestError")
    finally:
        file.write_bytes(whole)


def two_runs(site: Site) -> None:
    """A run sleeps before its merge until another one has finished."""
    staged = site.tasks.stage(limits=LIMITS)
    site.run()
    site.merge()
    site.tasks.save(staged)


def killed_merge(site: Site) -> None:
    """The merge is killed after one of its commits."""
    lake: Any = type(site.workplace.lake)
    merge = lake.merge

    def die(*arguments: Any) -> None:
        merge(*arguments)
        raise RuntimeError("killed")

    lake.merge = die
    try:
        site.tasks.stage(limits=LIMITS)
        site.workplace.try_merge(initial_load="snapshot")
    finally:
        lake.merge = merge


def compacted_lake(site: Site) -> None:
    """Somebody compacts the lake tables."""
    site.run()
    workplace = site.workplace
    for (name,) in site.tasks.database.query("SHOW TABLES"):
        target = workplace.lake.target(site.tasks.database.name, name)
        if workplace.lake.find_state(workplace.spark, target) is None:
            continue
        if workplace.format == "delta":
            workplace.spark.sql(f"OPTIMIZE {target}")
        else:
            table = f"{site.tasks.database.name}.{name}"
            call = f"rewrite_data_files(table => '{table}')"
            workplace.spark.sql(f"CALL {workplace.catalog}.system.{call}")


def _refused(site: Site, kind: str) -> None:
    try:
        site.tasks.stage(limits=LIMITS)
    except AirflowFailException as error:
        assert str(error).startswith(kind), error  # noqa: PT017
    else:
        raise AssertionError(kind)


MISHAPS: tuple[Callable[[Site], None], ...] = (
    killed_extract,
    killed_server,
    restarted_server,
    frozen_server,
    cut_connection,
    slow_connection,
    killed_dump_thread,
    purged_log,
    switched_settings,
    lost_variable,
    damaged_manifest,
    two_runs,
    killed_merge,
    compacted_lake,
)
