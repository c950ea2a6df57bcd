"""Merges that are killed before some write, and two that run at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import patch

from pyspark.sql import SparkSession

from airflow_provider_binlog.spark.target.postgresql.connection import Connection
from tests.support.killed_writes import Killed, Writes

if TYPE_CHECKING:
    from random import Random

    from tests.support.pipeline import Pipeline

_WRITES_MAX = 20


def disturb_merges(pipeline: Pipeline, random: Random) -> None:
    """Precede each merge of a pipeline by others, some of which do not finish."""
    pipeline.after_capture = partial(_disturb, pipeline, random)


def _disturb(pipeline: Pipeline, random: Random) -> None:
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
    dying = Writes()
    dying.left = writes
    with (
        patch.object(SparkSession, "sql", dying.statements(SparkSession.sql)),
        patch.object(Connection, "execute", dying.statements(Connection.execute)),
        suppress(Killed),
    ):
        _merge(pipeline)
