"""Locations of staged files and binlogs: opened by tasks, and named for Spark."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from airflow.sdk import BaseHook, ObjectStoragePath
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.sources.binlog_files import reach_plainly
from airflow_provider_binlog.staging.object_store import ObjectStore

_SPARK_SCHEMES = {"s3": "s3a", "s3n": "s3a", "s3a": "s3a", "gs": "gs"}
"""The schemes whose authority is a bucket, so that an Airflow connection may precede its `@`."""


def open_store(location: str) -> ObjectStore:
    """Return the store below `location`, e.g. `s3://conn_id@bucket/prefix` or `file:///data/staging`.

    Raises:
        ConfigurationError: As `reach`.
    """
    return ObjectStore(*reach(location))


def reach(location: str) -> tuple[Any, str]:
    """Return the fsspec file system that a location is on, and its path there.

    Raises:
        ConfigurationError: The connection that the location names does not exist. Airflow would
            go on with whatever credentials the machine has, and fail much later or not at all.
            Or nothing that is installed knows the location's scheme.
    """
    conn_id = urlsplit(location).netloc.rpartition("@")[0]
    if ":" in conn_id:
        raise ConfigurationError(
            "before its @ a location has the id of an Airflow connection: no user, no password",
            scheme=urlsplit(location).scheme,
        )
    if conn_id:
        try:
            BaseHook.get_connection(conn_id)
        except AirflowNotFoundException as error:
            raise ConfigurationError(
                "the connection of this location does not exist",
                location=location,
                conn_id=conn_id,
            ) from error
    try:
        path = ObjectStoragePath(location)
        found = path.fs, path.path
    except ValueError:  # Airflow knows the schemes of its providers, fsspec many more
        return reach_plainly(location)
    return found


def lake_location(format: str, lake: str) -> str:  # noqa: A002
    """Return a lake as the merge job takes it: a folder as Spark names it, or a catalog."""
    return spark_location(lake) if format == "delta" else lake


def spark_location(location: str) -> str:
    """Return the name by which Spark reads `location`: no connection id in it, and s3a for S3."""
    parts = urlsplit(location)
    if not parts.scheme:
        return f"file://{location}"
    if parts.scheme not in _SPARK_SCHEMES:
        return location
    bucket = parts.netloc.rpartition("@")[2]
    return f"{_SPARK_SCHEMES[parts.scheme]}://{bucket}{parts.path}"
