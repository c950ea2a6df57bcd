"""Merges that are killed before some write, and two that run at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from airflow_provider_binlog.spark.target.postgresql.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.support.pipeline import Pipeline

_WRITES = ("ALTER", "COMMENT", "COMMIT", "CREATE", "DELETE", "INSERT", "MERGE", "UPDATE")
_WRITES_MAX = 20


class Killed(BaseException):
    """The process ends here."""


def disturb(random: Random, pipeline: Pipeline) -> None:
    """Merge what is captured in a way that may not finish it."""
    kind = random.choice(["nothing", "kill", "kill", "two"])
    if kind == "kill":
        _merge_killed(pipeline, random.randrange(_WRITES_MAX))
    elif kind == "two":
        # One of them may fail, since the other one was first.
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: _merge(pipeline), range(2)))


def _merge(pipeline: Pipeline) -> None:
    pipeline.workplace.try_merge(table_options=pipeline.table_options)


def _merge_killed(pipeline: Pipeline, writes: int) -> None:
    left = iter(range(writes))

    def dying(run: Callable[..., Any]) -> Callable[..., Any]:
        def write(self: Any, statement: str, *rest: Any) -> Any:
            if statement.startswith(_WRITES) and next(left, None) is None:
                raise Killed
            return run(self, statement, *rest)

        return write

    with (
        patch.object(SparkSession, "sql", dying(SparkSession.sql)),
        patch.object(Connection, "execute", dying(Connection.execute)),
    ):
        try:
            _merge(pipeline)
        except Killed:
            return
