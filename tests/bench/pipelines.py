"""Whole tools beside ours: `python -m tests.bench pipelines [--parts bulk,load,values]`.

A log is written by a MySQL server after every tool has noted where it begins; then each reads it to
its end: ours into staged Parquet files, Debezium's engine into lines of JSON, and into records that
are touched and dropped. `load` is a table of 1,000,000 rows, read into Parquet or JSON; `values`
shows what each gives for values that are seldom tested.

A measurement is a process from its start to its end: seconds by the clock and of the processor,
which leaves the server's out, and the peak of resident memory. Tools take turns; the median counts.
Results are kept as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from airflow_provider_binlog.transport.server.queries import binary_logs
from tests.bench.log_tables import ORDERS
from tests.bench.logs import RELEASE, SPECS, LogSpec, filled, prepare_log
from tests.bench.peers.tools import (
    DEBEZIUM,
    INGESTR,
    Debezium,
    obtain_debezium,
    obtain_ingestr,
    obtain_loaders,
)
from tests.fixtures.mysql import connect, execute
from tests.services.postgresql import PostgresServer
from tests.services.processes import ROOT, RUN_FOLDER
from tests.services.progress import ServiceError, say, step
from tests.services.servers import Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.bench.peers.tools import Loader

RESULTS = RUN_FOLDER / "bench-pipelines.json"
FOLDER = RUN_FOLDER / f"bench-pipelines-{os.getpid()}"
OURS = "this package"

# What ingestr refuses in a log is left out: ENUM.
_PLAIN = replace(ORDERS, columns=ORDERS.columns[:-1], values=ORDERS.values[:-1])


# What ingestr has loaded once, it continues from the log: so the table has a row before.
_PREPARE_PLAIN = filled(_PLAIN, name="plain", begun=1)
_LOGS = {name: SPECS[name] for name in ("bulk", "single", "mixed")} | {
    "plain": LogSpec("the bulk rows without ENUM", ORDERS.rows, 10, _PREPARE_PLAIN)
}
_EVENTS = {"bulk": 1_000_000, "single": 100_000, "mixed": 1_000_000, "plain": 1_000_000}
_PARTS = (*_LOGS, "load", "values")
_TABLES = r"bench\.(?!heartbeat).*"
_OPTIONS: dict[str, str | int] = {"innodb_buffer_pool_size": "512M", "max_binlog_size": 1 << 30}


@dataclass(frozen=True)
class Spent:
    """Time and memory that one process took.

    Attributes:
        seconds, cpu: By the clock and of the processor.
        peak_bytes: Of resident memory.
        rows: Changes or rows it gave; 0 where it does not say.
        output: The end of its standard output.
    """

    seconds: float
    cpu: float
    peak_bytes: int
    rows: int = 0
    output: str = ""


def spend(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Spent:
    """Run a program to its end.

    Raises:
        ServiceError: It failed; the text has the end of what it printed.
    """
    log = FOLDER / "output.log"
    with log.open("w") as file:
        began = time.monotonic()
        process = subprocess.Popen(
            command, stdout=file, stderr=file, cwd=ROOT, env=os.environ | dict(environment or {})
        )
        _pid, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
    # It was waited for already.
    process.returncode = status
    text = log.read_text(errors="replace")
    if status:
        raise ServiceError(text[-2000:])
    found = re.findall(r'(?:"(?:rows|images)": |Total Rows +│ +)([\d,]+\d|\d)', text)
    cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    return Spent(seconds, cpu, peak, int(found[-1].replace(",", "")) if found else 0, text[-2000:])


def ours(name: str, **arguments: object) -> list[str]:
    """Return the command of one of our measures."""
    return [sys.executable, "-m", "tests.bench.measure", name, json.dumps(arguments)]


def settle(server: Server, command: Sequence[str]) -> None:
    """Run an engine until it reads the log: rows are written until it has met one."""
    ended = threading.Event()

    def mark() -> None:
        while not ended.wait(0.5):
            execute(server, "INSERT INTO bench.heartbeat VALUES ()")

    thread = threading.Thread(target=mark)
    thread.start()
    try:
        spend(command)
    finally:
        ended.set()
        thread.join()


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, print, keep the results."""
    parser = argparse.ArgumentParser(prog="tests.bench pipelines")
    parser.add_argument("--parts", default=",".join(_PARTS), help="which ones, by name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=100, help="of a part; no round begins after them"
    )
    options = parser.parse_args(arguments)
    debezium, loaders = obtain_debezium(), obtain_loaders()
    for part in options.parts.split(","):
        shutil.rmtree(FOLDER, ignore_errors=True)
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, FOLDER, ignore_errors=True)
            server = Server.create(RELEASE, FOLDER / "server")
            stack.callback(server.stop)
            server.start(_OPTIONS)
            execute(
                server,
                "CREATE DATABASE bench CHARACTER SET utf8mb4",
                "CREATE TABLE bench.heartbeat (n int AUTO_INCREMENT PRIMARY KEY)",
            )
            if part == "values":
                from tests.bench.pipeline_values import compare_values

                keep(part, compare_values(server, debezium, loaders))
                continue
            if part == "load":
                ways = _prepare_load(server, debezium, loaders)
            else:
                merging = _merge_with_ingestr(server, stack) if part == "plain" else None
                ways = _prepare_log(server, part, debezium, merging, options.rounds)
            load = os.getloadavg()[0]
            _measure(part, ways, options.rounds, options.seconds)
            print(f"  MySQL {server.version}, load {load:.1f} before", flush=True)
    return 0


def _merge_with_ingestr(server: Server, stack: ExitStack) -> list[str] | None:
    """Return the command that brings `plain` to a table of PostgreSQL, one for each round."""
    if (start := obtain_ingestr()) is None:
        return None
    postgres = PostgresServer.create("postgresql18", FOLDER / "postgresql")
    stack.callback(postgres.stop)
    postgres.start({"shared_buffers": "512MB", "max_wal_size": "4GB"})
    source = f"mysql+cdc://root@127.0.0.1:{server.port}/bench?server_id=18888"
    return [
        *(*start, "--source-uri", source, "--source-table", "bench.plain"),
        *("--dest-uri", f"{postgres.dsn}?sslmode=disable", "--dest-table", "public.plain_{round}"),
    ]


@dataclass(frozen=True)
class _Way:
    """A command of which each round begins with the same state; `{round}` stands for its number."""

    command: list[str]
    environment: Mapping[str, str]
    state: Path | None = None

    def spend(self, number: int) -> Spent:
        work = FOLDER / "work"
        shutil.rmtree(work, ignore_errors=True)
        if self.state is None:
            work.mkdir()
        else:
            shutil.copytree(self.state, work)
        command = [part.replace("{round}", str(number)) for part in self.command]
        return spend(command, self.environment)


def _prepare_log(
    server: Server,
    name: str,
    debezium: Debezium | None,
    merging: list[str] | None,
    rounds: int,
) -> dict[str, _Way]:
    """Write a log; return what reads it, by title."""
    work, state = FOLDER / "work", FOLDER / "state"
    first = str(work / "events.json")
    work.mkdir()
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        fill = prepare_log(_LOGS[name], cursor.execute)
        if debezium is not None:
            every = r"bench\..*"
            settle(
                server,
                debezium.command(work, server.port, tables=every, output=first, rows=0, stop=True),
            )
            work.rename(state)
            work.mkdir()
        first_load = _Way(merging or [], {})
        for number in range(rounds if merging else 0):
            first_load.spend(number)
        cursor.execute("FLUSH BINARY LOGS")
        with step(f"bench: {_LOGS[name].title}"):
            fill()
        cursor.execute("FLUSH BINARY LOGS")
        file = binary_logs(connection)[-2][0]
    size = (server.data / file).stat().st_size
    print(f"\n{_LOGS[name].title}: {_EVENTS[name]:,} changes, {size / 1e6:.0f} MB")
    own = ours("server_to_parquet", port=server.port, file=file, size=size)
    found = {f"{OURS}: staged Parquet": _Way(own, {})}
    if debezium is not None:
        for title, output in (("JSON lines", first), ("records", "connect")):
            command = debezium.command(
                work, server.port, tables=_TABLES, output=output, rows=_EVENTS[name]
            )
            found[f"{DEBEZIUM}: {title}"] = _Way(command, {}, state)
    if merging:
        found[f"{INGESTR}: merged into PostgreSQL"] = first_load
    return found


def _prepare_load(
    server: Server, debezium: Debezium | None, loaders: Mapping[str, Loader]
) -> dict[str, _Way]:
    """Fill a table; return what loads it, by title."""
    work = FOLDER / "work"
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        fill = prepare_log(SPECS["bulk"], cursor.execute)
        with step("bench: the table to load"):
            fill()
        cursor.execute("ANALYZE TABLE bench.filled")
    print(f"\na first load: {ORDERS.rows:,} rows of {len(ORDERS.columns)} columns")
    own = ours("table_to_parquet", port=server.port, database="bench", table="filled")
    found = {f"{OURS}: staged Parquet": _Way(own, {})}
    for title, loader in loaders.items():
        found[title] = _Way(loader.start(server.port, "bench", "filled", work), loader.environment)
    if debezium is not None:
        command = debezium.command(
            work,
            server.port,
            tables=r"bench\.filled",
            output=str(work / "events.json"),
            rows=ORDERS.rows,
            snapshot="initial",
        )
        found[f"{DEBEZIUM}: JSON lines"] = _Way(command, {})
    return found


def _measure(part: str, ways: Mapping[str, _Way], rounds: int, seconds_max: float) -> None:
    """Print and keep what each takes, in turns."""
    taken: dict[str, list[Spent]] = {title: [] for title in ways}
    began = time.monotonic()
    for number in range(rounds):
        if time.monotonic() - began > seconds_max:
            break
        with step(f"{part}: round {number + 1} of {rounds}"):
            for title, way in ways.items():
                spent = way.spend(number)
                say(f"{title}: {spent.seconds:.1f} s, processor {spent.cpu:.1f} s")
                taken[title].append(spent)
    print(f"  {'':52} {'s':>6} {'±':>4} {'cpu s':>6} {'peak MB':>8} {'rows':>10}")
    kept = {}
    for title, runs in taken.items():
        seconds = sorted(spent.seconds for spent in runs)
        cpu, peak = median(spent.cpu for spent in runs), max(spent.peak_bytes for spent in runs)
        spread = (seconds[-1] - seconds[0]) / median(seconds)
        print(
            f"  {title:52} {median(seconds):6.1f} {spread:4.0%} {cpu:6.1f} {peak / 1e6:8.0f}"
            f" {runs[0].rows or '–':>10}",
            flush=True,
        )
        kept[title] = [asdict(spent) | {"output": ""} for spent in runs]
    keep(part, kept)


def keep(part: str, found: object) -> None:
    """Keep the results of a part beside those of the others."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    others = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(others | {part: found}, indent=1))
    print(f"kept in {RESULTS}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
