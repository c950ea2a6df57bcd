"""`reload`: stage a table's rows as they are now, so that the next merge replaces the lake's."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import Policies
from airflow_provider_binlog.cli.airflow_stores import let_hooks_read_the_database
from airflow_provider_binlog.cli.person import name_person
from airflow_provider_binlog.cli.source import read_settings
from airflow_provider_binlog.errors import StagingError
from airflow_provider_binlog.sources.binlog_source import BinlogSource
from airflow_provider_binlog.sources.settings import Connections

if TYPE_CHECKING:
    import argparse

    from airflow_provider_binlog.snapshot import Progress


def run(arguments: argparse.Namespace) -> None:
    """Take a snapshot of a table, with the values staged as in the newest manifest.

    Raises:
        ConfigurationError: An argument cannot be used.
        SourceError: The server has no such table, or refused.
        StagingError: Nothing is staged of the source, or the store failed.
        UnsupportedError: The type of a column, or a value, is not staged.
    """
    let_hooks_read_the_database()
    from airflow_provider_binlog.hooks.object_storage import open_store
    from airflow_provider_binlog.operators.snapshot_arguments import read_request, read_table_name
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
    # Not that of an earlier call, whose snapshot is complete.
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


def _print_progress(progress: Progress) -> None:
    done = f"{progress.chunks} of {progress.chunk_count} chunks, {progress.rows} rows"
    sys.stderr.write(f"{done}\n")
