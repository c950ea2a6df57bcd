"""`tables`, `adopt`: the state of lake tables, and those that were loaded by other means."""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from airflow_provider_binlog.cli.output import print_record, print_records
from airflow_provider_binlog.cli.source import name_person, open_staging, read_settings
from airflow_provider_binlog.cli.staging import read_staged
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import read_table_name
from airflow_provider_binlog.snapshot.plan import SnapshotFiles
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest, snapshot_path
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.paths import part_key
from airflow_provider_binlog.status.ranges import Memory
from airflow_provider_binlog.status.source import read_status
from airflow_provider_binlog.status.tables import TableStatus
from airflow_provider_binlog.transport.server.consistent_read import open_read

# In which quarantined tables are looked for, and how much was staged of each.
_RANGES = 100


def show(arguments: argparse.Namespace) -> None:
    """Print the tables of a source, in each of its lakes; those that need a person first."""
    store, name = open_staging(arguments.staging_path), arguments.name
    status = read_status(
        store, name, Memory(), arguments.staging_path, ranges=_RANGES, lakes_max=None
    )
    if status.problem:
        sys.stderr.write(f"note: a manifest cannot be read: {status.problem}\n")
    if not status.lakes:
        sys.stderr.write(f"note: no merge has published anything of {name} yet\n")
    words = ["airflow", "binlog", "reload", name, arguments.staging_path]
    reload = shlex.join([*words, "--conn", "CONN", "--table"])
    print_records([_describe(table, reload) for table in status.tables], arguments.output)


def _describe(table: TableStatus, reload: str) -> dict[str, Any]:
    """Return the record of a table; `reload` is the command that reads a table again."""
    command = f"{reload} {shlex.quote(table.text)}, then merge"
    return {
        "lake": table.lake,
        "table": table.text,
        "state": table.state.value,
        "through": table.through,
        "waits": table.waits,
        "since": "" if table.since is None else table.since.isoformat(),
        "position": table.position,
        "reason": table.reason,
        "repair": command if table.needs_reload else "",
    }


def adopt(arguments: argparse.Namespace) -> None:
    """Note the position of a lake table that was loaded by other means; the next merge adopts it.

    Raises:
        ConfigurationError: The table has no key, or an argument cannot be used.
        SourceError: The server has no such table or position.
    """
    store = open_staging(arguments.staging_path)
    from airflow_provider_binlog.snapshot.chunk import describe_table
    from airflow_provider_binlog.sources.server_log import ServerLog

    name, settings = read_table_name(arguments.table), read_settings(arguments.conn)
    latest = ManifestLog(store, arguments.name).latest()
    policies, columns = read_staged(store, arguments.name, settings)
    files = SnapshotFiles(store, arguments.name)
    known = files.known_fields(name, latest) if columns.options else ()
    excluded = columns.excluded_names(name, known)
    with closing(ServerLog(settings)) as log:
        identity, position = log.locate(arguments.at)
        with open_read(log.connect, name, exact=False, excluded=excluded) as read:
            schema = describe_table(read, name, policies, columns, known).schema
    if not schema.key:
        raise ConfigurationError(
            "the table has no key, by which changes could be merged into rows that are there "
            "already: load it from a snapshot",
            table=".".join(name),
        )
    now = datetime.now(UTC)
    manifest = SnapshotManifest(
        id=files.new_id(name, now),
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
    record = {
        "table": arguments.table,
        "adopted at": str(manifest.low),
        "snapshot": manifest.id,
        "key": list(schema.key_names),
        "next": (
            "the next merge that has staged up to there compares the columns of the lake table, "
            "and merges what was logged from there on into its rows"
        ),
        "to take it back": (
            f"until then, delete {snapshot_path(manifest.id)} below the source's folder"
        ),
    }
    print_record(record, arguments.output)
