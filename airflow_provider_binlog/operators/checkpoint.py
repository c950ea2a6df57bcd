"""Move the checkpoint, last of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_binlog.hooks.failures import fail_unless_retryable
from airflow_provider_binlog.hooks.tasks import name_run
from airflow_provider_binlog.operators.staged import move_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context
    from airflow.sdk.definitions.xcom_arg import XComArg


class BinlogCheckpointOperator(BaseOperator):
    """Move a source's checkpoint past what was staged.

    In a DAG that stages and merges, it follows the merge; if other DAGs merge what one DAG stages,
    it follows the extract. Neither loses changes: a merge relies on the applied mark of its own
    tables. The task does nothing if the checkpoint covers what was staged already, and fails if it
    is elsewhere than the extract found it.

    Returns the checkpoint's ``{"source", "position", "sequence"}``.

    :param staged: What the extract operator returned, ``extract.output``. (templated)
    """

    template_fields: Sequence[str] = ("staged",)
    template_fields_renderers = {"staged": "json"}  # noqa: RUF012
    ui_color = "#cfe8d5"

    def __init__(self, *, staged: Mapping[str, Any] | XComArg, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.staged: Any = staged

    def execute(self, context: Context) -> dict[str, Any]:
        """Move it; see the class."""
        with fail_unless_retryable():
            source, saved = move_checkpoint(self.staged, saved_by=name_run(context))
        self.log.info("%s: the checkpoint is at %s", source, saved)
        return {"source": source, "position": saved.position.to_json(), "sequence": saved.sequence}
