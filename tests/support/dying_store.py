"""A store whose writer dies."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.staging.object_store import ObjectStore


class DyingStore:
    """A store in which the writer dies at one of its writes, before it or after it.

    Attributes:
        writes: How many were begun.
    """

    def __init__(self, store: ObjectStore, *, at: int, after: bool) -> None:
        self.writes = 0
        self._store = store
        self._at = at
        self._after = after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return method if name not in {"write", "create"} else partial(self._write, method)

    def _write(self, method: Callable[[str, bytes], None], key: str, data: bytes) -> None:
        self.writes += 1
        if self.writes != self._at or self._after:
            method(key, data)
        if self.writes == self._at:
            raise KilledError


class KilledError(BaseException):
    """The end of a process that had no time to do anything about it."""
