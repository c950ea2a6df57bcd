"""`adopt`: say which rows a lake table has that someone else loaded, so that merges continue it."""

from __future__ import annotations

import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import DEFAULT_POLICIES, Policies
from airflow_provider_binlog.cli.airflow_stores import let_hooks_read_the_database
from airflow_provider_binlog.cli.person import name_person
from airflow_provider_binlog.cli.source import read_settings
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.snapshot_manifest import (
    SnapshotManifest,
    snapshot_path,
)
from airflow_provider_binlog.staging.paths import part_key

if TYPE_CHECKING:
    import argparse

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import Schema, TableName
    from airflow_provider_binlog.sources.server_log import ServerLog


def run(arguments: argparse.Namespace) -> None:
    """Stage that the rows of a lake table are those of a position; the next merge adopts it.

    Raises:
        ConfigurationError: The table has no key, or an argument cannot be used.
        SourceError: The server has no such table or position.
    """
    let_hooks_read_the_database()
    from airflow_provider_binlog.hooks.object_storage import open_store
    from airflow_provider_binlog.operators.snapshot_arguments import read_table_name
    from airflow_provider_binlog.snapshot import SnapshotFiles
    from airflow_provider_binlog.sources.server_log import ServerLog
    from airflow_provider_binlog.staging.manifest_log import ManifestLog

    name, settings = read_table_name(arguments.table), read_settings(arguments.conn)
    store = open_store(arguments.staging_path)
    latest = ManifestLog(store, arguments.name).latest()
    with closing(ServerLog(settings)) as log:
        identity, position = log.locate(arguments.at)
        policies = _policies(latest)
        schema = _read_schema(log, name, policies)
    now = datetime.now(UTC)
    manifest = SnapshotManifest(
        id=SnapshotFiles(store, arguments.name).new_id(name, now),
        identity=identity,
        database=name[0],
        table=name[1],
        schema=schema,
        low=position,
        high=position,
        is_exact=True,
        where=None,
        zero_dates=policies.zero_dates,
        invalid_text=policies.invalid_text,
        chunks=(),
        parts=(),
        created_at=now.isoformat(timespec="seconds"),
        created_by=name_person(),
        adopts=True,
    )
    store.create(part_key(arguments.name, snapshot_path(manifest.id)), manifest.encode())
    sys.stdout.write(_explain(arguments.table, manifest))


def _policies(latest: Manifest | None) -> Policies:
    """Return how values are staged that no lake type holds: as in the newest manifest."""
    return DEFAULT_POLICIES if latest is None else Policies(latest.zero_dates, latest.invalid_text)


def _read_schema(log: ServerLog, name: TableName, policies: Policies) -> Schema:
    from airflow_provider_binlog.snapshot.chunk import describe_table
    from airflow_provider_binlog.transport.server.consistent_read import open_read

    with open_read(log.connect, name, exact=False) as read:
        schema = describe_table(read, name, policies).schema
    if not schema.key:
        raise ConfigurationError(
            "the table has no key, by which changes could be merged into rows that are there "
            "already: load it from a snapshot",
            table=".".join(name),
        )
    return schema


def _explain(table: str, manifest: SnapshotManifest) -> str:
    return (
        f"{table}: adopted at {manifest.low}, noted as {manifest.id}\n"
        f"    key: {', '.join(manifest.schema.key_names)}\n"
        "    the next merge that has staged up to there compares the columns of the lake table, "
        "and merges what was logged from there on into its rows\n"
        "    nothing is changed until then: to take it back, delete the manifest "
        f"{snapshot_path(manifest.id)} below the source's folder\n"
    )
