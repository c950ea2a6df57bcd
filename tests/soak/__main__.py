"""Capture under load, killed now and then: `make soak MINUTES=5 SEED=7`.

MySQL and MariaDB are written to all the time while a process stages range after range, until it is
killed and another one takes its place. In the end what is staged, applied in plain Python, must be
what SELECT returns. Exits 1 where it is not.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from random import Random

from airflow_provider_binlog.position import Flavor
from tests.fixtures.mysql import connect, execute
from tests.services.processes import ROOT, RUN_FOLDER
from tests.services.servers import Server
from tests.soak.capture_loop import SOURCE
from tests.soak.replay import contents, replay, select
from tests.soak.workload import DATABASE, SETUP, TABLES, Writer
from tests.support.replay import DifferenceError

SERVERS = ("mysql97", "mariadb1011")

# From when it begins to capture; a range takes about a second.
_LIFETIME_SECONDS = (0.2, 1.0, 3.0, 10.0)
_FINAL_SECONDS_MAX = 300
_PER_SECOND = 15.0


def main() -> int:
    """Soak both servers at once; return the exit code."""
    seconds = float(os.environ.get("MINUTES", "5")) * 60
    seed = int(os.environ.get("SEED") or secrets.randbelow(1 << 32))
    folder = RUN_FOLDER / "soak"
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{seconds:.0f} s of writes to {' and '.join(SERVERS)}, seed {seed}", flush=True)
    with ThreadPoolExecutor() as pool:
        runs = {name: pool.submit(soak, name, folder / name, seconds, seed) for name in SERVERS}
    failed = False
    for name, run in runs.items():
        try:
            print(f"{name}: {run.result()}")
        except Exception as error:  # noqa: BLE001 - the other server's run is reported too
            failed = True
            print(f"{name}: {error!r}\n  look at {folder / name}")
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)
    return int(failed)


def soak(name: str, folder: Path, seconds: float, seed: int) -> str:
    """Write, capture and kill for a while; return what happened.

    Raises:
        DifferenceError: What is staged is not what the server holds.
        SubprocessError: The capturing process ended by itself with an error.
    """
    folder.mkdir(parents=True)
    server = Server.create(name, folder / "server")
    server.start()
    try:
        execute(server, *SETUP)
        account = server.account
        writers = [
            Writer(account, seed + number, per_second=_PER_SECOND, alters=number == 0)
            for number in range(2)
        ]
        for writer in writers:
            writer.start()
        kills = _capture_and_kill(server, folder, seconds, Random(seed))
        for writer in writers:
            writer.stop()
        (folder / "last").touch()
        _check(_start(server, folder), _FINAL_SECONDS_MAX, folder)
        done = writers[0].done + writers[1].done
        return f"{_compare(server, folder)}; {kills} kills; {dict(sorted(done.items()))}"
    finally:
        server.stop()


def _start(server: Server, folder: Path) -> subprocess.Popen[bytes]:
    flavor = Flavor.MARIADB if server.name.startswith("mariadb") else Flavor.MYSQL
    command = [sys.executable, "-m", "tests.soak.capture_loop"]
    with (folder / "capture.log").open("ab") as log:
        return subprocess.Popen(
            [*command, str(folder), str(server.port), flavor.value],
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )


def _capture_and_kill(server: Server, folder: Path, seconds: float, random: Random) -> int:
    """Have one process after another capture until the time is up; return how many were killed."""
    deadline = time.monotonic() + seconds
    kills = 0
    while time.monotonic() < deadline:
        (folder / "ready").unlink(missing_ok=True)
        process = _start(server, folder)
        while process.poll() is None and not (folder / "ready").exists():
            time.sleep(0.02)
        lifetime = random.choice(_LIFETIME_SECONDS) * (0.5 + random.random())
        with suppress(subprocess.TimeoutExpired):
            process.wait(lifetime)
        if process.poll() is not None:
            _check(process, 0, folder)
        process.kill()
        process.wait()
        kills += 1
    return kills


def _check(process: subprocess.Popen[bytes], seconds: float, folder: Path) -> None:
    """Refuse a process that ends with an error, or not at all."""
    try:
        code = process.wait(seconds)
    finally:
        process.kill()
    if code:
        tail = (folder / "capture.log").read_text(errors="replace")[-2000:]
        raise subprocess.SubprocessError(f"capture ended with {code}\n{tail}")


def _compare(server: Server, folder: Path) -> str:
    replayed = replay(folder / "staging", SOURCE)
    rows = 0
    with closing(connect(server, database=DATABASE)) as connection, connection.cursor() as cursor:
        for name in TABLES:
            expected = select(cursor, name)
            found = contents(name, replayed.tables.get(name, ()))
            if expected != found:
                missing = [row for row in expected if expected[row] != found.get(row)][:2]
                extra = [row for row in found if expected.get(row) != found[row]][:2]
                raise DifferenceError(f"{name}: SELECT has {missing}\n  staged is {extra}")
            rows += expected.total()
    return (
        f"{len(TABLES)} tables of {rows} rows equal SELECT after {replayed.changes} changes in "
        f"{replayed.manifests} manifests and {replayed.parts} parts ({replayed.unnamed} unnamed)"
    )


if __name__ == "__main__":
    sys.exit(main())
