"""Locations of staged files and binlogs, opened by tasks or named for Spark."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from airflow.sdk import ObjectStoragePath

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.hooks.binlog import find_connection
from airflow_provider_binlog.sources.binlog_files import reach_plainly
from airflow_provider_binlog.sources.settings import Location
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.table_options import TableRules

_SPARK_SCHEMES = {"s3": "s3a", "s3n": "s3a", "s3a": "s3a", "gs": "gs", "gcs": "gs"}
"""Schemes whose authority is a bucket, which an Airflow connection may precede, with an `@`."""

_AZURE_SCHEMES = ("abfs", "abfss", "az")


def open_store(location: str) -> ObjectStore:
    """Return the store below `location`, e.g. `s3://conn_id@bucket/prefix` or `file:///data/staging`.

    Raises as `reach`, and ConfigurationError for a relative path.
    """
    _check_absolute(location)
    return ObjectStore(*reach(location))


def reach(location: str) -> tuple[Any, str]:
    """Return the fsspec file system that a location is on, and its path there.

    Raises:
        ConnectionNotFoundError: The connection that the location names does not exist.
        ConfigurationError: No installed package knows the location's scheme.
    """
    if _has_account(location):
        return reach_plainly(location)
    conn_id = urlsplit(location).netloc.rpartition("@")[0]
    if ":" in conn_id:
        raise ConfigurationError(
            "before its @ a location has the id of an Airflow connection: no user, no password",
            scheme=urlsplit(location).scheme,
        )
    if conn_id:
        # Airflow would continue with the machine's credentials, and fail later or not at all.
        find_connection(conn_id, f"the connection of this location does not exist: {location}")
    try:
        path = ObjectStoragePath(location)
        reached = path.fs, path.path
    except ValueError as error:  # Airflow knows the schemes of its providers, fsspec many more
        if conn_id:
            raise ConfigurationError(
                "no provider is installed that reaches this location by a connection",
                location=location,
            ) from error
        return reach_plainly(location)
    return reached


def _has_account(location: str) -> bool:
    """Whether a location is `container@account…`, as Spark names those of Azure."""
    parts = urlsplit(location)
    return parts.scheme in _AZURE_SCHEMES and "." in parts.netloc.rpartition("@")[2]


def locate(location: str) -> Location:
    """Return a location as a process without Airflow reaches it, with the credentials for it.

    Raises:
        ConfigurationError: As `reach`; or a file system that exists in this process alone.
    """
    system, path = reach(location)
    options = {**system.storage_options}
    if (session := options.pop("session", None)) is not None:
        options |= _credentials(system, session)
    protocol = system.protocol if isinstance(system.protocol, str) else system.protocol[0]
    text = _encode_options(options)
    if text is None or protocol == "memory" or system.storage_args:
        raise ConfigurationError(
            "Spark's executors cannot reach this location as its connection says: name it without "
            "a connection, and give the executors credentials of their own",
            location=location,
        )
    return Location(protocol, path, text)


def is_absolute(location: str) -> bool:
    """Whether a location is a URL or an absolute path."""
    return bool(urlsplit(location).scheme) or location.startswith("/")


def _check_absolute(location: str) -> None:
    # Every process would resolve a relative path against its own working folder.
    if not is_absolute(location):
        raise ConfigurationError(
            "a location is a URL, such as s3://conn_id@bucket/prefix, or an absolute path",
            location=location,
        )


def _encode_options(options: dict[str, Any]) -> str | None:
    try:
        return json.dumps({name: value for name, value in options.items() if value is not None})
    except TypeError:
        return None


def _credentials(system: Any, session: Any) -> dict[str, Any]:
    # Here: installed only where staging is on S3.
    from fsspec.asyn import sync

    async def find() -> dict[str, Any]:
        credentials = await session.get_credentials()
        if credentials is None:
            return {"anon": True}
        frozen = await credentials.get_frozen_credentials()
        return {"key": frozen.access_key, "secret": frozen.secret_key, "token": frozen.token}

    region = session.get_config_variable("region")
    credentials: dict[str, Any] = sync(system.loop, find)
    return credentials | ({"client_kwargs": {"region_name": region}} if region else {})


def lake_location(format: str, lake: str, rules: TableRules) -> str:  # noqa: A002
    """Return a lake as the merge job takes it: a folder as Spark names it, or a catalog.

    Where all tables have a target, no folder is needed: then it may be any name.
    """
    all_named = not rules.targets.keys().isdisjoint({"*", "*.*"})
    is_name = format != "delta" or (all_named and not is_absolute(lake))
    return lake if is_name else spark_location(lake)


def spark_location(location: str) -> str:
    """Return the name by which Spark reads `location`: no connection id in it, and s3a for S3.

    Raises:
        ConfigurationError: The location is a relative path, or on Azure without its account.
    """
    _check_absolute(location)
    parts = urlsplit(location)
    if not parts.scheme:
        return f"file://{location}"
    if parts.scheme in _AZURE_SCHEMES and not _has_account(location):
        raise ConfigurationError(
            "Spark needs the account of a location on Azure: name it as "
            "abfss://container@account.dfs.core.windows.net/path; tasks then reach it by the "
            "variables AZURE_STORAGE_... of their environment, or by the machine's identity",
            location=location,
        )
    if parts.scheme == "az":  # fsspec's name; Spark does not have it
        return f"abfss{location.removeprefix(parts.scheme)}"
    if parts.scheme not in _SPARK_SCHEMES:
        return location
    bucket = parts.netloc.rpartition("@")[2]
    # Not parts.path: in a key, # and ? are ordinary characters.
    path = location.partition("://")[2].removeprefix(parts.netloc)
    return f"{_SPARK_SCHEMES[parts.scheme]}://{bucket}{path}"
