"""Links from a task: the page of its source, the manifest that it staged, help with its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from airflow.sdk import BaseOperatorLink, conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "binlog"
"""Where the api-server mounts the page."""

ROUTE = "binlog"
"""Names the page's view in Airflow's UI: `/plugin/<route>/<path of the page>`."""


def base_path() -> str:
    """Return the path of Airflow's UI, without a slash at its end; empty for the root."""
    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def page_url(page: str, **query: object) -> str:
    """Return the address of a page in Airflow's UI; `[api] base_url` says where that is."""
    base = conf.get("api", "base_url", fallback="").rstrip("/")
    return f"{base}/plugin/{ROUTE}{base_path()}/{PREFIX}/{page}?{urlencode(query)}"


class BinlogSourceLink(BaseOperatorLink):
    """Link to the page of a task's source."""

    name = "Binlog page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address; empty where the task names no source."""
        source = find_source_name(operator)
        dag_id = getattr(operator, "dag_of_source", "") or ti_key.dag_id
        return page_url("source", dag_id=dag_id, name=source) if source else ""


class BinlogErrorLink(BaseOperatorLink):
    """Link to what the docs say of the error that a task failed with."""

    name = "What to do"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Return the address; empty where the task failed with none of our errors."""
        # A process that only loads plugins needs no operator, which this loads.
        from airflow_provider_binlog.hooks.tasks import failed_with

        error = failed_with()
        return page_url("error", name=error) if error else ""


SOURCE_LINKS = (BinlogSourceLink(), BinlogErrorLink())
"""Of tasks in a DAG that captures, plans or merges: by those the page finds a source.

A task in another DAG keeps the id of such a one as `dag_of_source`.
"""


class BinlogManifestLink(BaseOperatorLink):
    """Link to the newest manifest that a task returned, and keeps as `staged`."""

    name = "Manifest"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address; empty where the task staged nothing."""
        staged = getattr(operator, "staged", None)
        if not staged:
            return ""
        return page_url(
            "manifest",
            dag_id=ti_key.dag_id,
            name=staged["source"],
            sequence=staged["last_sequence"],
        )


def find_source_name(operator: Any) -> str:
    """Return the name of the source that a task has, or that an earlier one passed; or nothing."""
    source = getattr(operator, "source", None)
    if isinstance(source, Mapping):
        return str(source.get("name", ""))
    if source is not None:
        return str(source.name)
    passed = getattr(operator, "staged", None) or getattr(operator, "merged", None)
    return str(passed.get("source", "")) if isinstance(passed, Mapping) else ""
