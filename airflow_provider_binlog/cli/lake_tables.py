"""`status`, `checkpoint`, `tables`, `reload`, `adopt`: a source's log, checkpoint, lake tables."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

from airflow_provider_binlog.changes import DEFAULT_POLICIES, Policies
from airflow_provider_binlog.checkpoint import (
    Checkpoint,
    checkpoint_key,
    load,
    overwrite,
    rebuild,
)
from airflow_provider_binlog.cli.source import (
    MetastoreVariableStore,
    let_hooks_read_the_database,
    name_person,
    read_settings,
)
from airflow_provider_binlog.errors import CheckpointMissingError, ConfigurationError, StagingError
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.read_progress import PacedProgress
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot.plan import CHUNK_BYTES, SnapshotFiles
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest, snapshot_path
from airflow_provider_binlog.sources.binlog_source import BinlogSource
from airflow_provider_binlog.sources.settings import Connections
from airflow_provider_binlog.spark.merge.progress import (
    PROGRESS,
    Progress,
    TableProgress,
    load_progress,
)
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import StoredFiles, part_key, source_folder
from airflow_provider_binlog.transport.server import queries, setup
from airflow_provider_binlog.transport.server.consistent_read import open_read
from airflow_provider_binlog.transport.server.information_schema import describe_tables
from airflow_provider_binlog.transport.server.queries import global_variables
from airflow_provider_binlog.transport.server.tables import unlogged_foreign_keys


def show(arguments: argparse.Namespace) -> None:
    """Print the tables of every lake that the source is merged into.

    Raises:
        StagingError: Nothing was merged from there yet.
    """
    store = _open_store(arguments.staging_path)
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
        suspect = "" if table.foreign_write is None else "  suspect"
        waits = "  waits for a merge" if table.pending else ""
        yield f"{text}  live{suspect}  {table.mark}{waits}"
        if table.foreign_write is None:
            return
        yield f"    {table.foreign_write}"
    else:
        yield f"{text}  {hold.state}  {table.mark}"
        position = f" (at {hold.position})" if hold.position else ""
        yield f"    {hold.reason}{position}"
        if hold.since:
            yield f"    since {hold.since}"
    yield f"    to reload it: {reload} {shlex.quote(text)}, then merge"


def _open_store(staging_path: str) -> ObjectStore:
    let_hooks_read_the_database()
    from airflow_provider_binlog.hooks.object_storage import open_store

    return open_store(staging_path)


def _load_progress(store: ObjectStore, source: str) -> Iterator[Progress]:
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
    store = _open_store(arguments.staging_path)
    from airflow_provider_binlog.operators.arguments import read_request, read_table_name
    from airflow_provider_binlog.snapshot.take import take_snapshot

    name, settings = read_table_name(arguments.table), read_settings(arguments.conn)
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
        request,
        Connections(settings).open,
        store,
        on_progress=PacedProgress(lambda line: sys.stderr.write(f"{line}\n")),
    )
    sys.stdout.write(
        f"{arguments.table}: {manifest.rows} rows are staged as {manifest.id}\n"
        f"    the next merge that has staged up to {manifest.high} replaces the rows of the lake "
        "table by them, and by what was logged since\n"
    )


def adopt(arguments: argparse.Namespace) -> None:
    """Note the position of a lake table that was loaded by other means; the next merge adopts it.

    Raises:
        ConfigurationError: The table has no key, or an argument cannot be used.
        SourceError: The server has no such table or position.
    """
    store = _open_store(arguments.staging_path)
    from airflow_provider_binlog.operators.arguments import read_table_name
    from airflow_provider_binlog.snapshot.chunk import describe_table
    from airflow_provider_binlog.sources.server_log import ServerLog

    name, settings = read_table_name(arguments.table), read_settings(arguments.conn)
    latest = ManifestLog(store, arguments.name).latest()
    policies = DEFAULT_POLICIES
    if latest is not None:
        policies = Policies(latest.zero_dates, latest.invalid_text)
    with closing(ServerLog(settings)) as log:
        identity, position = log.locate(arguments.at)
        with open_read(log.connect, name, exact=False) as read:
            schema = describe_table(read, name, policies).schema
    if not schema.key:
        raise ConfigurationError(
            "the table has no key, by which changes could be merged into rows that are there "
            "already: load it from a snapshot",
            table=".".join(name),
        )
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
    sys.stdout.write(
        f"{arguments.table}: adopted at {manifest.low}, noted as {manifest.id}\n"
        f"    key: {', '.join(schema.key_names)}\n"
        "    the next merge that has staged up to there compares the columns of the lake table, "
        "and merges what was logged from there on into its rows\n"
        "    nothing is changed until then: to take it back, delete the manifest "
        f"{snapshot_path(manifest.id)} below the source's folder\n"
    )


def show_checkpoint(arguments: argparse.Namespace) -> None:
    """Print a source's checkpoint as it is stored.

    Raises:
        CheckpointMissingError: No checkpoint is saved.
    """
    store = MetastoreVariableStore()
    checkpoint = load(store, checkpoint_key(arguments.name))
    if checkpoint is None:
        raise CheckpointMissingError(f"no checkpoint is saved for {arguments.name}")
    sys.stdout.write(checkpoint.encode() + "\n")


def set_checkpoint(arguments: argparse.Namespace) -> None:
    """Overwrite the checkpoint.

    Raises:
        ConfigurationError: The arguments do not say what to save.
    """
    store = MetastoreVariableStore()
    if arguments.from_manifests and not (arguments.conn or arguments.position):
        log = ManifestLog(_open_store(arguments.from_manifests), arguments.name)
        new = rebuild(log, saved_at=_now(), saved_by=name_person())
    elif arguments.conn and arguments.position and not arguments.from_manifests:
        from airflow_provider_binlog.sources.server_log import ServerLog

        with closing(ServerLog(read_settings(arguments.conn))) as server:
            identity, position = server.locate(arguments.position)
        new = Checkpoint(identity, position, arguments.sequence, _now(), name_person())
    else:
        raise ConfigurationError(
            "say either --from-manifests STAGING_PATH, or --conn CONN and --position POSITION"
        )
    overwrite(store, checkpoint_key(arguments.name), new)
    sys.stdout.write(f"{arguments.name}: {new}\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


_OWN_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")


def show_server(arguments: argparse.Namespace) -> None:
    """Print where a server's log ends, and what it lacks for capture.

    Raises:
        ServerSetupError, AccessDeniedError: The text names all that is missing.
    """
    settings = read_settings(arguments.source)
    connections = Connections(settings)
    with closing(settings.connect()) as connection:
        values = global_variables(connection)
        _print("server", f"{settings.address}, {values.get('version', '')}")
        # First: a server without a log, or an account without privileges, cannot answer the rest.
        setup.check_setup(connection)
        connections.check(connection)
        identity = queries.identify(connection)
        logs = queries.binary_logs(connection)
        _print("identity", str(identity))
        _print("log", f"{len(logs)} files, {sum(log.size for log in logs)} bytes")
        _print("oldest", str(queries.first_position(connection)))
        _print("end", str(queries.log_end(connection)))
        _print("executed", queries.gtid_executed(connection) or "-")
        _print("tables", describe_tables(connection))
    foreign_keys = unlogged_foreign_keys(
        connections.open, lambda name, _: name not in _OWN_DATABASES
    )
    for key in foreign_keys.unlogged:
        _print("unlogged", str(key))
    if foreign_keys.unknown:
        _print("unlogged", f"not known, or not all: {foreign_keys.unknown}")
    _print("capture", "ready")


def _print(name: str, value: str) -> None:
    sys.stdout.write(f"{name:<10}{value}\n")
