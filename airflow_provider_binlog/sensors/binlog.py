"""Wait until the server's log has grown past the checkpoint."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.retries import fail_unless_retryable
from airflow_provider_binlog.hooks.standing import REFUSE, Standing, look
from airflow_provider_binlog.hooks.variables import AirflowVariableStore, checkpoint_key
from airflow_provider_binlog.triggers.binlog import BinlogPositionTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

WHEN_NOTHING_NEW = ("wait", "skip")


class BinlogPositionSensor(BaseSensorOperator):
    """Succeed when the log ends behind the source's checkpoint. Looks only, and moves nothing.

    Without a checkpoint it succeeds at once: there the first run begins, at ``start``. What it
    returns goes into the extract operator, ``start=sensor.output``, so that "now" is decided once.

    :param source: The source's name; its checkpoint is the Variable
        ``binlog_checkpoint_<source>``. (templated)
    :param start: Where the very first run begins: ``"now"``, ``"earliest"`` (the oldest log that
        the server still has), a position ``"binlog.000042:4"`` or a GTID set: everything that has
        been applied already. Not looked at once there is a checkpoint. It has no default, because
        every default would skip or repeat data for somebody. (templated)
    :param binlog_conn_id: Id of a connection of type ``binlog``. (templated)
    :param when_nothing_new: ``"wait"`` for changes, or ``"skip"`` this task and, with it, the run.
    :param failover: What to do where the checkpoint belongs to another server than the connection
        leads to: ``"refuse"``, or ``"follow"`` it by its GTIDs. (templated)
    :param deferrable: Wait in the triggerer instead of on a worker.
    """

    template_fields: Sequence[str] = ("source", "start", "binlog_conn_id", "failover")
    ui_color = "#d8ecf3"

    def __init__(
        self,
        *,
        source: str,
        start: str,
        binlog_conn_id: str = BinlogHook.default_conn_name,
        when_nothing_new: Literal["wait", "skip"] = "wait",
        failover: str = REFUSE,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.start = start
        self.binlog_conn_id = binlog_conn_id
        self.when_nothing_new = when_nothing_new
        self.failover = failover
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Return ``{"source", "start", "log_end", "first"}`` when there is something to do."""
        if not self.deferrable:
            return super().execute(context)
        return self._succeed_or_defer(context)

    def execute_complete(self, context: Context, event: dict[str, str]) -> Any:
        """Look again: what the trigger saw may have passed, and an error is raised here."""
        self.log.info("Woken by the triggerer: %s", event)
        return self._succeed_or_defer(context)

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002  Airflow's signature
        """Look once.

        Raises:
            AirflowSkipException: There is nothing new, and the author asked to skip.
            AirflowFailException: What is wrong will still be wrong at the next look.
        """
        standing = self._look()
        if standing.has_work:
            where = standing.checkpoint or f"the first run, from {standing.start or self.start}"
            self.log.info("%s: the log ends at %s; %s", self.source, standing.log_end, where)
            return PokeReturnValue(is_done=True, xcom_value=self._describe(standing))
        self.log.info("%s: nothing new, the log still ends at %s", self.source, standing.log_end)
        if self.when_nothing_new == "skip":
            raise AirflowSkipException(f"nothing new: the log still ends at {standing.log_end}")
        return PokeReturnValue(is_done=False, xcom_value=self._describe(standing))

    def _look(self) -> Standing:
        with fail_unless_retryable():
            if self.when_nothing_new not in WHEN_NOTHING_NEW:
                raise ConfigurationError(
                    f"when_nothing_new is one of {', '.join(WHEN_NOTHING_NEW)}",
                    given=self.when_nothing_new,
                )
            settings = BinlogHook(self.binlog_conn_id).settings
            store, key = AirflowVariableStore(), checkpoint_key(self.source)
            return look(settings, store, key, start=self.start, failover=self.failover)

    def _describe(self, standing: Standing) -> dict[str, Any]:
        return {
            "source": self.source,
            "start": standing.start.to_json() if standing.start else self.start,
            "log_end": standing.log_end.to_json(),
            "first": standing.checkpoint is None,
        }

    def _succeed_or_defer(self, context: Context) -> Any:  # noqa: RET503  defer never returns
        seen: Any = self.poke(context)
        if seen.is_done:
            return seen.xcom_value
        trigger = BinlogPositionTrigger(
            binlog_conn_id=self.binlog_conn_id,
            after=_place(seen.xcom_value["log_end"]),
            poll_interval=self.poke_interval,
        )
        self.defer(
            timeout=timedelta(seconds=self.timeout),
            trigger=trigger,
            method_name="execute_complete",
        )


def _place(position: dict[str, Any]) -> str:
    return f"{position['file']}:{position['offset']}"
