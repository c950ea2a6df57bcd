"""Checkpoints in Airflow Variables."""

from __future__ import annotations

from airflow.sdk import Variable

from airflow_provider_binlog.checkpoint import KEY_PREFIX

DESCRIPTION = "How far the changes of a binary log are staged. Written by airflow-provider-binlog."


def checkpoint_key(source: str) -> str:
    """Return the key of the Variable that holds a source's checkpoint."""
    return f"{KEY_PREFIX}{source}"


class AirflowVariableStore:
    """Store of checkpoints, a Variable for each; for tasks and triggers."""

    def get(self, key: str) -> str | None:
        """Return the stored value, or None.

        Raises:
            AirflowRuntimeError: Airflow cannot determine whether there is a value.
        """
        value = Variable.get(key, default=None)
        # Airflow also returns the default where its API server did not answer.
        if value is None and key in Variable.keys(prefix=key):
            value = Variable.get(key)
        return None if value is None else str(value)

    def set(self, key: str, value: str) -> None:
        """Store `value`."""
        Variable.set(key, value, description=DESCRIPTION)
