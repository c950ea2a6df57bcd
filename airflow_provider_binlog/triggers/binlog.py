"""Wait in the triggerer until the log has grown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.hooks.binlog import BinlogHook, read_settings
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.transport.server import queries

_PAUSE_SECONDS_MAX = 300.0


class BinlogPositionTrigger(BaseTrigger):
    """Fire when the log of a server no longer ends at a position.

    It changes nothing, and its event is only a hint: the sensor queries the server again when it
    resumes, also after an error here that is not retryable, which it raises in the task.

    :param binlog_conn_id: Id of a connection of type ``binlog``.
    :param after: The position, as ``file:offset``.
    :param poll_interval: Seconds between two queries.
    """

    def __init__(self, *, binlog_conn_id: str, after: str, poll_interval: float = 60.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.binlog_conn_id = binlog_conn_id
        self.after = after
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments of this trigger."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "binlog_conn_id": self.binlog_conn_id,
                "after": self.after,
                "poll_interval": self.poll_interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: where the log ends now, or an error that is not retryable."""
        pause = self.poll_interval
        while True:
            try:
                end = await self._query()
            except AirflowNotFoundException as error:
                # Or Airflow does not answer. The sensor finds out, in a task that has retries.
                yield _event(error=str(error))
                return
            except BinlogError as error:
                if not error.retryable:
                    yield _event(error=f"{type(error).__name__}: {error}")
                    return
                self.log.warning("Cannot query the end of the log, trying again: %s", error)
                pause = min(2 * pause, max(_PAUSE_SECONDS_MAX, self.poll_interval))
            else:
                if str(end) != self.after:
                    yield _event(log_end=str(end))
                    return
                pause = self.poll_interval
            await asyncio.sleep(pause)

    async def _query(self) -> Position:
        connection = await BinlogHook.aget_connection(self.binlog_conn_id)
        return await asyncio.to_thread(_query_log_end, read_settings(connection))


def _query_log_end(settings: ConnectionSettings) -> Position:
    with closing(settings.connect()) as connection:
        return queries.log_end(connection)


def _event(**payload: str) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]
