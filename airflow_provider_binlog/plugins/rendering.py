"""HTML from templates: what is put in is escaped, whatever its name or text is."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from airflow_provider_binlog import __version__
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.operators.links import base_path
from airflow_provider_binlog.plugins import formats
from airflow_provider_binlog.plugins.help import find_section
from airflow_provider_binlog.plugins.sources import Source


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("airflow_provider_binlog.plugins"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "number": formats.show_number,
        "counted": formats.show_count,
        "duration": formats.show_duration,
        "time": formats.show_time,
        "table": join_table_name,
    }
    environment.globals |= {
        "query": lambda **values: urlencode(values, doseq=True),
        "airflow": _airflow_path,
        "reload_command": _reload_command,
        "find_section": find_section,
        "version": __version__,
    }
    return environment


def _airflow_path(dag_id: str, run_id: str = "", task_id: str = "") -> str:
    """Return the path of Airflow's own page of a DAG, a run or a task."""
    names = {"dags": dag_id, "runs": run_id, "tasks": task_id}
    path = "/".join(f"{kind}/{quote(name, safe='')}" for kind, name in names.items() if name)
    return f"{base_path()}/{path}"


def _reload_command(source: Source, table: str) -> str:
    """Return a line for a shell, whatever the names are."""
    words = ["airflow", "binlog", "reload", source.name, source.staging_path]
    return shlex.join([*words, "--conn", source.conn_id or "CONN", "--table", table])


def render(template: str, **values: Any) -> str:
    """Return a page."""
    now = datetime.now(UTC)
    environment = _environment()
    return environment.get_template(template).render(
        now=now, ago=lambda time: formats.show_ago(time, now), **values
    )
