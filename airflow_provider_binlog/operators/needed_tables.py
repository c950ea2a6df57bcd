"""Tables that need a snapshot, by the arguments of tasks, and whether a lake waits for a run.

The sensor uses it at every poke: nothing here loads NumPy or Arrow while no table is held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.hooks.object_storage import lake_location, open_store
from airflow_provider_binlog.names import (
    find_unmatched,
    is_captured,
    is_exact_glob,
    join_table_name,
)
from airflow_provider_binlog.operators.arguments import (
    read_globs,
    read_options,
    read_reload,
    server_settings,
)
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.sources.binlog_source import BinlogSource, LakeFormat, check_choice
from airflow_provider_binlog.sources.lakes import choose_tables, find_needed
from airflow_provider_binlog.spark.merge.progress import Progress, load_progress, progress_folder
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.paths import Snapshots, StoredFiles

NO_TABLE = (
    "globs match no table of the server, including lettercase: correct them, or GRANT SELECT on "
    "the tables to the account, which sees no others"
)


@dataclass(frozen=True, kw_only=True)
class NeededTables:
    """Finds tables that need a snapshot, by the arguments of `BinlogSnapshotPlanOperator`."""

    source: BinlogSource
    staging_path: str
    tables: Sequence[str]
    format: LakeFormat = "delta"
    lake: str | None = None
    exclude: Sequence[str] = ()
    options: Mapping[str, Any] | None = None
    merge_tables: Sequence[str] = ()
    merge_exclude: Sequence[str] = ()
    reload: str | Sequence[str] = ()

    def list_on_server(self) -> tuple[list[TableName], list[TableName]]:
        """Return the chosen tables that a snapshot can read, and those that are captured alone.

        Raises:
            ConfigurationError: There is no lake, and a glob matches nothing.
        """
        from airflow_provider_binlog.transport.server.information_schema import list_tables

        tables, exclude = read_globs(self.tables, "tables"), read_globs(self.exclude, "exclude")
        with closing(server_settings(self.source).connect()) as connection:
            kinds = list_tables(connection)
        exact = filter(is_exact_glob, exclude)
        unmatched = find_unmatched((*tables, *exact), map(".".join, kinds))
        if self.lake is None and unmatched:
            raise ConfigurationError(NO_TABLE, globs=", ".join(unmatched))
        return choose_tables(kinds, self._read_choice())

    def _read_choice(self) -> Callable[[TableName], bool]:
        """Return whether a table is captured, and merged."""
        from airflow_provider_binlog.spark.job.options import TableChoice

        tables, exclude = read_globs(self.tables, "tables"), read_globs(self.exclude, "exclude")
        merged = TableChoice(
            read_globs(self.merge_tables, "merge_tables"),
            read_globs(self.merge_exclude, "merge_exclude"),
        )
        return lambda name: is_captured(name, tables, exclude) and merged(name)

    def list_unchosen(self) -> list[TableName]:
        """Return those of the tables to reload that are not captured, or not merged."""
        is_chosen = self._read_choice()
        return [name for name in read_reload(self.reload) if not is_chosen(name)]

    def list_keyless(self, names: Sequence[TableName]) -> list[TableName]:
        """Return those of some tables that have no key on the server, and whose changes are rows.

        By the options a table has a key, or is a multiset, whose rows are counted.
        """
        from airflow_provider_binlog.transport.server.information_schema import list_keyless

        rules = read_options(self.options)
        options = {name: rules.of(name) for name in names}
        chosen = [name for name, of in options.items() if not of.key and of.mode != "multiset"]
        if not chosen:
            return []
        with closing(server_settings(self.source).connect()) as connection:
            return list_keyless(connection, chosen)

    def find_needed(
        self, on_server: list[TableName], skipped: Collection[TableName] = ()
    ) -> tuple[list[TableName], dict[TableName, datetime]]:
        """Return which tables are read now, and when others are; without a lake, all now.

        Those that the run is to reload, but for `skipped` ones, are read first, whatever is known
        of them.

        Raises:
            ConfigurationError: The run is to reload a table that it cannot.
        """
        wanted = [name for name in read_reload(self.reload) if name not in skipped]
        if missing := set(wanted) - set(on_server):
            raise ConfigurationError(
                "tables that the run is to reload are not on the server, or not captured and "
                "merged: correct their names, including lettercase",
                tables=", ".join(sorted(map(join_table_name, missing))),
            )
        if self.lake is None:
            return on_server, {}
        others = [name for name in on_server if name not in wanted]
        store, progress = open_store(self.staging_path), self._load_progress()
        now = datetime.now(UTC)
        needed, later = find_needed(store, self.source.name, others, progress, now=now)
        return [*wanted, *needed], later

    def find_unmerged(self, saved: Checkpoint) -> str:
        """Return what a run has to merge although nothing was logged; empty if there is nothing.

        That is a table that the run is to reload, a staged range, a snapshot, or a table of the
        lake that a snapshot can reload now.
        """
        if wanted := read_reload(self.reload):
            return f"the run is to reload {', '.join(map(join_table_name, wanted))}"
        latest = ManifestLog(open_store(self.staging_path), self.source.name).latest()
        if latest is not None and latest.sequence > saved.sequence:
            return f"manifest {latest.sequence} was staged, and is not merged"
        progress = self._load_progress()
        processed = () if progress is None else progress.snapshots
        if Snapshots(self._files()).has_new(latest, processed):
            return "a snapshot was taken, and is not loaded"
        if progress is None or not any(table.hold for table in progress.tables.values()):
            return ""
        needed, _ = self.find_needed(self.list_on_server()[0])
        return f"tables need a snapshot: {', '.join(map('.'.join, needed))}" if needed else ""

    def _files(self) -> StoredFiles:
        return StoredFiles(open_store(self.staging_path), self.source.name)

    def _load_progress(self) -> Progress | None:
        if self.lake is None:
            return None
        check_choice(LakeFormat, self.format, "format")
        rules = read_options(self.options)
        location = lake_location(self.format, self.lake, rules)
        return load_progress(self._files(), progress_folder(self.format, location, rules))
