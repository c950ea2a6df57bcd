"""Namespaces of lake tables, made once for all of the tables in them."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Namespaces:
    """The namespaces that a merge needs.

    Of two threads that make one at the same time some catalogs let one fail, in spite of
    IF NOT EXISTS.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: set[str] = set()

    def create(self, session: SparkSession, name: str) -> None:
        """Make a namespace, by its quoted name, if it does not exist."""
        with self._lock:
            if name not in self._made:
                session.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}")
                self._made.add(name)
