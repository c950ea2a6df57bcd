"""The sessions of a merge: two for each of its threads, whatever the number of tables.

Each session has catalogs of its own, and a catalog may have connections and tokens of its own,
which nobody closes: a session for each table would exhaust the catalog's server.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from airflow_provider_binlog.spark.job.session_settings import configure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


class Sessions:
    """The sessions of a merge.

    Args:
        spark: The job's session.
        settings: What the lake needs in each of them.
    """

    def __init__(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        self._spark = spark
        self._settings = dict(settings)
        self._made: dict[tuple[int, bool], SparkSession] = {}

    def get(self, *, few: bool = False) -> SparkSession:
        """Return the session of this thread; `few` is for few rows, to be merged into few."""
        key = threading.get_ident(), few
        if key not in self._made:
            made = self._spark.newSession()
            configure(made, self._settings, few=few)
            self._made[key] = made
        return self._made[key]
