"""Shared by all tasks: run name, time, mapped tasks, asset events, template fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, conf, timezone

from airflow_provider_binlog.sources.binlog_source import BinlogSource
from airflow_provider_binlog.table_options import TableOptions

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import BaseOperator, Context

    _Base = BaseOperator
else:
    _Base = object


def name_run(context: Context) -> str:
    """Return `dag_id run_id task_id`, as manifests and checkpoints note it."""
    # No logical date: it may be missing.
    instance = context["ti"]
    return f"{instance.dag_id} {instance.run_id} {instance.task_id}"


def now() -> str:
    """Return the time, ISO 8601 in UTC."""
    return timezone.utcnow().isoformat(timespec="seconds")


def max_map_length() -> int:
    """Return `[core] max_map_length`: a task that returns more values to be mapped fails."""
    return int(conf.getint("core", "max_map_length", fallback=1024))


def pass_to_outlets(task: BaseOperator, context: Context, value: dict[str, Any]) -> None:
    """Store a value in the event of every asset among a task's outlets."""
    for outlet in task.outlets:
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra = value


class RendersObjects(_Base):
    """Base of tasks with a `BinlogSource` or `TableOptions` in template fields.

    It precedes Airflow's own base class, which renders texts, lists and mappings by itself, and
    assigns to the fields of other objects, which these refuse: they are frozen.
    """

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: jinja2.Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        """Return the content with all texts in it rendered."""

        def render(value: Any) -> Any:
            return super(RendersObjects, self).render_template(value, context, jinja_env, seen_oids)

        if isinstance(content, TableOptions):
            return TableOptions(**render(content.given))
        return content.render(render) if isinstance(content, BinlogSource) else render(content)
