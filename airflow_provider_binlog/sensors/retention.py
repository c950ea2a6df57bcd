"""Warn in time: the server deletes its log, staged or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue, timezone

from airflow_provider_binlog import errors
from airflow_provider_binlog.checkpoint import (
    Checkpoint,
    checkpoint_key,
    covering_staged,
    load,
)
from airflow_provider_binlog.hooks import tasks
from airflow_provider_binlog.hooks.metrics import send_lag
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.hooks.tasks import AirflowVariableStore, RendersObjects, read_dag
from airflow_provider_binlog.limits import read_size
from airflow_provider_binlog.operators.arguments import (
    read_number,
    read_timedelta,
    server_settings,
)
from airflow_provider_binlog.operators.links import SOURCE_LINKS
from airflow_provider_binlog.sources.binlog_source import BinlogSource, read_source
from airflow_provider_binlog.sources.lag import Lag, read_lag
from airflow_provider_binlog.sources.settings import Connections
from airflow_provider_binlog.staging.manifest_log import ManifestLog


class BinlogRetentionSensor(RendersObjects, BaseSensorOperator):
    """Fail if the server may soon delete log that is not staged; changes nothing.

    A purged log ends capture: all tables have to be loaded again. Head-room is how long the server
    keeps the log at the checkpoint, by its own settings. A service may delete its log sooner than
    they say, and a limit of the log's size is not among them: there ``min_bytes`` helps.

    Returns ``{"source", "position", "lag_bytes", "lag_seconds", "head_room_seconds",
    "head_room_bytes"}``; seconds of head-room are None if the server never deletes its log. Without
    a checkpoint nothing can be lost, and it succeeds.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource` to check; a server, not files.
        (templated)
    :param staging_path: As the extract operator has it, to check what is staged in place of the
        checkpoint. (templated)
    :param min_time: The head-room has to be as long: a timedelta, or seconds.
    :param min_runs: It has to last for as many runs of this DAG, each as long as it is since the
        last successful one began.
    :param min_bytes: The server still has to have so much log before the checkpoint: a number, or
        a text such as ``"10 GiB"``.
    """

    template_fields: Sequence[str] = ("source", "staging_path")
    template_fields_renderers = {"source": "json"}  # noqa: RUF012
    operator_extra_links = SOURCE_LINKS
    ui_color = "#d8ecf3"
    dag_of_source = ""

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str | None = None,
        min_time: timedelta | float = timedelta(hours=24),
        min_runs: int | None = None,
        min_bytes: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.min_time = min_time
        self.min_runs = min_runs
        self.min_bytes = min_bytes

    def poke(self, context: Context) -> PokeReturnValue:
        """Query the server once.

        Raises:
            AirflowFailException: There is too little head-room, or the position is purged already.
        """
        with tasks.fail_unless_retryable():
            source = read_source(self.source)
            with tasks.naming_repairs(source, self.staging_path):
                saved = self._load(source)
                if saved is None:
                    self.log.info("%s: there is no checkpoint yet", source.name)
                    return PokeReturnValue(is_done=True)
                # This one may be a DAG of its own, by which the page finds no source.
                self.dag_of_source = read_dag(saved.saved_by)
                connect = Connections(server_settings(source)).open
                lag = read_lag(connect, saved.position, saved.identity)
                send_lag(source.name, lag)
                self._check(source, lag, context)
        return PokeReturnValue(is_done=True, xcom_value=_describe(source, lag))

    def _load(self, source: BinlogSource) -> Checkpoint | None:
        saved = load(AirflowVariableStore(), checkpoint_key(source.name))
        if self.staging_path is None:
            return saved
        return covering_staged(saved, ManifestLog(open_store(self.staging_path), source.name))

    def _check(self, source: BinlogSource, lag: Lag, context: Context) -> None:
        self.log.info(
            "%s: %s: %s; %s bytes of log are before it",
            source.name,
            lag.position,
            _show(lag.head_room),
            f"{lag.bytes_before:,}",
        )
        wanted = self._find_wanted(context)
        if lag.head_room is not None and lag.head_room < wanted:
            keep = lag.expires_after or timedelta()
            raise errors.HeadRoomError(
                f"{_show(lag.head_room)}, and {wanted} are wanted: let the tasks run that stage "
                "it, or let the server keep its log longer (binlog_expire_logs_seconds; on RDS and "
                "Aurora binlog retention hours)",
                position=lag.position,
                lag_bytes=lag.bytes,
                kept_seconds=int(keep.total_seconds()),
            )
        if self.min_bytes is not None and lag.bytes_before < read_size(self.min_bytes, "min_bytes"):
            raise errors.HeadRoomError(
                "the server has less log before the checkpoint than is wanted: what it deletes "
                "next may not be staged yet",
                position=lag.position,
                bytes=lag.bytes_before,
                wanted=self.min_bytes,
            )

    def _find_wanted(self, context: Context) -> timedelta:
        """Return the head-room that the arguments ask for."""
        wanted = read_timedelta(self.min_time, "min_time")
        runs = read_number(self.min_runs, "min_runs")
        before: datetime | None = context.get("prev_start_date_success")
        # Airflow's value may stand for None, and not be it.
        if runs is None or not before:
            return wanted
        every: timedelta = timezone.utcnow() - before
        return max(wanted, int(runs) * every)


def _show(head_room: timedelta | None) -> str:
    if head_room is None:
        return "the server does not delete its log"
    if head_room < timedelta():
        return "the server may delete the log at the checkpoint at any time"
    hours = head_room.total_seconds() / 3600
    return f"the server keeps the log at the checkpoint for {hours:,.1f} hours more"


def _describe(source: BinlogSource, lag: Lag) -> dict[str, Any]:
    return {
        "source": source.name,
        "position": lag.position.to_json(),
        "lag_bytes": lag.bytes,
        "lag_seconds": round(lag.seconds),
        "head_room_seconds": lag.head_room_seconds,
        "head_room_bytes": lag.bytes_before,
    }
