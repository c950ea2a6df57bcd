"""`tables`: the state of each lake table of a source, as the last merges saw it."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from airflow_provider_binlog.cli.airflow_stores import let_hooks_read_the_database
from airflow_provider_binlog.errors import StagingError
from airflow_provider_binlog.names import join_table_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.merge.progress import Progress, TableProgress
    from airflow_provider_binlog.staging.object_store import ObjectStore


def run(arguments: argparse.Namespace) -> None:
    """Print the tables of every lake that the source is merged into.

    Raises:
        StagingError: Nothing was merged from there yet.
    """
    let_hooks_read_the_database()
    from airflow_provider_binlog.hooks.object_storage import open_store

    store = open_store(arguments.staging_path)
    lakes = list(_read(store, arguments.name))
    if not lakes:
        raise StagingError(
            "no merge has noted how far it got: nothing was merged yet, or the notes were deleted",
            source=arguments.name,
            staging_path=arguments.staging_path,
        )
    for number, progress in enumerate(lakes):
        sys.stdout.write("\n" * bool(number))
        words = ["airflow", "binlog", "reload", arguments.name, arguments.staging_path]
        for line in _lines(progress, shlex.join([*words, "--conn", "CONN", "--table"])):
            sys.stdout.write(f"{line}\n")


def _lines(progress: Progress, reload: str) -> Iterator[str]:
    """Yield what is known of one lake: a line for it, and lines for each table."""
    yield f"{progress.lake or 'lake'}: merged up to manifest {progress.through}"
    for name, table in sorted(progress.tables.items()):
        yield from _of_table(name, table, reload)


def _of_table(name: TableName, table: TableProgress, reload: str) -> Iterator[str]:
    state, text = table.state, join_table_name(name)
    waits = "  waits for a merge" if table.pending and state.is_merged else ""
    yield f"{text}  {state.name}  {table.mark}{waits}"
    if state.is_merged:
        return
    position = f" (at {state.position})" if state.position else ""
    yield f"    {state.reason}{position}"
    if state.since:
        yield f"    since {state.since}"
    yield f"    to reload it: {reload} {shlex.quote(text)}, then merge"


def _read(store: ObjectStore, source: str) -> Iterator[Progress]:
    from airflow_provider_binlog.spark.merge.progress import PROGRESS, load_progress
    from airflow_provider_binlog.staging.paths import StoredFiles, source_folder

    files = StoredFiles(store, source)
    for folder in store.folders(f"{source_folder(source)}/{PROGRESS}"):
        progress = load_progress(files, f"{PROGRESS}/{folder}")
        if progress is not None:
            yield progress
