"""`tables`, `adopt`: the state of lake tables, and those that were loaded by other means."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from airflow_provider_binlog.cli.output import print_record, print_records
from airflow_provider_binlog.cli.source import name_person, open_staging, read_settings
from airflow_provider_binlog.cli.staging import read_columns, read_policies
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.snapshot.plan import SnapshotFiles
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest, snapshot_path
from airflow_provider_binlog.sources.lakes import load_lakes
from airflow_provider_binlog.spark.merge.progress import Progress
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.paths import part_key
from airflow_provider_binlog.transport.server.consistent_read import open_read


def show(arguments: argparse.Namespace) -> None:
    """Print the tables of every lake of a source; there are none before the first merge."""
    lakes = list(load_lakes(open_staging(arguments.staging_path), arguments.name))
    if not lakes:
        sys.stderr.write(f"note: no merge has published anything of {arguments.name} yet\n")
    words = ["airflow", "binlog", "reload", arguments.name, arguments.staging_path]
    reload = shlex.join([*words, "--conn", "CONN", "--table"])
    records = [record for lake in lakes for record in list_tables(lake, reload)]
    print_records(records, arguments.output)


def list_tables(lake: Progress, reload: str = "") -> Iterator[dict[str, Any]]:
    """Yield a record for each table of a lake; `reload` is the command that repairs one."""
    for name, table in sorted(lake.tables.items()):
        hold, text, suspect = table.hold, join_table_name(name), table.foreign_write
        is_wrong = hold is not None or suspect is not None
        yield {
            "lake": lake.lake,
            "table": text,
            "state": "live" if hold is None else hold.state,
            "suspect": suspect is not None,
            "applied": str(table.mark),
            "waits": table.pending and hold is None,
            "since": "" if hold is None else hold.since,
            "position": "" if hold is None else hold.position,
            "reason": str(suspect or "") if hold is None else hold.reason,
            "repair": f"{reload} {shlex.quote(text)}, then merge" if reload and is_wrong else "",
        }


def adopt(arguments: argparse.Namespace) -> None:
    """Note the position of a lake table that was loaded by other means; the next merge adopts it.

    Raises:
        ConfigurationError: The table has no key, or an argument cannot be used.
        SourceError: The server has no such table or position.
    """
    store = open_staging(arguments.staging_path)
    from airflow_provider_binlog.operators.arguments import read_table_name
    from airflow_provider_binlog.snapshot.chunk import describe_table
    from airflow_provider_binlog.sources.server_log import ServerLog

    name, settings = read_table_name(arguments.table), read_settings(arguments.conn)
    latest = ManifestLog(store, arguments.name).latest()
    policies = read_policies(store, arguments.name)
    columns = read_columns(store, arguments.name, settings)
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
