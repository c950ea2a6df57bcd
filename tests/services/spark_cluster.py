"""A Spark standalone cluster: a master and workers, in processes and folders of their own.

cluster = SparkCluster(folder)
cluster.start()
cluster.master    # spark://127.0.0.1:port
"""

from __future__ import annotations

import json
import os
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.services.jars import spark_home
from tests.services.java import java_home
from tests.services.processes import Process, free_port

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.worker.timeout=10"


class SparkCluster:
    """A cluster on loopback whose processes know nothing of whoever submits to it.

    Attributes:
        folder: Of the logs, and in `worker-N` of what each worker runs.
        master: The address that takes applications.
    """

    def __init__(self, folder: Path, *, workers: int = 1) -> None:
        self.folder = folder.absolute()
        self._port, self._page = free_port(), free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self._count = workers
        self._master: Process | None = None
        self._workers: dict[int, Process] = {}

    def start(self) -> None:
        """Start the master and its workers, and return when they have registered.

        Raises:
            ServiceError: One of them does not start.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        address = ("--host", "127.0.0.1", "--port", str(self._port))
        page = ("--webui-port", str(self._page))
        self._master = self._run("master", "master.Master", *address, *page)
        self._master.wait_until(lambda: bool(self.state()))
        for number in range(self._count):
            self._add_worker(number)
        self._master.wait_until(lambda: self.alive_workers() == self._count)

    def kill_worker(self, number: int) -> None:
        """End a worker at once, as a crash would; its executors notice that."""
        self._workers[number].kill()

    def stop(self) -> None:
        """End all of it."""
        for process in (*self._workers.values(), self._master):
            if process is not None:
                process.stop()

    def alive_workers(self) -> int:
        """Return how many workers the master counts on."""
        return int(self.state().get("aliveworkers", 0))

    def state(self) -> dict[str, Any]:
        """Return what the master's page says; nothing before it is there."""
        try:
            with closing(HTTPConnection("127.0.0.1", self._page, timeout=5)) as connection:
                connection.request("GET", "/json/")
                state: dict[str, Any] = json.load(connection.getresponse())
        except OSError:
            return {}
        return state

    def executors(self) -> dict[int, int]:
        """Return the executors that run: by process id the number of their worker."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                    folder = (process / "cwd").readlink()
                    if folder.is_relative_to(self.folder):
                        worker = folder.relative_to(self.folder).parts[0]
                        found[int(process.name)] = int(worker.removeprefix("worker-"))
        return found

    def has_run_tasks(self, executor: int) -> bool:
        """Whether a process of an executor has begun a task."""
        with suppress(OSError):
            output = Path(f"/proc/{executor}/cwd/stderr").read_text(errors="replace")
            return "Running task" in output
        return False

    def _add_worker(self, number: int) -> Process:
        folder = self.folder / f"worker-{number}"
        folder.mkdir()
        size = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--work-dir", folder)
        page = ("--webui-port", str(free_port()), self.master)
        self._workers[number] = self._run(folder.name, "worker.Worker", *size, *page)
        return self._workers[number]

    def _run(self, name: str, program: str, *arguments: str | Path) -> Process:
        argv = (spark_home() / "bin" / "spark-class", f"org.apache.spark.deploy.{program}")
        env = {
            "HOME": str(self.folder),
            "JAVA_HOME": str(java_home()),
            "PATH": os.defpath,
            "SPARK_DAEMON_JAVA_OPTS": _QUICK,
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_LOCAL_DIRS": str(self.folder / f"{name}-local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        return Process((*argv, *arguments), folder=self.folder, name=name, env=env)
