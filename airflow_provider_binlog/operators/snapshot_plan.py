"""Which tables of a source need a snapshot, and which tasks read them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_binlog.errors import ConfigurationError, ManifestError
from airflow_provider_binlog.hooks.failures import fail_unless_retryable
from airflow_provider_binlog.hooks.object_storage import lake_location, open_store
from airflow_provider_binlog.hooks.tasks import RendersSource, max_map_length, name_run
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.operators.chunk_shares import share_tables
from airflow_provider_binlog.operators.snapshot_arguments import (
    read_request,
    read_throttle,
    server_settings,
)
from airflow_provider_binlog.operators.table_globs import read_globs, read_table_rules
from airflow_provider_binlog.snapshot_manifest import planned_at
from airflow_provider_binlog.sources.binlog_source import (
    BinlogSource,
    Engine,
    LakeFormat,
    SnapshotLock,
    check_choice,
    read_source,
)
from airflow_provider_binlog.sources.settings import Connections
from airflow_provider_binlog.staging.paths import StoredFiles
from airflow_provider_binlog.staging.schema_files import SchemaFiles

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from airflow.sdk import Context

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.snapshot import SnapshotRequest
    from airflow_provider_binlog.spark.merge.progress import Progress
    from airflow_provider_binlog.staging.snapshots import Snapshots

_READERS = 8

_NO_TABLE = (
    "globs match no table of the server, in letters and case: correct them, or GRANT SELECT on the "
    "tables to the account, which sees no others"
)


class BinlogSnapshotPlanOperator(RendersSource, BaseOperator):
    """Find the tables whose rows a lake lacks and the staged log does not have.

    .. code-block:: python

        BinlogSnapshotOperator.partial(task_id="snapshot", ...).expand_kwargs(plan.output)

    These are, of the captured tables that are on the server now:

    - those that no merge has seen and whose creation is not staged: they had rows before;
    - those that are ``loading`` or ``stale`` in the lake;
    - those whose newest snapshot is unreadable.

    A table that has a snapshot which is still to be loaded is not among them, unless a merge has
    refused that snapshot. A table that stays ``loading`` or ``stale`` whatever is read of it is
    read again after ever longer times: each time twice as long after the first such snapshot.

    Without a lake, these are all tables that match.

    Returns what each of the mapped tasks reads: a whole table, ``{"table": "shop.orders"}``, or
    some chunks of a larger one, whose snapshot is begun here: ``{"table", "chunks": {"snapshot",
    "first", "stop"}}``. A retry returns the same, unless a table was altered. At most as many as
    Airflow maps a task over, ``[core] max_map_length``: tasks then read more chunks each, and if
    there are more tables, the next run returns the others.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource`. (templated)
    :param staging_path: As the extract operator has it. (templated)
    :param tables: Globs of ``database.table``: those that are captured. (templated)
    :param exclude: Globs of tables among them that are left out. (templated)
    :param format: As the merge operator has it. (templated)
    :param lake: See there; by default no lake is looked at. (templated)
    :param table_name: See there. (templated)
    :param merge_tables: What it has as ``tables``. (templated)
    :param merge_exclude: What it has as ``exclude``. (templated)
    :param where: As the snapshot operator has it. (templated)
    :param lock: See there.
    :param chunk_bytes: See there. A task reads eight chunks at least, or a whole table.
    :param max_threads_running: See there: the bounds of chunks are found while it allows that.
    :param max_replica_lag: The same.
    :param replica_conn_ids: See there.
    :param engine: See there. With ``"spark"``, each table is one task.
    """

    template_fields: Sequence[str] = (
        "source",
        "staging_path",
        "tables",
        "exclude",
        "format",
        "lake",
        "table_name",
        "merge_tables",
        "merge_exclude",
        "where",
    )
    template_fields_renderers = {  # noqa: RUF012
        **dict.fromkeys(("source", "tables", "exclude", "merge_tables", "merge_exclude"), "json"),
        "where": "sql",
    }
    ui_color = "#d8ecf3"

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str,
        tables: Sequence[str],
        format: LakeFormat = "delta",  # noqa: A002
        lake: str | None = None,
        exclude: Sequence[str] = (),
        table_name: str | None = None,
        merge_tables: Sequence[str] = (),
        merge_exclude: Sequence[str] = (),
        where: str | None = None,
        lock: SnapshotLock = "none",
        chunk_bytes: int | str = "64 MiB",
        max_threads_running: int | None = None,
        max_replica_lag: float | None = None,
        replica_conn_ids: Sequence[str] = (),
        engine: Engine = "worker",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.tables = tables
        self.exclude = exclude
        self.format = format
        self.lake = lake
        self.table_name = table_name
        self.merge_tables = merge_tables
        self.merge_exclude = merge_exclude
        self.where = where
        self.lock = lock
        self.chunk_bytes = chunk_bytes
        self.max_threads_running = max_threads_running
        self.max_replica_lag = max_replica_lag
        self.replica_conn_ids = replica_conn_ids
        self.engine = engine

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return what each task reads; see the class.

        Raises:
            AirflowFailException: A retry would fail for the same reason.
        """
        with fail_unless_retryable():
            source = read_source(self.source)
            check_choice(Engine, self.engine, "engine")
            most = max_map_length()
            names = self._choose(source, most)
            if self.engine == "spark" or not names:
                return [{"table": join_table_name(name)} for name in names]
            run = name_run(context)
            throttle = read_throttle(
                self.max_threads_running, self.max_replica_lag, self.replica_conn_ids
            )
            return share_tables(
                [replace(self._request(source, run, name), throttle=throttle) for name in names],
                Connections(server_settings(source)).open,
                open_store(self.staging_path),
                tasks_max=most,
                logger=self.log,
            )

    def _request(self, source: BinlogSource, run: str, name: TableName) -> SnapshotRequest:
        return read_request(
            source,
            run=run,
            name=name,
            where=self.where,
            lock=self.lock,
            chunk_bytes=self.chunk_bytes,
        )

    def _choose(self, source: BinlogSource, most: int) -> list[TableName]:
        """Return the tables to read, not more than that.

        Raises:
            ConfigurationError: There are more, and no next run.
        """
        on_server = self._list(source)
        found = sorted(on_server) if self.lake is None else self._find(source, on_server, self.lake)
        shown = [join_table_name(name) for name in found[:most]]
        self.log.info("%s: %d tables need a snapshot: %s", source.name, len(found), shown)
        if len(found) > most:
            if self.lake is None:
                raise ConfigurationError(
                    "there are more tables than tasks to read them: name fewer, or increase "
                    "[core] max_map_length",
                    tables=len(found),
                    tasks=most,
                )
            self.log.warning("%s: %d of them wait for the next run", source.name, len(found) - most)
        return found[:most]

    def _list(self, source: BinlogSource) -> list[TableName]:
        """Return the tables of the server that are captured and merged.

        Raises:
            ConfigurationError: There is no lake, and a glob matches nothing.
        """
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.capture import TableFilter
        from airflow_provider_binlog.spark.merge.table_choice import TableChoice
        from airflow_provider_binlog.transport.server.information_schema import list_tables

        captured = TableFilter(
            read_globs(self.tables, "tables"), read_globs(self.exclude, "exclude")
        )
        merged = TableChoice(
            read_globs(self.merge_tables, "merge_tables"),
            read_globs(self.merge_exclude, "merge_exclude"),
        )
        with closing(server_settings(source).connect()) as connection:
            kinds = list_tables(connection)
        base_tables = [name for name, kind in kinds.items() if kind == "BASE TABLE"]
        if self.lake is None and (left := captured.unmatched(base_tables)):
            raise ConfigurationError(_NO_TABLE, globs=", ".join(left))
        chosen = [name for name in kinds if captured.matches(*name) and merged(name)]
        versioned = [join_table_name(name) for name in chosen if kinds[name] == "SYSTEM VERSIONED"]
        if versioned:
            self.log.warning(
                "%s: tables WITH SYSTEM VERSIONING are not loaded, and quarantined once they "
                "change: leave them out with exclude (tables=%s)",
                source.name,
                ", ".join(versioned),
            )
        found = [name for name in chosen if kinds[name] == "BASE TABLE"]
        if not found:
            self.log.warning("%s: %s", source.name, _NO_TABLE)
        return found

    def _find(
        self, source: BinlogSource, on_server: Collection[TableName], lake: str
    ) -> list[TableName]:
        """Return the tables whose rows a lake lacks, but for those to be read later."""
        from airflow_provider_binlog.spark.merge.progress import load_progress, progress_folder
        from airflow_provider_binlog.staging.snapshots import Snapshots

        check_choice(LakeFormat, self.format, "format")
        store = open_store(self.staging_path)
        files = StoredFiles(store, source.name)
        folder = progress_folder(
            self.format,
            lake_location(self.format, lake, self.table_name),
            read_table_rules(self.table_name),
        )
        progress, snapshots = load_progress(files, folder), Snapshots(files)
        found = find_tables_to_read(on_server, progress, snapshots, SchemaFiles(store, source.name))
        times = {name: next_time(name, progress, snapshots) for name in found}
        now = datetime.now(UTC)
        for name, at in times.items():
            if at > now:
                self.log.warning(
                    "%s: %s is not read again before %s, because its snapshots did not help: the "
                    "merge reports why",
                    source.name,
                    ".".join(name),
                    f"{at:%Y-%m-%d %H:%M:%S} UTC",
                )
        return [name for name in found if times[name] <= now]


def find_tables_to_read(
    on_server: Collection[TableName],
    progress: Progress | None,
    snapshots: Snapshots,
    schemas: SchemaFiles,
) -> list[TableName]:
    """Return the tables that need a snapshot, in order.

    Args:
        on_server: The captured tables that the server has now.
        progress: How far the lake has got; None before its first merge.
        snapshots: Those of the source.
        schemas: What is known of the source's tables.

    Raises:
        ManifestError: What is known of a table is unreadable.
    """

    def needs_snapshot(name: TableName) -> bool:
        return _is_unreadable(name, progress, snapshots) or (
            _lacks_rows(name, progress, schemas) and not _is_waiting(name, progress, snapshots)
        )

    names = sorted(on_server)
    # Before its first merge each table is a request or more to the store.
    with ThreadPoolExecutor(_READERS) as pool:
        found = pool.map(needs_snapshot, names)
        return [name for name, needs in zip(names, found, strict=True) if needs]


def next_time(name: TableName, progress: Progress | None, snapshots: Snapshots) -> datetime:
    """Return when a table is read again: the more snapshots did not help, the later.

    As long after its newest snapshot as that was taken after the first one that did not help.
    """
    known = progress.tables.get(name) if progress is not None else None
    tried = snapshots.since(name, "" if known is None else known.loaded)
    if not tried:
        return datetime.min.replace(tzinfo=UTC)
    newest = planned_at(tried[-1])
    return newest + (newest - planned_at(tried[0]))


def _is_unreadable(name: TableName, progress: Progress | None, snapshots: Snapshots) -> bool:
    """Whether the newest snapshot of a table was not dealt with, and cannot be."""
    newest = snapshots.newest_id(name)
    if newest is None or (progress is not None and newest in progress.snapshots):
        return False
    try:
        snapshots.read(newest)
    except ManifestError:
        return True
    return False


def _lacks_rows(name: TableName, progress: Progress | None, schemas: SchemaFiles) -> bool:
    known = progress.tables.get(name) if progress is not None else None
    if known is not None:
        return known.hold is not None
    file = schemas.find(name, before=1 << 63)
    return file is None or file.state is None or file.state.created is None


def _is_waiting(name: TableName, progress: Progress | None, snapshots: Snapshots) -> bool:
    """Whether the newest snapshot of a table is still to be loaded."""
    from airflow_provider_binlog.spark.reload.window import is_comparable, is_reached

    newest = snapshots.newest_id(name)
    if newest is None:
        return False
    if progress is None or progress.end is None:
        return True
    if newest in progress.snapshots:
        return False
    snapshot = snapshots.read(newest)
    # What cannot be compared is refused.
    return is_comparable(snapshot, progress.end) and not is_reached(snapshot, progress.end)
