"""Whole tools that bring MySQL elsewhere, at pinned versions, each run as its users run it.

Debezium's engine is a small program over its jars; ingestr and dlt are installed from PyPI into an
environment each below `.run`, because their requirements contradict ours. A tool whose toolchain
is missing, or that cannot be downloaded, is left out with a line that says why.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.peers import JAVA_TOOLS, build_java, have_tools
from tests.services.cache import obtain
from tests.services.processes import RUN_FOLDER
from tests.services.progress import ServiceError, run, say, step

DEBEZIUM, INGESTR, DLT = "Debezium Engine 3.6.1.Final", "ingestr 1.1.22", "dlt 1.31.0"

_SOURCES = Path(__file__).parent
_VERSION = 1
_IDLE_SECONDS = 20
# Newer releases of ingestr bring a downloader instead of the program.
_INGESTR = ("ingestr==1.1.22",)
_DLT = (
    "dlt[filesystem,parquet,sql_database]==1.31.0",
    *("sqlalchemy==2.1.9", "pymysql==1.2.4", "connectorx==0.4.6", "pyarrow==26.0.1"),
)
_QUIET = {
    "INGESTR_DISABLE_TELEMETRY": "true",
    "RUNTIME__DLTHUB_TELEMETRY": "false",
    "RUNTIME__LOG_LEVEL": "ERROR",
}
_JAVA = ("java", "-Xmx1g", "-Djava.util.logging.config.file=/dev/null")


@dataclass(frozen=True)
class Debezium:
    """The engine as a program.

    Attributes:
        program: What it was built into.
    """

    program: Path

    def command(
        self,
        state: Path,
        port: int,
        *,
        tables: str,
        output: str,
        rows: int,
        snapshot: str = "no_data",
        stop: bool = False,
        options: dict[str, str] | None = None,
    ) -> list[str]:
        """Return the start of an engine that ends after so many rows, or some idle seconds.

        With 0 rows it ends after the first row that was read from the log. `state` has its
        offsets and schema history.
        """
        properties = {
            "name": "bench",
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": f"{state}/offsets",
            "offset.flush.interval.ms": "500" if stop else "60000",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": f"{state}/history",
            "database.hostname": "127.0.0.1",
            "database.port": str(port),
            "database.user": "root",
            "database.password": "",
            "database.server.id": "4000000001",
            "database.ssl.mode": "disabled",
            "topic.prefix": "bench",
            "table.include.list": tables,
            "snapshot.mode": snapshot,
            "include.schema.changes": "false",
            "tombstones.on.delete": "false",
            "converter.schemas.enable": "false",
            # Four times the defaults.
            "max.batch.size": "8192",
            "max.queue.size": "32768",
            **(options or {}),
        }
        start = [*_JAVA, "-cp", f"{self.program}:{self.program}/lib/*", "Debezium"]
        ending = [str(rows), str(_IDLE_SECONDS), output, "stop" if stop else "halt"]
        return [*start, *ending, *(f"{name}={value}" for name, value in properties.items())]


@dataclass(frozen=True)
class Loader:
    """A command that loads a whole table into Parquet files.

    Attributes:
        start: The command for a port, a database, a table and a folder.
        environment: Variables it runs with.
    """

    start: Callable[[int, str, str, Path], list[str]]
    environment: dict[str, str] = field(default_factory=dict)


def obtain_debezium() -> Debezium | None:
    """Return the engine, built once; None where its toolchain is missing."""
    if not have_tools("Debezium", JAVA_TOOLS):
        return None
    try:
        return Debezium(obtain(f"bench/debezium-{_VERSION}", _make_debezium))
    except ServiceError as error:
        say(f"Debezium is left out: {error}")
        return None


def obtain_ingestr() -> tuple[str, ...] | None:
    """Return the start of ingestr's command, installed once."""
    programs = _environment("ingestr", _INGESTR)
    if programs is None:
        return None
    return str(programs / "ingestr"), "ingest", "--yes", "--progress", "log"


def obtain_loaders() -> dict[str, Loader]:
    """Return the loaders that can be installed here, by title."""
    found: dict[str, Loader] = {}
    if (ingestr := obtain_ingestr()) is not None:
        found[f"{INGESTR}, to a Parquet file"] = Loader(
            lambda port, database, table, folder: [
                *(*ingestr, "--source-uri", f"mysql://root@127.0.0.1:{port}/{database}"),
                *("--source-table", f"{database}.{table}"),
                *("--dest-uri", f"parquet://{folder}/table.parquet", "--dest-table", "main.loaded"),
            ],
            _QUIET,
        )
    if (python := _environment("dlt", _DLT)) is not None:
        for backend in ("pyarrow", "connectorx"):
            found[f"{DLT}, backend {backend}, to Parquet"] = Loader(
                lambda port, database, table, folder, backend=backend: [  # type: ignore[misc]
                    *(str(python / "python"), str(_SOURCES / "dlt" / "load.py")),
                    *(str(port), database, table, str(folder), backend),
                ],
                _QUIET,
            )
    return found


def _make_debezium(folder: Path) -> None:
    with step("bench: build Debezium's engine"):
        build_java(_SOURCES / "debezium", "Debezium", folder)


def _environment(name: str, requirements: tuple[str, ...]) -> Path | None:
    """Return the programs of an environment with these packages, made once."""
    folder = RUN_FOLDER / "bench-tools" / name
    stamp = folder / "made-from"
    if stamp.exists() and stamp.read_text() == "\n".join(requirements):
        return folder / "bin"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with step(f"bench: install {name}"):
            run([sys.executable, "-m", "venv", "--without-pip", folder])
            pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
            run([*pip, "install", "-q", *requirements], env=os.environ | {"PIP_NO_INPUT": "1"})
    except ServiceError as error:
        say(f"{name} is left out: {error}")
        return None
    stamp.write_text("\n".join(requirements))
    return folder / "bin"
