"""A `BinlogSource` as an argument of a task: rendered as any other templated argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.sources.binlog_source import BinlogSource

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import BaseOperator, Context

    _Base = BaseOperator
else:
    _Base = object


class RendersSource(_Base):
    """Base of tasks with a template field ``source``; stands before Airflow's own base class.

    Airflow renders texts, lists and mappings by itself, and assigns to the fields of other objects,
    which a frozen one refuses.
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
            return super(RendersSource, self).render_template(value, context, jinja_env, seen_oids)

        return content.render(render) if isinstance(content, BinlogSource) else render(content)
