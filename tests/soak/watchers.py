"""What waits in the triggerer for as long as a soak takes: watchers of logs."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping

import pytest

from airflow_provider_binlog.triggers.binlog import BinlogWatcherTrigger
from tests.services.servers import Server

_POLL_SECONDS = 2.0


class Watchers:
    """Triggers that query the ends of the logs of some servers until they are stopped.

    Attributes:
        fired: How often the log of each server had grown.
    """

    def __init__(self, servers: Mapping[str, Server], patch: pytest.MonkeyPatch) -> None:
        self.fired = dict.fromkeys(servers, 0)
        self._failure: Exception | None = None
        self._loop = asyncio.new_event_loop()
        for name, server in servers.items():
            connection = {
                "conn_type": "binlog",
                "host": server.host,
                "port": server.port,
                "login": "root",
                "extra": {"ssl_mode": "disabled", "read_timeout": 10, "connect_timeout": 10},
            }
            patch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
        self._tasks = [self._loop.create_task(self._watch(name)) for name in servers]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Cancel the triggers.

        Raises:
            Exception: What ended one early.
        """
        for task in self._tasks:
            self._loop.call_soon_threadsafe(task.cancel)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        found = self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._failure = next((each for each in found if isinstance(each, Exception)), None)
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _watch(self, name: str) -> None:
        trigger = BinlogWatcherTrigger(binlog_conn_id=name, poll_interval=_POLL_SECONDS)
        async for event in trigger.run():
            if "error" in event.payload:
                raise RuntimeError(event.payload["error"])
            self.fired[name] += 1
