"""Move the checkpoint past what an extract has staged, last of all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_binlog.checkpoint import Checkpoint, advance
from airflow_provider_binlog.errors import ConfigurationError, FormatError
from airflow_provider_binlog.hooks.failures import fail_unless_retryable, naming_repair_command
from airflow_provider_binlog.hooks.tasks import name_run, now
from airflow_provider_binlog.hooks.variables import AirflowVariableStore, checkpoint_key
from airflow_provider_binlog.position import Position, SourceIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context
    from airflow.sdk.definitions.xcom_arg import XComArg


class BinlogCheckpointOperator(BaseOperator):
    """Move a source's checkpoint past what was staged.

    In a DAG that stages and merges, it follows the merge; if other DAGs merge what one DAG stages,
    it follows the extract. Neither loses changes: a merge relies on the applied mark of its own
    tables. The task does nothing if the checkpoint covers what was staged already, and fails if it
    is not where the extract has read it.

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
        """Move the checkpoint; see the class."""
        with fail_unless_retryable():
            source, saved = move_checkpoint(self.staged, saved_by=name_run(context))
        self.log.info("%s: the checkpoint is at %s", source, saved)
        return {"source": source, "position": saved.position.to_json(), "sequence": saved.sequence}


def move_checkpoint(staged: Mapping[str, Any], *, saved_by: str) -> tuple[str, Checkpoint]:
    """Move a checkpoint past what was staged; return the source's name, and the checkpoint.

    Raises:
        CheckpointError: It cannot be read, or was moved since the extract.
        ConfigurationError: `staged` is not what an extract returned.
    """
    source, expected, new = read_staged(staged, saved_by=saved_by)
    with naming_repair_command(source, staged.get("staging_path")):
        key = checkpoint_key(source)
        return source, advance(AirflowVariableStore(), key, expected=expected, new=new)


def read_staged(staged: Mapping[str, Any], *, saved_by: str) -> tuple[str, Checkpoint, Checkpoint]:
    """Return the source's name, the checkpoint before the extract, and the one to save.

    Raises:
        ConfigurationError: `staged` is not what an extract returned.
    """
    try:
        new = Checkpoint(
            identity=SourceIdentity.from_json(staged["identity"]),
            position=Position.from_json(staged["stop"]),
            sequence=int(staged["last_sequence"]),
            saved_at=now(),
            saved_by=saved_by,
        )
        expected = Checkpoint.decode(json.dumps(staged["checkpoint"]))
        return str(staged["source"]), expected, new
    except (FormatError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"`staged` is what the extract operator returned: {error!r}"
        ) from error
