"""Whether all tables of a lake are live, as the state of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.definitions.xcom_arg import XComArg
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_binlog.errors import ConfigurationError, MergeError
from airflow_provider_binlog.hooks.tasks import fail_unless_retryable
from airflow_provider_binlog.operators.links import SOURCE_LINKS
from airflow_provider_binlog.operators.merge_report import find_held, list_held
from airflow_provider_binlog.sources.binlog_source import OnStale, check_choice


class BinlogTablesLiveOperator(BaseOperator):
    """Fail while tables of a lake are ``loading`` or ``stale``, or warn of them.

    As the last task of a DAG, beside the one that moves the checkpoint, it makes a run fail for one
    table, and stops no other: these are merged, and the next run continues.

    Returns ``{"source", "not_live"}``: state, reason, position and time of each such table, by
    its name. Skips if nothing was merged.

    :param merged: What the merge operator returned, ``merge.output``. (templated)
    :param on_stale: ``"fail"`` without a retry, or ``"warn"`` in the task's log.
    """

    template_fields: Sequence[str] = ("merged",)
    template_fields_renderers = {"merged": "json"}  # noqa: RUF012
    operator_extra_links = SOURCE_LINKS
    ui_color = "#cfe8d5"

    def __init__(
        self, *, merged: Mapping[str, Any] | XComArg, on_stale: OnStale = "fail", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.merged: Any = merged
        self.on_stale = on_stale

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002  Airflow's signature
        """Look for tables that are not live; see the class."""
        with fail_unless_retryable():
            return self._check()

    def _check(self) -> dict[str, Any]:
        check_choice(OnStale, self.on_stale, "on_stale")
        if self.merged is None:
            raise AirflowSkipException("nothing was merged")
        if not isinstance(self.merged, Mapping) or "tables" not in self.merged:
            raise ConfigurationError(
                "merged is what the merge operator returned", given=self.merged
            )
        lines = list(list_held(self.merged))
        if lines and self.on_stale == "fail":
            raise MergeError("\n".join([f"tables that are not live: {len(lines)}", *lines]))
        for line in lines:
            self.log.warning("%s", line)
        shown = ("status", "reason", "position", "since")
        not_live = {
            name: {key: table[key] for key in shown if table.get(key)}
            for name, table in find_held(self.merged).items()
        }
        return {"source": self.merged["source"], "not_live": not_live}
