"""The choices that a DAG's author makes by a word."""

from __future__ import annotations

from typing import Any, Literal, get_args

from airflow_provider_binlog.errors import ConfigurationError

Failover = Literal["refuse", "follow"]
"""What to do if the checkpoint belongs to another server."""

BeforeImagesChoice = Literal["key_changes", "all"]
ZeroDatesChoice = Literal["null", "fail", "text"]
InvalidTextChoice = Literal["fail", "replace", "binary"]
InitialLoad = Literal["snapshot", "changes_only", "fail"]
"""What a merge does about a table that has rows from before what is staged of it."""
OnTableErrorChoice = Literal["quarantine", "fail"]
OnStale = Literal["warn", "fail"]
"""What to do about lake tables that wait for a reload."""
SnapshotLock = Literal["auto", "none", "brief"]
WhenNothingNew = Literal["wait", "skip"]
Engine = Literal["worker", "spark"]
"""What reads for a task: its own process, or the executors of Spark."""
LakeFormat = Literal["delta", "iceberg"]


def check_choice(choices: Any, value: object, name: str) -> None:
    """Refuse a value that a `Literal` does not list.

    Raises:
        ConfigurationError: Lists the choices.
    """
    known = get_args(choices)
    if value not in known:
        raise ConfigurationError(f"{name} is one of {', '.join(known)}", given=value)
