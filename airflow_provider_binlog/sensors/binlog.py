"""Wait until the server's log has grown past the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowSkipException
from airflow.triggers.base import StartTriggerArgs

from airflow_provider_binlog import errors
from airflow_provider_binlog.checkpoint import (
    checkpoint_key,
    covering_staged,
    load,
    unless_only_a_start,
)
from airflow_provider_binlog.hooks import tasks
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.metrics import send_lag, try_to_send_lag
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.hooks.tasks import AirflowVariableStore, RendersObjects
from airflow_provider_binlog.limits import read_size
from airflow_provider_binlog.operators.arguments import read_number
from airflow_provider_binlog.operators.links import SOURCE_LINKS
from airflow_provider_binlog.sources import binlog_source
from airflow_provider_binlog.sources.binlog_source import BinlogSource, WhenNothingNew
from airflow_provider_binlog.sources.lag import Thresholds, read_lag
from airflow_provider_binlog.sources.settings import Connections
from airflow_provider_binlog.sources.state import SourceState, read_server_state
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.transport.server import queries
from airflow_provider_binlog.transport.server.driver import Connect
from airflow_provider_binlog.triggers.binlog import BinlogPositionTrigger, has_queued_run


class BinlogPositionSensor(RendersObjects, BaseSensorOperator):
    """Succeed when the log ends after the source's checkpoint. Changes nothing.

    A merge that fails holds the checkpoint back. With ``staging_path`` the sensor compares with
    what is staged instead, so that a DAG that runs continuously waits for changes all the same.

    Without a checkpoint it succeeds at once: there the first run begins, at the source's start.
    Pass what it returns to the extract operator, ``start=sensor.output``, so that ``"now"`` is
    resolved once.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource` to watch; a server, not files.
        (templated)
    :param staging_path: As the extract operator has it, to compare with the newest manifest there
        in place of the checkpoint. (templated)
    :param plan: Arguments of the :class:`~airflow_provider_binlog.BinlogSnapshotPlanOperator` that
        follows, but for its source, by name. Where nothing was logged the sensor then succeeds all
        the same if a lake table is ``loading`` or ``stale`` that can be reloaded now, or if a
        snapshot or a staged range is not merged yet. (templated)
    :param when_nothing_new: ``"wait"`` for changes, ``"skip"`` this task and, with it, the run, or
        ``"proceed"``, for tasks that wait for changes themselves. Where a DAG has
        ``max_active_runs=1``, a run that waits skips, too, once another one is queued, also one of
        a backfill, or for a later time.
    :param min_bytes: Fewer bytes of log count as nothing new: a number, or a text such as
        ``"64 MiB"``.
    :param min_transactions: So many transactions are enough, whatever their bytes are. They are
        counted by their GTIDs.
    :param max_lag: Seconds after which any change is enough. Without it, fewer bytes or
        transactions wait as long as it takes.
    :param deferrable: Wait in the triggerer instead of on a worker.
    :param start_from_trigger: Wait there from the start: no worker is needed until there is
        something new. The source's name and connection are then not templated. It is not for
        ``when_nothing_new="skip"``.
    """

    template_fields: Sequence[str] = ("source", "staging_path", "plan")
    template_fields_renderers = {"source": "json", "plan": "json"}  # noqa: RUF012
    operator_extra_links = SOURCE_LINKS
    ui_color = "#d8ecf3"
    start_trigger_args = StartTriggerArgs(
        trigger_cls=f"{BinlogPositionTrigger.__module__}.{BinlogPositionTrigger.__qualname__}",
        next_method="execute_complete",
    )

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str | None = None,
        plan: Mapping[str, Any] | None = None,
        when_nothing_new: WhenNothingNew = "wait",
        min_bytes: int | str | None = None,
        min_transactions: int | None = None,
        max_lag: float | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        start_from_trigger: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.plan = plan
        self.when_nothing_new = when_nothing_new
        self.min_bytes = min_bytes
        self.min_transactions = min_transactions
        self.max_lag = max_lag
        self.deferrable = deferrable
        self.start_from_trigger = start_from_trigger
        if start_from_trigger:
            self.start_trigger_args = replace(
                self.start_trigger_args,
                trigger_kwargs=self._trigger(None).serialize()[1],
                timeout=timedelta(seconds=self.timeout),
            )

    def execute(self, context: Context) -> Any:
        """Return ``{"source", "start", "log_end", "first", "identity"}`` when there is work."""
        if not self.deferrable:
            return super().execute(context)
        return self._succeed_or_defer(context)

    def execute_complete(self, context: Context, event: dict[str, str]) -> Any:
        """Query again: the event of the trigger is only a hint, and errors are raised here."""
        self.log.info("Woken by the triggerer: %s", event)
        return self._succeed_or_defer(context)

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002  Airflow's signature
        """Query the server once.

        Raises:
            AirflowSkipException: There is nothing new, and the author chose to skip, or another
                run of the DAG can only start once this one has ended.
            AirflowFailException: The next try would fail for the same reason.
        """
        with tasks.fail_unless_retryable():
            source = binlog_source.read_source(self.source)
            with tasks.naming_repairs(source, self.staging_path):
                state = self._read_state(source)
                few = self._find_shortage(source, state)
                is_due = state.has_work and not few
                unmerged = "" if is_due else self._find_unmerged(source, state)
        end, described = state.log_end, _describe(source, state)
        if is_due:
            where = f"the first run, from {state.start or source.start}"
            if state.checkpoint is not None:
                where = f"the checkpoint is at {state.checkpoint}"
            self.log.info("%s: the log ends at %s; %s", source.name, end, where)
            return PokeReturnValue(is_done=True, xcom_value=described)
        nothing = few or f"nothing new, the log still ends at {end}"
        if unmerged:
            self.log.info("%s: %s, but %s", source.name, nothing, unmerged)
            return PokeReturnValue(is_done=True, xcom_value=described)
        self.log.info("%s: %s", source.name, nothing)
        if self.when_nothing_new == "skip":
            raise AirflowSkipException(nothing)
        blocked = self._find_blocked_dag()
        if blocked and has_queued_run(blocked):
            raise AirflowSkipException(f"{nothing}; another run is queued, which may start now")
        is_done = self.when_nothing_new == "proceed"
        return PokeReturnValue(is_done=is_done, xcom_value=described)

    def _find_shortage(self, source: BinlogSource, state: SourceState) -> str:
        """Return why what was logged is not staged yet; empty if it is, or nothing was logged.

        The lag is sent, also where nothing was logged: a metric keeps its last value.
        """
        # After a failover, and where the log was purged, a run is due in any case.
        if state.checkpoint is None or not state.start:
            return ""
        read = partial(read_lag, self._connect(source), state.start, state.identity)
        thresholds = self._read_thresholds()
        if not thresholds:
            try_to_send_lag(source.name, read, self.log)
            return ""
        lag = read()
        send_lag(source.name, lag)
        if not state.has_work or thresholds.find_reason(lag):
            return ""
        return f"{lag.bytes:,} bytes wait, for {lag.seconds:.0f} s, which is below the thresholds"

    def _find_blocked_dag(self) -> str | None:
        """Return the DAG if its next run cannot start while this one waits for changes."""
        dag = self.get_dag()
        if dag is None or dag.max_active_runs != 1 or self.when_nothing_new != "wait":
            return None
        return dag.dag_id

    def _read_thresholds(self) -> Thresholds:
        """Return the thresholds, checked."""
        numbers = {"min_transactions": self.min_transactions, "max_lag": self.max_lag}
        checked = {name: read_number(value, name) for name, value in numbers.items()}
        size = None if self.min_bytes is None else read_size(self.min_bytes, "min_bytes")
        return Thresholds(size, **checked)

    def _connect(self, source: BinlogSource) -> Connect:
        return Connections(BinlogHook(source.conn_id).settings).open

    def _find_unmerged(self, source: BinlogSource, state: SourceState) -> str:
        """Return what a run has to merge although nothing was logged; empty if there is nothing."""
        if self.plan is None or state.checkpoint is None:
            return ""
        # Here, so that parsing a DAG loads no driver.
        from airflow_provider_binlog.operators.needed_tables import NeededTables

        return NeededTables(source=source, **self.plan).find_unmerged(state.checkpoint)

    def _read_state(self, source: BinlogSource) -> SourceState:
        binlog_source.check_choice(WhenNothingNew, self.when_nothing_new, "when_nothing_new")
        if source.files is not None:
            raise errors.ConfigurationError(
                "the sensor watches a server, not files: an extract that finds nothing new skips",
                files=source.files,
            )
        saved = staged = load(AirflowVariableStore(), checkpoint_key(source.name))
        if self.staging_path is not None:
            manifests = ManifestLog(open_store(self.staging_path), source.name)
            staged = covering_staged(saved, manifests)
        connect = self._connect(source)
        try:
            return read_server_state(
                connect,
                unless_only_a_start(staged, source.start),
                start=source.start,
                failover=source.failover,
            )
        except (errors.PositionPurgedError, errors.ForeignPositionError) as error:
            if saved is None or (self.staging_path and saved.same_position(staged)):
                raise
            with closing(connect()) as connection:
                here, end = queries.identify(connection), queries.log_end(connection)
            # A reset log is lost; the log of another server may still be readable there.
            if isinstance(error, errors.ForeignPositionError) and here != saved.identity:
                raise
            self.log.warning(
                "%s: the extract task passes on what is staged already, if anything is: %s",
                source.name,
                error,
            )
            return SourceState(saved.identity, saved, None, end, has_new_gtids=True)

    def _succeed_or_defer(self, context: Context) -> Any:  # noqa: RET503  defer never returns
        seen: Any = self.poke(context)
        if seen.is_done:
            return seen.xcom_value
        start, end = seen.xcom_value["start"], seen.xcom_value["log_end"]
        # Of another server's checkpoint the position is not one here.
        position = start if isinstance(start, Mapping) else end
        self.defer(
            timeout=timedelta(seconds=self.timeout),
            trigger=self._trigger({"position": position, "identity": seen.xcom_value["identity"]}),
            method_name="execute_complete",
        )

    def _trigger(self, since: Mapping[str, Any] | None) -> BinlogPositionTrigger:
        source = binlog_source.read_source(self.source)
        thresholds = self._read_thresholds()
        return BinlogPositionTrigger(
            binlog_conn_id=source.conn_id,
            source=source.name,
            since=since,
            min_bytes=thresholds.min_bytes,
            min_transactions=thresholds.min_transactions,
            max_lag=thresholds.max_lag,
            dag_id=self._find_blocked_dag(),
            poll_interval=self.poke_interval,
        )


def _describe(source: BinlogSource, state: SourceState) -> dict[str, Any]:
    return {
        "source": source.name,
        "start": state.start.to_json() if state.start else source.start,
        "log_end": state.log_end.to_json(),
        "first": state.checkpoint is None,
        "identity": state.identity.to_json(),
    }
