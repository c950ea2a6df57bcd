"""Wait in the triggerer until the log has grown; watch a log for assets."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_provider_binlog.checkpoint import checkpoint_key, load
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.hooks.binlog import BinlogHook, read_settings
from airflow_provider_binlog.hooks.metrics import send_lag, try_to_send_lag
from airflow_provider_binlog.hooks.tasks import AirflowVariableStore
from airflow_provider_binlog.position import Position, SourceIdentity
from airflow_provider_binlog.sources.lag import Thresholds, read_lag
from airflow_provider_binlog.sources.settings import Connections, ConnectionSettings
from airflow_provider_binlog.transport.server import queries

_PAUSE_SECONDS_MAX = 300.0

_log = logging.getLogger(__name__)


class BinlogPositionTrigger(BaseTrigger):
    """Fire when the log of a server has grown since a position, by as much as is worth a run.

    It changes nothing, and its event is only a hint: the sensor queries the server again when it
    resumes, also after an error here that is not retryable, which it raises in the task.

    :param binlog_conn_id: Id of a connection of type ``binlog``.
    :param since: ``{"position", "identity"}``, a position and its server in JSON; None for the
        checkpoint of ``source``.
    :param source: The source's name.
    :param min_bytes, min_transactions, max_lag: As the sensor has them.
    :param dag_id: A DAG of which a run that is queued makes an event, too.
    :param poll_interval: Seconds between two queries.
    """

    def __init__(
        self,
        *,
        binlog_conn_id: str,
        source: str,
        since: Mapping[str, Any] | None = None,
        min_bytes: int | None = None,
        min_transactions: int | None = None,
        max_lag: float | None = None,
        dag_id: str | None = None,
        poll_interval: float = 60.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.binlog_conn_id = binlog_conn_id
        self.source = source
        self.since = since
        self.min_bytes = min_bytes
        self.min_transactions = min_transactions
        self.max_lag = max_lag
        self.dag_id = dag_id
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments of this trigger."""
        names = ("binlog_conn_id", "source", "since", "dag_id", "poll_interval")
        thresholds = ("min_bytes", "min_transactions", "max_lag")
        return _path(self), {name: getattr(self, name) for name in (*names, *thresholds)}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: where the log ends now, or an error that is not retryable."""
        thresholds = Thresholds(self.min_bytes, self.min_transactions, self.max_lag)
        pauses = _Pauses(self.poll_interval)
        while True:
            try:
                if self.dag_id and await sync_to_async(has_queued_run)(self.dag_id):
                    yield _event(reason="another run is queued")
                    return
                since = await self._find_since()
                if since is None:
                    yield _event(reason="there is no checkpoint yet")
                    return
                connection = await BinlogHook.aget_connection(self.binlog_conn_id)
                grown = await asyncio.to_thread(
                    find_growth, self.source, read_settings(connection), *since, thresholds
                )
            except (AirflowNotFoundException, AirflowRuntimeError) as error:
                # Or Airflow does not answer. The sensor finds out, in a task that has retries.
                yield _event(error=str(error))
                return
            except BinlogError as error:
                if not error.retryable:
                    yield _event(error=f"{type(error).__name__}: {error}")
                    return
                self.log.warning("Cannot query the end of the log, trying again: %s", error)
                pause = pauses.after_failure()
            else:
                if grown:
                    yield _event(**grown)
                    return
                pause = pauses.after_success()
            await asyncio.sleep(pause)

    async def _find_since(self) -> tuple[Position, SourceIdentity] | None:
        if self.since is not None:
            identity = SourceIdentity.from_json(self.since["identity"])
            return Position.from_json(self.since["position"]), identity
        # By the thread that Airflow's own calls come from.
        read = sync_to_async(load)
        checkpoint = await read(AirflowVariableStore(), checkpoint_key(self.source))
        return None if checkpoint is None else (checkpoint.position, checkpoint.identity)


def has_queued_run(dag_id: str) -> bool:
    """Return whether a run of a DAG waits until it may start."""
    # A process that only parses DAGs does not need it.
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    return RuntimeTaskInstance.get_dr_count(dag_id, states=["queued"]) > 0


def find_growth(
    source: str,
    settings: ConnectionSettings,
    position: Position,
    identity: SourceIdentity,
    thresholds: Thresholds,
) -> dict[str, str]:
    """Return where the log ends, and why what follows a position is worth a run; or nothing.

    The lag is sent for as long as the run waits.
    """
    connect = Connections(settings).open
    with closing(connect()) as connection:
        end = queries.log_end(connection)
    if end.coordinates == position.coordinates:
        try_to_send_lag(source, partial(read_lag, connect, position, identity), _log)
        return {}
    if not thresholds:
        return {"log_end": str(end), "reason": "the log has grown"}
    lag = read_lag(connect, position, identity)
    send_lag(source, lag)
    reason = thresholds.find_reason(lag)
    return {"log_end": str(end), "reason": reason} if reason else {}


class LogEnd(NamedTuple):
    """The end of a log, with the sizes of its files, or why the server did not say."""

    end: Position | None = None
    logs: tuple[queries.BinaryLog, ...] = ()
    error: str = ""


class BinlogWatcherTrigger(BaseEventTrigger):
    """Fire whenever the log of a server has grown, for an ``AssetWatcher``.

    .. code-block:: python

        trigger = BinlogWatcherTrigger(binlog_conn_id="binlog_default")
        log = Asset("shop_log", watchers=[AssetWatcher(name="shop", trigger=trigger)])
        binlog_to_lake_dag("shop", SHOP, schedule=[log], ...)

    The first event follows the start, since nobody knows what was logged before; later ones follow
    what is logged. An event is a hint: the DAG's sensor queries the server. All watchers of a
    connection that have the same ``poll_interval`` share one query.

    :param binlog_conn_id: Id of a connection of type ``binlog``.
    :param min_bytes: So many bytes of log make an event; by default any.
    :param max_lag: Fewer bytes make one after so many seconds; by default never, where
        ``min_bytes`` is given.
    :param poll_interval: Seconds between two queries.
    """

    def __init__(
        self,
        *,
        binlog_conn_id: str,
        min_bytes: int | None = None,
        max_lag: float | None = None,
        poll_interval: float = 60.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.binlog_conn_id = binlog_conn_id
        self.min_bytes = min_bytes
        self.max_lag = max_lag
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments of this trigger."""
        names = ("binlog_conn_id", "min_bytes", "max_lag", "poll_interval")
        return _path(self), {name: getattr(self, name) for name in names}

    def shared_stream_key(self) -> tuple[str, ...]:
        """Return what the watchers have in common that share a query."""
        return _path(self), self.binlog_conn_id, str(self.poll_interval)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[LogEnd]:
        """Yield the end of the log at each query, or why it is not known."""
        pauses = _Pauses(kwargs["poll_interval"])
        while True:
            try:
                connection = await BinlogHook.aget_connection(kwargs["binlog_conn_id"])
                found = await asyncio.to_thread(_query_log_end, read_settings(connection))
                pause = pauses.after_success()
            except (AirflowNotFoundException, BinlogError) as error:
                found = LogEnd(error=f"{type(error).__name__}: {error}")
                pause = pauses.after_failure()
            yield found
            await asyncio.sleep(pause)

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[LogEnd]
    ) -> AsyncIterator[TriggerEvent]:
        """Yield an event whenever enough was logged, and for an error that is another one."""
        growth, error = Growth(self.min_bytes, self.max_lag), ""
        async for found in shared_stream:
            if found.end is None:
                # Nothing else shows it: the run that follows fails for it.
                if found.error != error:
                    yield _event(error=found.error)
            elif reason := growth.find_reason(found.end, found.logs, time.monotonic()):
                yield _event(log_end=str(found.end), reason=reason)
            error = found.error

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield events as a watcher of its own."""
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event


class Growth:
    """How much a log has grown since the last event of a watcher."""

    def __init__(self, min_bytes: int | None, max_lag: float | None) -> None:
        self._min_bytes = min_bytes
        self._max_lag = max_lag
        self._announced: Position | None = None
        self._waits_since: float | None = None

    def find_reason(self, end: Position, logs: Sequence[queries.BinaryLog], now: float) -> str:
        """Return why an end of the log makes an event at a time; empty if it makes none."""
        reason = self._find_reason(end, logs, now)
        if reason:
            self._announced, self._waits_since = end, None
        return reason

    def _find_reason(self, end: Position, logs: Sequence[queries.BinaryLog], now: float) -> str:
        before = self._announced
        if before is None:
            return "the watcher has started"
        if end.coordinates < before.coordinates:
            return "the log was reset"
        grown = queries.bytes_of(logs, before, end)
        if not grown:
            return ""
        if self._waits_since is None:
            self._waits_since = now
        if self._min_bytes is None or grown >= self._min_bytes:
            return f"{grown:,} bytes were logged"
        waited = now - self._waits_since
        if self._max_lag is not None and waited >= self._max_lag:
            return f"a change has waited for {waited:.0f} s"
        return ""


class _Pauses:
    """Seconds until the next query: ever longer while it fails."""

    def __init__(self, interval: float) -> None:
        self._interval = self._next = interval

    def after_success(self) -> float:
        self._next = self._interval
        return self._interval

    def after_failure(self) -> float:
        self._next = min(2 * self._next, max(_PAUSE_SECONDS_MAX, self._interval))
        return self._next


def _query_log_end(settings: ConnectionSettings) -> LogEnd:
    with closing(settings.connect()) as connection:
        logs = tuple(queries.binary_logs(connection))
        # Afterwards, so that it is not before the files that were listed.
        return LogEnd(queries.log_end(connection), logs)


def _path(trigger: BaseTrigger) -> str:
    return f"{type(trigger).__module__}.{type(trigger).__qualname__}"


def _event(**payload: str) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]
