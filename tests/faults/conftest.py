"""What the cells share: servers of their own, tasks, and which cells `make test` draws."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.faults.faulty_s3 import FaultyS3
from tests.faults.gate import Gate
from tests.faults.matrix import MARK
from tests.faults.memory_group import MemoryGroup
from tests.faults.tasks import Tasks, wait_until
from tests.fixtures.mysql import Database
from tests.services.s3 import S3Server
from tests.services.servers import Server
from tests.support.lake import aws_connection
from tests.support.stores import open_store

SEED = int(os.environ.get("SEED", "0"))
_COLUMNS = {"kind": "servers", "format_": "lakes", "place": "stores"}
"""The fixtures that take a word of a column."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a cell on everything that its mark names; all but one of these are slow."""
    marks = list(metafunc.definition.iter_markers(MARK))
    names = [name for name in _COLUMNS if name in metafunc.fixturenames]
    if not marks or not names:
        return
    columns = [str(marks[0].kwargs[_COLUMNS[name]]).split() for name in names]
    products = list(itertools.product(*columns))
    drawn = zlib.crc32(f"{SEED} {metafunc.definition.name}".encode()) % len(products)
    metafunc.parametrize(
        names,
        [
            pytest.param(*words, id="-".join(words), marks=() if n == drawn else pytest.mark.slow)
            for n, words in enumerate(products)
        ],
    )


@pytest.fixture(scope="session")
def own_servers(run_folder: Path) -> Iterator[dict[str, Server]]:
    """Servers that the cells kill, stop and set up otherwise, by kind."""
    made: dict[str, Server] = {}
    yield made
    for server in made.values():
        server.stop()


@pytest.fixture
def own_server(kind: str, own_servers: dict[str, Server], run_folder: Path) -> Server:
    """A server of a kind that runs; whatever happens to it, the next cell finds it running."""
    if kind not in own_servers:
        own_servers[kind] = Server.create(kind, run_folder / "faults" / kind)
    server = own_servers[kind]
    if not server.alive:
        server.start()
    return server


@pytest.fixture
def database(own_server: Server, create_database: Callable[[Server], Database]) -> Database:
    """An empty database on it."""
    return create_database(own_server)


@pytest.fixture
def tasks(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tasks]:
    """The tasks of a source over it, staging into a folder; afterwards no session is left."""
    staging = f"file://{tmp_path}/staging"
    made = Tasks(database, staging, open_store(staging), monkeypatch)
    made.begin()
    before = made.sessions()
    yield made
    if database.server.alive:
        # What failed may have left it frozen.
        os.kill(database.server.pid, signal.SIGCONT)
        wait_until(lambda: made.sessions() <= before)


@pytest.fixture
def s3(s3_server: S3Server) -> Iterator[FaultyS3]:
    """The way to the S3 server."""
    made = FaultyS3(s3_server)
    yield made
    made.close()


@pytest.fixture
def remote(tasks: Tasks, s3: FaultyS3, s3_server: S3Server) -> Tasks:
    """The tasks, staging over that way; the test itself reads the folder of the S3 server."""
    connection = aws_connection(s3_server)
    connection["extra"] |= {
        "endpoint_url": s3.endpoint,
        "config_kwargs": {
            "connect_timeout": 1,
            "read_timeout": 1,
            "retries": {"max_attempts": 1},
            "s3": {"addressing_style": "path"},
        },
    }
    # Clients are kept by the connection's id.
    folder = f"faulty_{uuid4().hex}"
    tasks.patch.setenv(f"AIRFLOW_CONN_{folder.upper()}", json.dumps(connection))
    tasks.staging = f"s3://{folder}@lake/{folder}"
    tasks.store = open_store(f"file://{s3_server.folder}/buckets/lake/{folder}")
    tasks.opens_store = True
    # Its client keeps connections, and a thread.
    tasks.pooled = True
    return tasks


@pytest.fixture
def gate(tasks: Tasks) -> Iterator[Gate]:
    """The way of the tasks to their server."""
    made = Gate(tasks.database.server)
    tasks.port = made.port
    yield made
    made.close()


@pytest.fixture
def memory_group() -> Iterator[MemoryGroup]:
    """A group of processes whose memory is limited."""
    try:
        made = MemoryGroup()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield made
    made.remove()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a small file system can be mounted by root alone")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
