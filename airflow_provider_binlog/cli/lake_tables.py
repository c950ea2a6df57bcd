"""`tables`, `reload` and `adopt`: the lake tables of a source, their state and their loading."""

from __future__ import annotations

import shlex
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import DEFAULT_POLICIES, Policies
from airflow_provider_binlog.cli.environment import let_hooks_read_the_database, name_person
from airflow_provider_binlog.cli.source import read_settings
from airflow_provider_binlog.errors import ConfigurationError, StagingError
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest, snapshot_path
from airflow_provider_binlog.sources.binlog_source import BinlogSource
from airflow_provider_binlog.sources.settings import Connections
from airflow_provider_binlog.staging.paths import part_key

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import Schema, TableName
    from airflow_provider_binlog.snapshot import Progress as SnapshotProgress
    from airflow_provider_binlog.sources.server_log import ServerLog
    from airflow_provider_binlog.spark.merge.progress import Progress, TableProgress
    from airflow_provider_binlog.staging.object_store import ObjectStore


def show(arguments: argparse.Namespace) -> None:
    """Print the tables of every lake that the source is merged into.

    Raises:
        StagingError: Nothing was merged from there yet.
    """
    let_hooks_read_the_database()
    from airflow_provider_binlog.hooks.object_storage import open_store

    store = open_store(arguments.staging_path)
    lakes = list(_load_progress(store, arguments.name))
    if not lakes:
        raise StagingError(
            "no merge has noted its progress: nothing was merged yet, or the notes were deleted",
            source=arguments.name,
            staging_path=arguments.staging_path,
        )
    for number, progress in enumerate(lakes):
        sys.stdout.write("\n" * bool(number))
        words = ["airflow", "binlog", "reload", arguments.name, arguments.staging_path]
        for line in _lake_lines(progress, shlex.join([*words, "--conn", "CONN", "--table"])):
            sys.stdout.write(f"{line}\n")


def _lake_lines(progress: Progress, reload: str) -> Iterator[str]:
    """Yield a line for a lake, and lines for each of its tables."""
    yield f"{progress.lake or 'lake'}: merged up to manifest {progress.through}"
    for name, table in sorted(progress.tables.items()):
        yield from _table_lines(name, table, reload)


def _table_lines(name: TableName, table: TableProgress, reload: str) -> Iterator[str]:
    hold, text = table.hold, join_table_name(name)
    if hold is None:
        yield f"{text}  live  {table.mark}{'  waits for a merge' if table.pending else ''}"
        return
    yield f"{text}  {hold.state}  {table.mark}"
    position = f" (at {hold.position})" if hold.position else ""
    yield f"    {hold.reason}{position}"
    if hold.since:
        yield f"    since {hold.since}"
    yield f"    to reload it: {reload} {shlex.quote(text)}, then merge"


def _load_progress(store: ObjectStore, source: str) -> Iterator[Progress]:
    from airflow_provider_binlog.spark.merge.progress import PROGRESS, load_progress
    from airflow_provider_binlog.staging.paths import StoredFiles, source_folder

    files = StoredFiles(store, source)
    for folder in store.folders(f"{source_folder(source)}/{PROGRESS}"):
        progress = load_progress(files, f"{PROGRESS}/{folder}")
        if progress is not None:
            yield progress


def reload(arguments: argparse.Namespace) -> None:
    """Take a snapshot of a table, with the values staged as in the newest manifest.

    Raises:
        ConfigurationError: An argument cannot be used.
        SourceError: The server has no such table, or refused.
        StagingError: Nothing is staged of the source, or the store failed.
        UnsupportedError: The type of a column, or a value, is not staged.
    """
    let_hooks_read_the_database()
    from airflow_provider_binlog.hooks.object_storage import open_store
    from airflow_provider_binlog.operators.arguments import read_request, read_table_name
    from airflow_provider_binlog.snapshot import take_snapshot
    from airflow_provider_binlog.snapshot.request import CHUNK_BYTES
    from airflow_provider_binlog.staging.manifest_log import ManifestLog

    name, settings = read_table_name(arguments.table), read_settings(arguments.conn)
    store = open_store(arguments.staging_path)
    latest = ManifestLog(store, arguments.name).latest()
    if latest is None:
        raise StagingError(
            "nothing of this source is staged there yet: let its DAG run once",
            source=arguments.name,
            staging_path=arguments.staging_path,
        )
    # The time makes another run of each call: a run with a complete snapshot takes no other one.
    now = datetime.now(UTC).isoformat()
    request = read_request(
        BinlogSource(arguments.name, start=None),
        run=f"{name_person()}, {now}",
        name=name,
        where=None,
        lock=arguments.lock,
        chunk_bytes=CHUNK_BYTES,
    )
    request = replace(request, policies=Policies(latest.zero_dates, latest.invalid_text))
    manifest = take_snapshot(
        request, Connections(settings).open, store, on_progress=_print_progress
    ).manifest
    sys.stdout.write(
        f"{arguments.table}: {manifest.rows} rows are staged as {manifest.id}\n"
        f"    the next merge that has staged up to {manifest.high} replaces the rows of the lake "
        "table by them, and by what was logged since\n"
    )


def _print_progress(progress: SnapshotProgress) -> None:
    done = f"{progress.chunks} of {progress.chunk_count} chunks, {progress.rows} rows"
    sys.stderr.write(f"{done}\n")


def adopt(arguments: argparse.Namespace) -> None:
    """Note the position of a lake table that was loaded by other means; the next merge adopts it.

    Raises:
        ConfigurationError: The table has no key, or an argument cannot be used.
        SourceError: The server has no such table or position.
    """
    let_hooks_read_the_database()
    from airflow_provider_binlog.hooks.object_storage import open_store
    from airflow_provider_binlog.operators.arguments import read_table_name
    from airflow_provider_binlog.snapshot import SnapshotFiles
    from airflow_provider_binlog.sources.server_log import ServerLog
    from airflow_provider_binlog.staging.manifest_log import ManifestLog

    name, settings = read_table_name(arguments.table), read_settings(arguments.conn)
    store = open_store(arguments.staging_path)
    latest = ManifestLog(store, arguments.name).latest()
    with closing(ServerLog(settings)) as log:
        identity, position = log.locate(arguments.at)
        policies = _read_policies(latest)
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
    sys.stdout.write(_describe_adoption(arguments.table, manifest))


def _read_policies(latest: Manifest | None) -> Policies:
    """Return the policies of the newest manifest."""
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


def _describe_adoption(table: str, manifest: SnapshotManifest) -> str:
    return (
        f"{table}: adopted at {manifest.low}, noted as {manifest.id}\n"
        f"    key: {', '.join(manifest.schema.key_names)}\n"
        "    the next merge that has staged up to there compares the columns of the lake table, "
        "and merges what was logged from there on into its rows\n"
        "    nothing is changed until then: to take it back, delete the manifest "
        f"{snapshot_path(manifest.id)} below the source's folder\n"
    )
