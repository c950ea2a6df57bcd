"""Wait in the triggerer until the log has grown."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.hooks.binlog import BinlogHook, read_settings
from airflow_provider_binlog.transport.server import queries as questions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_binlog.hooks.settings import ConnectionSettings
    from airflow_provider_binlog.position import Position

_PAUSE_SECONDS_MAX = 300.0


class BinlogPositionTrigger(BaseTrigger):
    """Fire when the log of a server does not end at a position any more.

    It only looks. What it saw is not passed on as a fact: the sensor looks again when it wakes,
    also after an error here that will not pass, and raises it where it is shown.

    :param binlog_conn_id: Id of a connection of type ``binlog``.
    :param after: The position, as ``file:offset``.
    :param poll_interval: Seconds between two looks.
    """

    def __init__(self, *, binlog_conn_id: str, after: str, poll_interval: float = 60.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.binlog_conn_id = binlog_conn_id
        self.after = after
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments that make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "binlog_conn_id": self.binlog_conn_id,
                "after": self.after,
                "poll_interval": self.poll_interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: where the log ends now, or what went wrong for good."""
        pause = self.poll_interval
        while True:
            try:
                end = await self._look()
            except BinlogError as error:
                if not error.retryable:
                    yield _event(error=f"{type(error).__name__}: {error}")
                    return
                self.log.warning("Cannot ask for the end of the log, trying again: %s", error)
                pause = min(2 * pause, max(_PAUSE_SECONDS_MAX, self.poll_interval))
            else:
                if str(end) != self.after:
                    yield _event(log_end=str(end))
                    return
                pause = self.poll_interval
            await asyncio.sleep(pause)

    async def _look(self) -> Position:
        connection = await BinlogHook.aget_connection(self.binlog_conn_id)
        return await asyncio.to_thread(_ask_log_end, read_settings(connection))


def _ask_log_end(settings: ConnectionSettings) -> Position:
    with closing(settings.connect()) as connection:
        return questions.log_end(connection)


def _event(**payload: str) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]
