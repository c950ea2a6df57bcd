"""Airflow Variables as the store of checkpoints."""

from __future__ import annotations

from airflow.sdk import Variable

from airflow_provider_binlog.checkpoint import KEY_PREFIX

DESCRIPTION = "How far the changes of a binary log are staged. Written by airflow-provider-binlog."


def checkpoint_key(source: str) -> str:
    """Return the key of the Variable that holds a source's checkpoint."""
    return f"{KEY_PREFIX}{source}"


class AirflowVariableStore:
    """Checkpoints in Variables, one each; for tasks and triggers."""

    def get(self, key: str) -> str | None:
        """Return the stored value, or None.

        Raises:
            AirflowRuntimeError: Airflow cannot say whether there is one.
        """
        value = Variable.get(key, default=None)
        # Airflow returns the default, too, where its API server did not answer.
        if value is None and key in Variable.keys(prefix=key):
            value = Variable.get(key)
        return None if value is None else str(value)

    def set(self, key: str, value: str) -> None:
        """Store `value`."""
        Variable.set(key, value, description=DESCRIPTION)
