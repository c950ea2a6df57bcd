"""How many tasks Airflow maps one over."""

from __future__ import annotations

from airflow.sdk import conf


def max_map_length() -> int:
    """Return `[core] max_map_length`: a task that returns more values to be mapped fails."""
    return int(conf.getint("core", "max_map_length", fallback=1024))
