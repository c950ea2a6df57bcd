"""Plan the snapshots that a lake needs: tables and chunks for mapped tasks to read."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.hooks.object_storage import lake_location, open_store
from airflow_provider_binlog.hooks.tasks import (
    RendersObjects,
    fail_unless_retryable,
    max_map_length,
    name_run,
)
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.operators.arguments import (
    read_globs,
    read_options,
    read_request,
    read_throttle,
    server_settings,
)
from airflow_provider_binlog.sources.binlog_source import (
    BinlogSource,
    Engine,
    LakeFormat,
    SnapshotLock,
    check_choice,
    read_source,
)
from airflow_provider_binlog.sources.settings import Connections
from airflow_provider_binlog.staging.manifest_log import SchemaFiles
from airflow_provider_binlog.staging.paths import StoredFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.snapshot.needed import LakeTables, NeededTables
    from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
    from airflow_provider_binlog.spark.merge.progress import Progress
    from airflow_provider_binlog.table_options import TableOptions

_NO_TABLE = (
    "globs match no table of the server, including lettercase: correct them, or GRANT SELECT on "
    "the tables to the account, which sees no others"
)


class BinlogSnapshotPlanOperator(RendersObjects, BaseOperator):
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
    :param lake: As the merge operator has it; by default no lake is read. (templated)
    :param options: As the merge operator has it. (templated)
    :param merge_tables: The ``tables`` of the merge operator. (templated)
    :param merge_exclude: The ``exclude`` of the merge operator. (templated)
    :param where: As the snapshot operator has it. (templated)
    :param lock: As the snapshot operator has it.
    :param chunk_bytes: As the snapshot operator has it. A task reads eight chunks at least, or a
        whole table.
    :param max_threads_running: As the snapshot operator has it: each search for a bound of chunks
        waits, too.
    :param max_replica_lag: As ``max_threads_running``.
    :param replica_conn_ids: As the snapshot operator has it.
    :param engine: As the snapshot operator has it. With ``"spark"``, each table is one task.
    """

    template_fields: Sequence[str] = (
        "source",
        "staging_path",
        "tables",
        "exclude",
        "format",
        "lake",
        "options",
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
        options: Mapping[str, TableOptions | Mapping[str, Any]] | None = None,
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
        self.options = options
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
            return self._share(source, names, most, name_run(context))

    def _choose(self, source: BinlogSource, most: int) -> list[TableName]:
        """Return the tables to read in this run."""
        from airflow_provider_binlog.snapshot.needed import limit_tables

        names = self._list(source)
        if self.lake is not None:
            needed = self._find_needed(source, names, self.lake)
            for name, time in needed.later.items():
                self.log.warning(
                    "%s: %s is not read again before %s, because its snapshots did not help: the "
                    "merge reports why",
                    source.name,
                    ".".join(name),
                    f"{time:%Y-%m-%d %H:%M:%S} UTC",
                )
            names = needed.now
        chosen = limit_tables(names, most, has_next_run=self.lake is not None)
        shown = list(map(join_table_name, chosen))
        self.log.info("%s: %d tables need a snapshot: %s", source.name, len(names), shown)
        if waiting := len(names) - len(chosen):
            self.log.warning("%s: %d of them wait for the next run", source.name, waiting)
        return chosen

    def _list(self, source: BinlogSource) -> tuple[TableName, ...]:
        """Return the tables of the server that are captured, merged and readable.

        Raises:
            ConfigurationError: There is no lake, and a glob matches nothing.
        """
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.capture import TableFilter
        from airflow_provider_binlog.snapshot.needed import choose_tables
        from airflow_provider_binlog.spark.job.options import TableChoice
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
        if self.lake is None and (unmatched := captured.find_misspelled(kinds)):
            raise ConfigurationError(_NO_TABLE, globs=", ".join(unmatched))
        chosen = choose_tables(kinds, lambda name: captured.matches(*name) and merged(name))
        if chosen.refused:
            self.log.warning(
                "%s: sequences, and tables WITH SYSTEM VERSIONING, are not loaded, and quarantined "
                "once they change: leave them out with exclude (tables=%s)",
                source.name,
                ", ".join(map(join_table_name, chosen.refused)),
            )
        if not chosen.readable:
            self.log.warning("%s: %s", source.name, _NO_TABLE)
        return chosen.readable

    def _find_needed(
        self, source: BinlogSource, on_server: tuple[TableName, ...], lake: str
    ) -> NeededTables:
        from airflow_provider_binlog.snapshot.needed import find_needed
        from airflow_provider_binlog.spark.merge.progress import load_progress, progress_folder
        from airflow_provider_binlog.staging.paths import Snapshots

        check_choice(LakeFormat, self.format, "format")
        store, rules = open_store(self.staging_path), read_options(self.options)
        files = StoredFiles(store, source.name)
        folder = progress_folder(self.format, lake_location(self.format, lake, rules), rules)
        return find_needed(
            on_server,
            lake_tables(load_progress(files, folder)),
            Snapshots(files),
            SchemaFiles(store, source.name),
            now=datetime.now(UTC),
        )

    def _share(
        self, source: BinlogSource, names: Sequence[TableName], tasks_max: int, run: str
    ) -> list[dict[str, Any]]:
        """Return the arguments of the mapped tasks; the snapshots of large tables are begun."""
        from airflow_provider_binlog.snapshot.needed import plan_tables, share_chunks

        throttle = read_throttle(
            self.max_threads_running, self.max_replica_lag, self.replica_conn_ids
        )
        request = read_request(
            source,
            run=run,
            name=names[0],
            where=self.where,
            lock=self.lock,
            chunk_bytes=self.chunk_bytes,
        )
        tables = []
        for table in plan_tables(
            [replace(request, name=name, throttle=throttle) for name in names],
            Connections(server_settings(source)).open,
            open_store(self.staging_path),
            on_wait=self._log_wait,
        ):
            tables.append(table)
            text = ".".join(table.name)
            if table.refusal is not None:
                self.log.warning(
                    "%s is left to one task, because its snapshot cannot be begun: %s",
                    text,
                    table.refusal,
                )
            elif table.plan is not None:
                self.log.info("%s: %d chunks", text, table.chunk_count)
        shared: list[dict[str, Any]] = []
        for share in share_chunks([table.chunk_count for table in tables], tasks_max):
            table = tables[share.table]
            arguments: dict[str, Any] = {"table": join_table_name(table.name)}
            if table.plan is not None:
                chunks = {"snapshot": table.plan.id, "first": share.first, "stop": share.stop}
                arguments["chunks"] = chunks
            shared.append(arguments)
        return shared

    def _log_wait(self, name: TableName, reason: str) -> None:
        self.log.info("%s: the next bound waits: %s", ".".join(name), reason)


def lake_tables(progress: Progress | None) -> LakeTables:
    """Return what the progress of a lake says of its tables; None before its first merge."""
    from airflow_provider_binlog.snapshot.needed import LakeTables
    from airflow_provider_binlog.spark.reload.plan import is_comparable, is_reached

    if progress is None:
        return LakeTables()
    end, tables = progress.end, progress.tables

    def awaits_log(snapshot: SnapshotManifest) -> bool:
        # A merge refuses a snapshot whose position cannot be compared.
        return end is None or (is_comparable(snapshot, end) and not is_reached(snapshot, end))

    return LakeTables(
        {name: table.loaded for name, table in tables.items()},
        {name for name, table in tables.items() if table.hold is not None},
        progress.snapshots,
        awaits_log,
    )
