"""What a task returns, as its outlets' asset events carry it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


def pass_to_outlets(task: BaseOperator, context: Context, value: dict[str, Any]) -> None:
    """Let the event of every asset among a task's outlets carry a value."""
    for outlet in task.outlets:
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra = value
