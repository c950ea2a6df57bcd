"""Stores of staged files by their URI, and of checkpoints in memory."""

from __future__ import annotations

from typing import Any

import fsspec

from airflow_provider_binlog.staging.object_store import ObjectStore


def open_store(uri: str, **options: Any) -> ObjectStore:
    """Return the store below `uri`; `options` are those of its fsspec file system."""
    return ObjectStore(*fsspec.core.url_to_fs(uri, **options))


class Checkpoints(dict[str, str]):
    """Checkpoints in memory."""

    def set(self, key: str, value: str) -> None:
        """Store `value`."""
        self[key] = value
