"""`plan`, `extract`, `snapshot`, `reload`: what a run would stage, and staging by hand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import DEFAULT_POLICIES, BeforeImages, Policies
from airflow_provider_binlog.checkpoint import checkpoint_key, covering_staged, load
from airflow_provider_binlog.cli.output import print_record, print_records, show_progress
from airflow_provider_binlog.cli.source import (
    MetastoreVariableStore,
    name_person,
    open_staging,
    read_settings,
)
from airflow_provider_binlog.errors import BinlogError, ConfigurationError, StagingError
from airflow_provider_binlog.names import is_captured, join_table_name, read_table_name
from airflow_provider_binlog.protected_columns import NO_RULES, ColumnRules, find_secret
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot.plan import CHUNK_BYTES, SnapshotRequest
from airflow_provider_binlog.snapshot.take import take_snapshot
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from airflow_provider_binlog.sources.lakes import choose_tables, find_needed, load_lakes
from airflow_provider_binlog.sources.settings import Connections, ConnectionSettings
from airflow_provider_binlog.sources.state import read_server_state
from airflow_provider_binlog.spark.merge.progress import Progress
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.transport.server import queries
from airflow_provider_binlog.transport.server.information_schema import list_tables


def plan(arguments: argparse.Namespace) -> None:
    """Print what the next run of a source would stage: a range of the log, and snapshots."""
    store, settings = open_staging(arguments.staging_path), read_settings(arguments.conn)
    connect = Connections(settings).open
    saved = load(MetastoreVariableStore(), checkpoint_key(arguments.name))
    # As a run does: the server may have purged what is staged, though it is not merged yet.
    saved = covering_staged(saved, ManifestLog(store, arguments.name))
    with closing(connect()) as connection:
        kinds, logs = list_tables(connection), queries.binary_logs(connection)
    state = read_server_state(connect, saved, start=arguments.start or "now")
    start, end = state.start, state.log_end
    record: dict[str, Any] = {
        "what": "range",
        "table": "",
        "why": "the first run" if saved is None else f"after manifest {saved.sequence}",
        "start": None if start is None else str(start),
        "stop": str(end),
        "bytes": None if start is None else queries.bytes_of(logs, start, end),
    }
    chosen = choose_readable(kinds, arguments.tables, arguments.exclude or ())
    needed = _list_needed(store, arguments.name, chosen)
    print_records([record, *needed], arguments.output)


def choose_readable(
    kinds: Mapping[TableName, str], tables: Sequence[str], exclude: Sequence[str]
) -> list[TableName]:
    """Return the tables of a server that globs capture and a snapshot can read."""
    return choose_tables(kinds, lambda name: is_captured(name, tables, exclude))[0]


def _list_needed(
    store: ObjectStore, source: str, chosen: Sequence[TableName]
) -> Iterator[dict[str, Any]]:
    """Yield a record for each table that needs a snapshot for any of the source's lakes."""
    lakes: list[Progress | None] = [*load_lakes(store, source)] or [None]
    for lake in lakes:
        needed, later = find_needed(store, source, chosen, lake, now=datetime.now(UTC))
        for name in sorted([*needed, *later]):
            held = None if lake is None or name not in lake.tables else lake.tables[name].hold
            why = "it was never loaded" if held is None else f"{held.state}: {held.reason}"
            if name in later:
                why = f"not before {later[name]:%Y-%m-%d %H:%M} UTC: {why}"
            yield {
                "what": "snapshot",
                "table": join_table_name(name),
                "why": why,
                "start": None,
                "stop": None,
                "bytes": None,
            }


def extract(arguments: argparse.Namespace) -> None:
    """Stage the log from the checkpoint to its end; the checkpoint stays where it is.

    The next run of the DAG passes on what is staged.

    Raises:
        BinlogError: As the extract task.
    """
    from airflow_provider_binlog.sources.next_range import find_next_range, stage
    from airflow_provider_binlog.sources.server_log import ServerLog

    store, settings = open_staging(arguments.staging_path), read_settings(arguments.conn)
    policies, columns = read_staged(store, arguments.name, settings)
    exclude = arguments.exclude or ()
    with closing(ServerLog(settings)) as log, show_progress("log") as show:
        log.check()
        checkpoint, request = find_next_range(
            log,
            store,
            MetastoreVariableStore(),
            range_settings(arguments.name, arguments.tables, exclude)
            | {"policies": policies, "columns": columns},
            start=arguments.start,
            logger=Notes(),
            on_progress=show,
        )
        extracted = stage(request, log, store)
    print_record(
        {
            "source": arguments.name,
            "checkpoint": str(checkpoint),
            "start": str(extracted.start),
            "stop": str(extracted.stop),
            "manifests": [manifest.sequence for manifest in extracted.manifests],
            "rows": sum(manifest.rows for manifest in extracted.manifests),
        },
        arguments.output,
    )


def range_settings(name: str, tables: Sequence[str], exclude: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of an `ExtractRequest` that a person stages by."""
    return {
        "source_name": name,
        "tables": TableFilter(tuple(tables), tuple(exclude)),
        "before_images": BeforeImages.KEY_CHANGES,
        "created_by": name_person(),
    }


class Notes:
    """A logger that writes lines to standard error."""

    def info(self, message: str, *arguments: object) -> None:
        """Write a line."""
        sys.stderr.write(f"{message % arguments}\n")

    warning = info


def snapshot(arguments: argparse.Namespace) -> int:
    """Read tables, and stage their rows, whatever their state in a lake is.

    Returns 1 if a table could not be read.

    Raises:
        ConfigurationError: No table matches.
        BinlogError: The server was not reached, or refused the account.
    """
    store, settings = open_staging(arguments.staging_path), read_settings(arguments.conn)
    with closing(settings.connect()) as connection:
        kinds = list_tables(connection)
    names = choose_readable(kinds, arguments.tables, arguments.exclude or ())
    if not names:
        raise ConfigurationError(
            "globs match no table of the server that a snapshot can read",
            globs=", ".join(arguments.tables),
        )
    reading = _read_reading(arguments, store, settings)
    records = []
    for name in names:
        try:
            taken, problem = take(settings, store, name, **reading), ""
        except BinlogError as error:
            taken, problem = None, str(error)
        records.append({**_describe(name, taken), "problem": problem})
    print_records(records, arguments.output)
    return 1 if any(record["problem"] for record in records) else 0


def reload(arguments: argparse.Namespace) -> None:
    """Take a snapshot of a table, with its columns and values staged as in the newest manifest.

    Raises:
        ConfigurationError: An argument cannot be used, or the connection has no secret to hash.
        SourceError: The server has no such table, or refused.
        StagingError: Nothing is staged of the source, or the store failed.
        UnsupportedError: The type of a column, or a value, is not staged.
    """
    name = read_table_name(arguments.table)
    store, settings = open_staging(arguments.staging_path), read_settings(arguments.conn)
    if ManifestLog(store, arguments.name).latest() is None:
        raise StagingError(
            "nothing of this source is staged there yet: let its DAG run once",
            source=arguments.name,
            staging_path=arguments.staging_path,
        )
    taken = take(settings, store, name, **_read_reading(arguments, store, settings))
    print_record(_describe(taken.name, taken), arguments.output)


def _read_reading(
    arguments: argparse.Namespace, store: ObjectStore, settings: ConnectionSettings
) -> dict[str, Any]:
    """Return the arguments of `take` that are the same for all tables."""
    policies, columns = read_staged(store, arguments.name, settings)
    return {
        "source": arguments.name,
        # The time makes another run of each call: one with a complete snapshot takes no other.
        "run": f"{name_person()}, {datetime.now(UTC).isoformat()}",
        "policies": policies,
        "columns": columns,
        "lock": arguments.lock,
    }


def read_staged(
    store: ObjectStore, source: str, settings: ConnectionSettings
) -> tuple[Policies, ColumnRules]:
    """Return how the newest manifest has values, and which columns it lacks, or has hashes of.

    Raises:
        ConfigurationError: The connection has no secret to hash.
    """
    latest = ManifestLog(store, source).latest()
    if latest is None:
        return DEFAULT_POLICIES, NO_RULES
    policies = Policies(latest.zero_dates, latest.invalid_text)
    return policies, ColumnRules(latest.columns, find_secret(settings.hash_secret))


def take(
    settings: ConnectionSettings,
    store: ObjectStore,
    name: TableName,
    *,
    source: str,
    run: str,
    policies: Policies = DEFAULT_POLICIES,
    columns: ColumnRules = NO_RULES,
    lock: str = "none",
) -> SnapshotManifest:
    """Take a snapshot of a table, and show its progress."""
    request = SnapshotRequest(
        source_name=source,
        name=name,
        created_by=run,
        exact=lock == "brief",
        chunk_bytes=CHUNK_BYTES,
        policies=policies,
        columns=columns,
    )
    with show_progress(join_table_name(name)) as show:
        return take_snapshot(request, Connections(settings).open, store, on_progress=show)


def _describe(name: TableName, taken: SnapshotManifest | None) -> dict[str, Any]:
    return {
        "table": join_table_name(name),
        "rows": taken and taken.rows,
        "snapshot": taken and taken.id,
        "loaded by": taken and f"the next merge that has staged up to {taken.high}",
    }
