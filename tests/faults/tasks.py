"""The tasks of one DAG, run by a test one at a time: none of them may leave anything open."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_binlog import errors
from airflow_provider_binlog.checkpoint import Checkpoint, checkpoint_key
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.operators import extract
from airflow_provider_binlog.operators.extract import (
    BinlogCheckpointOperator,
    BinlogExtractOperator,
)
from airflow_provider_binlog.sources.binlog_source import BinlogSource
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.transport.server import queries
from tests.fixtures.mysql import Database
from tests.support.extract_worker import context
from tests.support.staged import apply_all, manifests_after
from tests.support.stores import Checkpoints

# A test that waits this long has found a leak.
_SECONDS_MAX = 20.0
READ_TIMEOUT = 3
LARGE = 1_000_000
SESSIONS = "SELECT id FROM information_schema.processlist WHERE user = 'root'"


@dataclass
class Tasks:
    """The tasks of one source.

    Attributes:
        database: What they capture.
        staging: Where they stage, as the operators take it.
        store: The same place.
        patch: Sets what Airflow would.
        source: The source that they name.
        port: Of the server, or of a proxy to it.
        server_id: What the connection says that we register as.
        account: Fields of the connection that say who logs in, and how.
        opens_store: Whether the tasks open the store as they do in Airflow, over `staging`.
        read_timeout: Of the connection, in seconds.
        pooled: Whether files are opened meanwhile that stay open: by the client of a store, which
            keeps its connections, or by the test.
    """

    database: Database
    staging: str
    store: ObjectStore
    patch: pytest.MonkeyPatch
    source: BinlogSource = field(default_factory=lambda: BinlogSource("shop", start="now"))
    variables: Checkpoints = field(default_factory=Checkpoints)
    port: int = 0
    server_id: int | None = None
    account: Mapping[str, Any] = field(default_factory=lambda: {"login": "root"})
    read_timeout: int = READ_TIMEOUT
    opens_store: bool = False
    pooled: bool = False

    def named(self, name: str, **options: Any) -> Tasks:
        """Return another source of the same database, of which nothing is staged yet."""
        source = replace(self.source, name=name, **options)
        return replace(self, source=source, variables=Checkpoints())

    def begin(self) -> None:
        """Save where the log ends, and let a table and some changes follow."""
        with closing(self.database.connect()) as connection:
            end = str(queries.log_end(connection)).split(" ")[0]
        self.source = replace(self.source, start=end)
        self.database.execute("CREATE TABLE orders (id INT PRIMARY KEY, note LONGTEXT)")
        self.change(1)

    def change(self, number: int) -> None:
        """Insert, update, delete and move rows, in some transactions."""
        low = number * 100
        rows = ", ".join(f"({low + index}, 'new {index}')" for index in range(20))
        self.database.execute(
            f"INSERT INTO orders VALUES {rows}",
            f"UPDATE orders SET note = 'changed' WHERE id BETWEEN {low} AND {low + 5}",
            f"UPDATE orders SET id = id + 50 WHERE id BETWEEN {low + 3} AND {low + 7}",
            f"DELETE FROM orders WHERE id BETWEEN {low + 10} AND {low + 12}",
        )

    def grow(self, number: int, count: int = 16) -> None:
        """Let the log grow by more than what the network's buffers hold."""
        for index in range(count):
            row = f"({number * 100 + 70 + index}, REPEAT('{index % 10}', {LARGE}))"
            self.database.execute(f"INSERT INTO orders VALUES {row}")

    # --------------------------------------------------------------- the tasks

    def stage(self, **arguments: Any) -> dict[str, Any]:
        """Run the extract task once."""
        self._set_up()
        operator = BinlogExtractOperator(
            task_id="stage",
            source=self.source,
            staging_path=self.staging,
            tables=[f"{self.database.name}.*"],
            **arguments,
        )
        with self._leaving_nothing():
            staged: dict[str, Any] = operator.execute(context())
        return staged

    def save(self, staged: dict[str, Any]) -> None:
        """Run the checkpoint task."""
        self._set_up()
        BinlogCheckpointOperator(task_id="checkpoint", staged=staged).execute(context())

    def run(self, **arguments: Any) -> dict[str, Any]:
        """Run the tasks, and compare what is staged with the database."""
        staged = self.stage(**arguments)
        self.save(staged)
        self.check()
        assert self.checkpoint().sequence == staged["last_sequence"]
        return staged

    def fails(self, *kinds: type[BinlogError], says: str = "") -> str:
        """Run the extract task, which fails by one of these, or by an error that is one of them.

        Airflow retries it exactly where its class is retryable. What is staged, and the checkpoint,
        stay as they are. Return what the error says.
        """
        saved, staged = dict(self.variables), self._sequences()
        with pytest.raises((AirflowFailException, BinlogError)) as caught:
            self.stage()
        text, error = str(caught.value), caught.value
        if isinstance(error, BinlogError):
            text = f"{type(error).__name__}: {error}"
            assert error.retryable, text
        found = getattr(errors, text.partition(":")[0])
        assert issubclass(found, kinds), text
        assert found.retryable == isinstance(error, BinlogError), text
        assert says in text, text
        first = not saved
        assert first or dict(self.variables) == saved
        assert self._sequences() == staged
        return text

    def nothing_left(self) -> None:
        """Check that the log is staged to its end."""
        with pytest.raises(AirflowSkipException):
            self.stage()

    # --------------------------------------------------------------- what is there

    def checkpoint(self) -> Checkpoint:
        """Return the saved checkpoint."""
        return Checkpoint.decode(self.variables[checkpoint_key(self.source.name)])

    def manifests(self) -> list[Manifest]:
        """Return everything that is staged."""
        return list(manifests_after(ManifestLog(self.store, self.source.name), 0))

    def check(self) -> None:
        """Compare what is staged with what SELECT returns, and with the checkpoint."""
        manifests, tables = apply_all(self.store, self.source.name)
        for table, staged in tables.items():
            selected = self.database.query(f"SELECT * FROM {table} ORDER BY 1")
            assert [tuple(row.values()) for _, row in sorted(staged.items())] == selected
        assert tables
        saved = self.checkpoint()
        # Never ahead of what is staged.
        covered = manifests[saved.sequence - 1]
        assert covered.sequence == saved.sequence
        assert saved.position.coordinates == covered.stop.coordinates

    def sessions(self) -> int:
        """Return how many sessions the server has, without this one."""
        return len(self.database.query(SESSIONS)) - 1

    def dump_thread(self) -> int:
        """Return the id of the newest session that sends us the log."""
        found: list[tuple[Any, ...]] = []

        def find() -> bool:
            # MariaDB shows as "Busy" what it cannot look at.
            found[:] = self.database.query(
                "SELECT MAX(id) FROM information_schema.processlist "
                "WHERE command LIKE 'Binlog Dump%%' HAVING MAX(id)"
            )
            return bool(found)

        wait_until(find)
        return int(found[0][0])

    # --------------------------------------------------------------- what surrounds a task

    def connection(self) -> str:
        """Return what Airflow stores of the connection."""
        server = self.database.server
        fields = {
            "conn_type": "binlog",
            "host": server.host,
            "port": self.port or server.port,
            **self.account,
        }
        extra = {
            "ssl_mode": "disabled",
            "read_timeout": self.read_timeout,
            "connect_timeout": self.read_timeout,
            "server_id": self.server_id,
        }
        return json.dumps(fields | {"extra": extra | fields.get("extra", {})})

    def _set_up(self) -> None:
        self.patch.setenv("AIRFLOW_CONN_BINLOG_DEFAULT", self.connection())
        self.patch.setattr(extract, "AirflowVariableStore", lambda: self.variables)
        if not self.opens_store:
            self.patch.setattr(extract, "open_store", lambda _: self.store)

    @contextmanager
    def _leaving_nothing(self) -> Iterator[None]:
        threads, files = _threads(), _open_files()
        try:
            yield
        finally:
            if not self.pooled:
                wait_until(lambda: _threads() <= threads and _open_files() <= files)

    def _sequences(self) -> list[str]:
        return self.store.list(f"{self.source.name}/manifests")


def wait_until(done: Callable[[], bool]) -> None:
    """Return when `done()`; fail the test if that takes too long."""
    deadline = time.monotonic() + _SECONDS_MAX
    while not done():
        assert time.monotonic() < deadline, "left open"
        time.sleep(0.02)


def _threads() -> int:
    return threading.active_count()


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def log_files(tasks: Tasks) -> list[Path]:
    """Return the files of the server's log, in their order."""
    return sorted(tasks.database.server.data.glob(f"binlog.{'[0-9]' * 6}"))
