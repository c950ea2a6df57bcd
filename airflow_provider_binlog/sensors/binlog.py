"""Wait until the server's log has grown past the checkpoint."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_binlog.checkpoint import covering_staged, load, unless_only_a_start
from airflow_provider_binlog.errors import (
    ConfigurationError,
    ForeignPositionError,
    PositionPurgedError,
)
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.hooks.tasks import (
    AirflowVariableStore,
    RendersObjects,
    checkpoint_key,
    fail_unless_retryable,
    naming_repairs,
)
from airflow_provider_binlog.sources.binlog_source import (
    BinlogSource,
    WhenNothingNew,
    check_choice,
    read_source,
)
from airflow_provider_binlog.sources.settings import Connections
from airflow_provider_binlog.sources.state import SourceState, read_server_state
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.transport.server import queries
from airflow_provider_binlog.triggers.binlog import BinlogPositionTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context


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
    :param when_nothing_new: ``"wait"`` for changes, or ``"skip"`` this task and, with it, the run.
    :param deferrable: Wait in the triggerer instead of on a worker.
    """

    template_fields: Sequence[str] = ("source", "staging_path")
    template_fields_renderers = {"source": "json"}  # noqa: RUF012
    ui_color = "#d8ecf3"

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str | None = None,
        when_nothing_new: WhenNothingNew = "wait",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.when_nothing_new = when_nothing_new
        self.deferrable = deferrable

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
            AirflowSkipException: There is nothing new, and the author chose to skip.
            AirflowFailException: The next try would fail for the same reason.
        """
        with fail_unless_retryable():
            source = read_source(self.source)
            with naming_repairs(source, self.staging_path):
                state = self._read_state(source)
        end, described = state.log_end, _describe(source, state)
        if state.has_work:
            where = f"the first run, from {state.start or source.start}"
            if state.checkpoint is not None:
                where = f"the checkpoint is at {state.checkpoint}"
            self.log.info("%s: the log ends at %s; %s", source.name, end, where)
            return PokeReturnValue(is_done=True, xcom_value=described)
        self.log.info("%s: nothing new, the log still ends at %s", source.name, end)
        if self.when_nothing_new == "skip":
            raise AirflowSkipException(f"nothing new: the log still ends at {end}")
        return PokeReturnValue(is_done=False, xcom_value=described)

    def _read_state(self, source: BinlogSource) -> SourceState:
        check_choice(WhenNothingNew, self.when_nothing_new, "when_nothing_new")
        if source.files is not None:
            raise ConfigurationError(
                "the sensor watches a server, not files: an extract that finds nothing new skips",
                files=source.files,
            )
        saved = staged = load(AirflowVariableStore(), checkpoint_key(source.name))
        if self.staging_path is not None:
            manifests = ManifestLog(open_store(self.staging_path), source.name)
            staged = covering_staged(saved, manifests)
        connect = Connections(BinlogHook(source.conn_id).settings).open
        try:
            return read_server_state(
                connect,
                unless_only_a_start(staged, source.start),
                start=source.start,
                failover=source.failover,
            )
        except (PositionPurgedError, ForeignPositionError) as error:
            if saved is None or (self.staging_path and saved.same_position(staged)):
                raise
            with closing(connect()) as connection:
                here, end = queries.identify(connection), queries.log_end(connection)
            # A reset log is lost; the log of another server may still be readable there.
            if isinstance(error, ForeignPositionError) and here != saved.identity:
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
        end = seen.xcom_value["log_end"]
        trigger = BinlogPositionTrigger(
            binlog_conn_id=read_source(self.source).conn_id,
            after=f"{end['file']}:{end['offset']}",
            poll_interval=self.poke_interval,
        )
        self.defer(
            timeout=timedelta(seconds=self.timeout),
            trigger=trigger,
            method_name="execute_complete",
        )


def _describe(source: BinlogSource, state: SourceState) -> dict[str, Any]:
    return {
        "source": source.name,
        "start": state.start.to_json() if state.start else source.start,
        "log_end": state.log_end.to_json(),
        "first": state.checkpoint is None,
        "identity": state.identity.to_json(),
    }
