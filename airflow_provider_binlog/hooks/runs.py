"""Which run, and when: noted in manifests and checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import timezone

if TYPE_CHECKING:
    from airflow.sdk import Context


def name_run(context: Context) -> str:
    """Return `dag_id run_id task_id`: a logical date may be missing, these are always there."""
    instance = context["ti"]
    return f"{instance.dag_id} {instance.run_id} {instance.task_id}"


def now() -> str:
    """Return the time, ISO 8601 in UTC."""
    return timezone.utcnow().isoformat(timespec="seconds")
