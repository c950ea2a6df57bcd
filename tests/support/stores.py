"""Stores of staged files by their URI."""

from __future__ import annotations

from typing import Any

import fsspec

from airflow_provider_binlog.staging.object_store import ObjectStore


def open_store(uri: str, **options: Any) -> ObjectStore:
    """Return the store below `uri`; `options` are those of its fsspec file system."""
    return ObjectStore(*fsspec.core.url_to_fs(uri, **options))
