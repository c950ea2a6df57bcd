"""Airflow's UI over the demo's home: the DAG runs every minute, and the shop keeps writing."""

from __future__ import annotations

import json
import os
import random
import shlex
import socket
import sys
import sysconfig
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from dags.demo import surroundings
from dags.demo.choice import Choice
from dags.demo.demo import LOGS, open_shop
from dags.demo.happenings import trickle
from dags.demo.source import connect, make_source
from dags.demo.surroundings import FOLDER, Surroundings
from tests.services.processes import Process, free_port
from tests.services.progress import ServiceError, step
from tests.support.worker import start_group

_USUAL_PORT = 8080
_AIRFLOW = f"{sysconfig.get_path('scripts')}/airflow"
_PROGRAM = """\
#!/bin/sh
case "$1" in scheduler | triggerer) set -- "$@" --skip-serve-logs ;; esac
exec AIRFLOW "$@"
"""
_PASSWORDS = FOLDER / "airflow" / "simple_auth_manager_passwords.json.generated"
_PAUSE_SECONDS = 3.0
_START_SECONDS = 180.0


def show_ui(wanted: Choice | None) -> None:
    """Run Airflow and the shop until Ctrl-C, on the last demo or, without one, on a new shop.

    Args:
        wanted: What the user chose; None continues with what exists.
    """
    last = surroundings.maybe_last()
    is_contiguous = last is not None and last.dsn is None and wanted in (None, last)
    choice = last if is_contiguous and last is not None else wanted or Choice()
    if not is_contiguous:
        surroundings.clear()
    with ExitStack() as stack:
        source = make_source(choice, FOLDER / "server")
        stack.callback(source.stop)
        store = surroundings.open_store(choice)
        if store is not None:
            stack.callback(store.stop)
        database = surroundings.open_database(choice)
        if database is not None:
            stack.callback(database.stop)
        if is_contiguous:
            source.start()
            # There is a checkpoint, so that this is not looked at.
            start = "earliest"
        else:
            start = open_shop(source, choice)
        port = _choose_port()
        around = Surroundings(choice, source.dsn, store, database)
        environment = _environment(around, port, start)
        with step("airflow standalone: start"):
            airflow = start_group(
                (_AIRFLOW, "standalone"),
                folder=LOGS,
                name="standalone",
                env=environment,
            )
            stack.callback(airflow.stop)
            _await_health(airflow, port)
        password = json.loads(_PASSWORDS.read_text())["admin"]
        url = f"http://127.0.0.1:{port}"
        print(f"\n  {url}/plugin/binlog   user admin   password {password}")
        print(f"  {url}/dags/binlog_shop")
        print(f"  The DAG runs every minute; Airflow's output is in {airflow.log}.")
        print("  Ctrl-C stops Airflow and the server.\n", flush=True)
        _let_happen(choice, source.dsn, airflow)


def _environment(around: Surroundings, port: int, start: str) -> dict[str, str]:
    url = f"http://127.0.0.1:{port}"
    path = f"{_make_program()}{os.pathsep}{os.environ.get('PATH', '')}"
    return around.airflow_environment(
        PATH=path,
        AIRFLOW__API__BASE_URL=url,
        AIRFLOW__API__HOST="127.0.0.1",
        AIRFLOW__API__PORT=str(port),
        AIRFLOW__CORE__EXECUTION_API_SERVER_URL=f"{url}/execution/",
        AIRFLOW__CORE__PARALLELISM="4",
        BINLOG_SHOP_SCHEDULE="* * * * *",
        BINLOG_SHOP_START=start,
    )


def _make_program() -> Path:
    """Make the `airflow` that standalone finds on the PATH; return its folder.

    It leaves out two servers that would listen on every interface of the machine, for logs that
    lie in files beside the one who reads them.
    """
    program = FOLDER / "bin" / "airflow"
    program.parent.mkdir(exist_ok=True)
    program.write_text(_PROGRAM.replace("AIRFLOW", shlex.quote(_AIRFLOW)))
    program.chmod(0o755)
    return program.parent


def _choose_port() -> int:
    try:
        socket.create_server(("127.0.0.1", _USUAL_PORT)).close()
    except OSError:
        return free_port()
    return _USUAL_PORT


def _await_health(airflow: Process, port: int) -> None:
    url = f"http://127.0.0.1:{port}/api/v2/monitor/health"
    deadline = time.monotonic() + _START_SECONDS
    while not _healthy(url):
        if not airflow.alive:
            raise ServiceError(airflow.failure("it ended"))
        if time.monotonic() > deadline:
            raise ServiceError(airflow.failure(f"not healthy after {_START_SECONDS:.0f} s"))
        time.sleep(0.5)


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  Our own http://
            parts = json.loads(answer.read())
    except (OSError, ValueError):
        return False
    return all(parts[name]["status"] == "healthy" for name in ("scheduler", "dag_processor"))


def _let_happen(choice: Choice, dsn: str, airflow: Process) -> None:
    """Write a little every few seconds, until Airflow or the user ends it."""
    chance = random.Random()
    with connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {choice.database}")
        while airflow.alive:
            what = trickle(cursor, chance)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r\033[K  {time.strftime('%H:%M:%S')} {what}")
                sys.stderr.flush()
            time.sleep(_PAUSE_SECONDS)
    raise ServiceError(airflow.failure("it ended"))
