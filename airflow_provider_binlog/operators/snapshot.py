"""Snapshots: find the tables that need one, and stage the present rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context

from airflow_provider_binlog.errors import (
    BinlogError,
    ConfigurationError,
    ServerChangedError,
    TableAlteredError,
)
from airflow_provider_binlog.executors.job import ChunkWork
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.lineage import StagedLineage, StagesTables
from airflow_provider_binlog.hooks.metrics import send_snapshot
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.hooks.tasks import (
    RendersObjects,
    fail_unless_retryable,
    max_map_length,
    name_run,
    pass_to_outlets,
    show_position,
)
from airflow_provider_binlog.limits import Limits, limits_in_bytes, read_limits
from airflow_provider_binlog.names import join_table_name, read_table_name
from airflow_provider_binlog.operators.arguments import (
    RELOAD_OF_RUN,
    SnapshotArguments,
    read_chunk_range,
    read_globs,
    server_settings,
)
from airflow_provider_binlog.operators.links import SOURCE_LINKS
from airflow_provider_binlog.operators.spark_engine import EngineOperator
from airflow_provider_binlog.operators.table_notes import (
    count_replaced,
    describe_keyless,
    describe_missing,
    describe_replaced,
)
from airflow_provider_binlog.protected_columns import find_secret
from airflow_provider_binlog.read_progress import OnProgress, PacedProgress
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest, snapshot_path
from airflow_provider_binlog.sources.binlog_source import (
    BinlogSource,
    Engine,
    LakeFormat,
    check_choice,
    read_source,
)
from airflow_provider_binlog.sources.settings import Connections, ConnectionSettings
from airflow_provider_binlog.staging.paths import source_folder

if TYPE_CHECKING:
    from airflow_provider_binlog.operators.needed_tables import NeededTables
    from airflow_provider_binlog.snapshot.plan import SnapshotPlan

_PROGRESS = "%s: %s: %s"
_WAITS = "%s: %s: the next chunk waits: %s"


class BinlogSnapshotOperator(StagesTables, SnapshotArguments, EngineOperator):
    """Stage a table's rows, read with ``SELECT`` in chunks by its key, while capture continues.

    Nothing is written to the server and, as a rule, nothing is locked. The snapshot is visible when
    it is complete; the merge then replays the log over it. A retry reads the chunks that the first
    try has not read. Map the operator over ``table`` for several tables.

    The chunks of a large table are shared by several tasks that a
    :class:`~airflow_provider_binlog.BinlogSnapshotPlanOperator` maps the operator over: the one
    that finds all of them read makes the snapshot visible. With ``engine="spark"`` they are shared
    by Spark's executors: the task plans the snapshot, submits an application that reads each chunk
    in a Spark task of its own, and makes it visible.

    Returns ``{"source", "staging_path", "table", "snapshot", "manifest", "rows", "chunks", "low",
    "high", "is_exact"}``: names, positions and counts, never data. The asset event of every outlet
    carries the same, with positions as texts. A task that leaves chunks to others returns
    ``{"source", "table", "snapshot", "rows", "chunks"}`` of those that it read.

    .. seealso:: ``docs/snapshots.md``: what is read when, and the account's privileges.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource` whose server to read.
        (templated)
    :param staging_path: Where the files are written, as for the extract. (templated)
    :param table: ``database.table``; what follows the first dot is the table's name. A database
        whose name has a dot is between backticks. (templated)
    :param tables: Globs of ``database.table``, as the extract operator has them: a table that
        matches none is refused. By default none is. (templated)
    :param exclude: Globs of tables among them that are refused. (templated)
    :param where: A condition in SQL on the rows to read; by default all are. (templated)
    :param lock: Under ``"brief"`` all rows are read in one transaction, at a position that is exact
        because the table is locked until the transaction is open (on MariaDB without a lock,
        unless it commits XA transactions in two phases); a table without a key is always read so.
        Under ``"none"`` no other table is.
    :param chunk_bytes: Bytes of the table that one transaction reads, about: a number, or a text
        such as ``"64 MiB"``.
    :param chunks: Which chunks to read of a planned snapshot, whose ``lock`` and ``chunk_bytes``
        are then those of the plan, and whose ``where`` has to be that of the plan. By default all
        chunks of a new snapshot. (templated)
    :param max_rows_per_second: At most so many rows are read in a second, by this task; by default
        as many as come.
    :param max_threads_running: The next chunk waits while the server's ``Threads_running`` is
        greater; by default it does not. The task's ``execution_timeout`` limits the wait.
    :param max_replica_lag: Seconds; the next chunk waits while the server, if it is a replica, or a
        replica of ``replica_conn_ids`` lags more, or its replication is stopped.
    :param replica_conn_ids: Airflow connections of the replicas whose lag counts.
    :param options: As the extract operator has it; by default those columns are excluded and hashed
        that the newest staged range was captured so. (templated)
    :param limits: :class:`~airflow_provider_binlog.Limits` of the files' sizes.
    :param engine: ``"worker"``: the task reads the chunks. ``"spark"``: Spark's executors do.
    :param parallelism: With ``engine="spark"``, how many chunks are read at the same time.
    :param spark: With ``engine="spark"``, arguments of a SparkSubmitOperator: ``conn_id``,
        ``conf``, ``executor_memory``, ... (templated)
    """

    template_fields: Sequence[str] = (
        "source",
        "staging_path",
        "table",
        "tables",
        "exclude",
        "where",
        "chunks",
        "options",
        "spark",
    )
    template_fields_renderers = {  # noqa: RUF012
        **dict.fromkeys(("source", "tables", "exclude", "spark"), "json"),
        "where": "sql",
    }
    operator_extra_links = SOURCE_LINKS
    ui_color = "#bfe0ec"

    def __init__(
        self,
        *,
        table: str,
        tables: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        chunks: Mapping[str, Any] | None = None,
        max_rows_per_second: float | None = None,
        limits: Limits | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.tables = tables
        self.exclude = exclude
        self.chunks = chunks
        self.max_rows_per_second = max_rows_per_second
        self.limits = limits

    @property
    def map_name(self) -> str:
        """What a mapped task reads, for ``map_index_template="{{ task.map_name }}"``."""
        match self.chunks:
            case {"first": int(first), "stop": int(stop)}:
                return f"{self.table}, chunks {first + 1} to {stop}"
        return self.table

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the snapshot; see the class."""
        with fail_unless_retryable():
            if self.chunks is not None:
                if self.check_engine():
                    raise ConfigurationError(
                        'engine="spark" shares all chunks of a table among executors: give it a '
                        "table, without chunks"
                    )
                taken = self._read_chunks(self.chunks)
            else:
                taken = self._take(name_run(context))
        if "manifest" in taken:
            positions = {name: show_position(taken[name]) for name in ("low", "high")}
            pass_to_outlets(self, context, taken | positions)
        return taken

    def _take(self, run: str) -> dict[str, Any]:
        from airflow_provider_binlog.snapshot.take import take_snapshot

        source, store = read_source(self.source), open_store(self.staging_path)
        request = self.read_request(source, run, self._read_name(), store)
        request = replace(request, limits=read_limits(self.limits))
        on_spark = self.check_engine()
        settings = server_settings(source)
        taken = take_snapshot(
            request,
            Connections(settings).open,
            store,
            read_plan=partial(self._read_on_spark, source, settings) if on_spark else None,
            on_progress=self._log_progress(source.name),
            on_wait=partial(self.log.info, _WAITS, source.name, self.table),
        )
        self.lineage = StagedLineage(source.name, self.staging_path, settings.address)
        self.lineage.add_table(taken.name, taken.schema.fields, taken.rows)
        if missing := describe_missing(request.columns.options, {taken.name: taken.schema.whole}):
            self.log.warning("%s: %s", source.name, missing)
        return self._describe(taken, source.name)

    def _log_progress(self, source: str) -> OnProgress:
        return PacedProgress(partial(self.log.info, _PROGRESS, source, self.table))

    def _describe(self, manifest: SnapshotManifest, source: str) -> dict[str, Any]:
        folder = f"{self.staging_path.rstrip('/')}/{source_folder(source)}"
        self.log.info("%s: %s: %d rows are staged", source, self.table, manifest.rows)
        send_snapshot(source, rows=manifest.rows, size=sum(part.bytes for part in manifest.parts))
        if replaced := describe_replaced({manifest.name: count_replaced(manifest.parts)}):
            self.log.warning("%s: %s", source, replaced)
        return {
            "source": source,
            "staging_path": self.staging_path,
            "table": ".".join(manifest.name),
            "snapshot": manifest.id,
            "manifest": f"{folder}/{snapshot_path(manifest.id)}",
            "rows": manifest.rows,
            "chunks": len(manifest.chunks),
            "low": manifest.low.to_json(),
            "high": manifest.high.to_json(),
            "is_exact": manifest.is_exact,
        }

    def _read_name(self) -> TableName:
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.capture.log_range import TableFilter

        name = read_table_name(self.table)
        if self.tables is not None:
            exclude = read_globs(self.exclude, "exclude")
            if not TableFilter(read_globs(self.tables, "tables"), exclude).matches(*name):
                raise ConfigurationError(
                    "the task is to read a table that is not captured", table=self.table
                )
        return name

    def _read_on_spark(
        self, source: BinlogSource, settings: ConnectionSettings, plan: SnapshotPlan
    ) -> None:
        """Read the remaining chunks of a plan on executors."""
        from airflow_provider_binlog.snapshot.plan import SnapshotFiles

        files = SnapshotFiles(open_store(self.staging_path), source.name)
        numbers = range(plan.chunk_count)
        missing = [number for number in numbers if files.find_record(plan.id, number) is None]
        if not missing:
            return
        parallelism = min(self.parallelism, len(missing))
        throttle = self.read_throttle()
        rows, threads = throttle.rows_per_second_max, throttle.threads_running_max
        work = ChunkWork(
            server=settings,
            snapshot=plan.id,
            database=plan.database,
            table=plan.table,
            where=self.where or None,
            numbers=tuple(missing),
            limits=limits_in_bytes(read_limits(self.limits)),
            rows_per_second_max=None if rows is None else rows / parallelism,
            threads_running_max=None if threads is None else int(threads),
            replica_lag_max=throttle.replica_lag_max and float(throttle.replica_lag_max),
            replicas=tuple(BinlogHook(conn_id).settings for conn_id in self.replica_conn_ids),
        )
        self.run_on_spark(source.name, work)

    def _read_chunks(self, chunks: Mapping[str, Any]) -> dict[str, Any]:
        from airflow_provider_binlog.snapshot.chunk import ChunkReader
        from airflow_provider_binlog.snapshot.plan import SnapshotFiles
        from airflow_provider_binlog.snapshot.take import complete_snapshot, read_chunks

        name = self._read_name()
        source = read_source(self.source)
        files = SnapshotFiles(open_store(self.staging_path), source.name)
        id_, first, stop = read_chunk_range(chunks)
        settings = server_settings(source)
        reader = ChunkReader(
            Connections(settings).open,
            files,
            read_limits(self.limits),
            self.read_throttle(),
            partial(self.log.info, _WAITS, source.name, self.table),
            secret=find_secret(settings.hash_secret),
        )
        try:
            plan = files.read_plan(id_, name, self.where or None)
            on_progress = self._log_progress(source.name)
            rows = read_chunks(plan, range(first, stop), reader, on_progress=on_progress)
            self.lineage = StagedLineage(source.name, self.staging_path, settings.address)
            self.lineage.add_table(name, plan.schema.fields, rows)
        except (ServerChangedError, TableAlteredError) as error:
            # No retry of this task mends it: all tasks share the plan.
            error.context["repair"] = (
                "clear the task that shared the chunks, and those after it: it begins the snapshot "
                "again"
            )
            # The address may lead to the other server again.
            error.retryable = isinstance(error, ServerChangedError)
            raise
        # The task that reads the last chunk sees all records: a written record is visible.
        if files.is_read(plan):
            return self._describe(complete_snapshot(plan, files), source.name)
        return {
            "source": source.name,
            "table": self.table,
            "snapshot": id_,
            "rows": rows,
            "chunks": stop - first,
        }


class BinlogSnapshotPlanOperator(SnapshotArguments, RendersObjects, BaseOperator):
    """Find the tables whose rows a lake lacks and the staged log does not have.

    .. code-block:: python

        BinlogSnapshotOperator.partial(task_id="snapshot", ...).expand_kwargs(plan.output)

    These are, of the captured tables that are on the server now:

    - those that no merge has seen and whose creation is not staged: they had rows before;
    - those that are ``loading`` or ``stale`` in the lake;
    - those whose newest snapshot is unreadable;
    - those that the run is triggered to reload.

    A table that has a snapshot which is still to be loaded is not among them, unless a merge has
    refused that snapshot. A table that stays ``loading`` or ``stale`` whatever is read of it is
    read again after ever longer times: each time twice as long after the first such snapshot.

    Without a lake, these are all tables that match.

    Returns what each of the mapped tasks reads: a whole table, ``{"table": "shop.orders"}``, or
    some chunks of a larger one, whose snapshot is begun here: ``{"table", "chunks": {"snapshot",
    "first", "stop"}}``. A retry returns the same, unless a table was altered. At most as many as
    Airflow maps a task over, ``[core] max_map_length``: tasks then read more chunks each, and if
    there are more tables, the next run returns the others.

    The arguments ``where``, ``lock``, ``chunk_bytes``, ``max_threads_running``,
    ``max_replica_lag``, ``replica_conn_ids`` and ``engine`` are those of the
    :class:`~airflow_provider_binlog.BinlogSnapshotOperator`. A task reads eight chunks at least, or
    a whole table; with ``engine="spark"``, each table is one task. Each search for a bound of
    chunks waits, too.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource`. (templated)
    :param staging_path: As the extract operator has it. (templated)
    :param tables: Globs of ``database.table``: those that are captured. (templated)
    :param exclude: Globs of tables among them that are left out. (templated)
    :param format: As the merge operator has it. (templated)
    :param lake: As the merge operator has it; by default no lake is read. (templated)
    :param options: As the merge operator has it, and as the snapshot operator has it. (templated)
    :param merge_tables: The ``tables`` of the merge operator. (templated)
    :param merge_exclude: The ``exclude`` of the merge operator. (templated)
    :param reload: Names of tables to read whether or not they need it, or a JSON list of them; by
        default those that the run's conf names: ``{"reload": ["shop.orders"]}``. (templated)
    """

    template_fields: Sequence[str] = (
        *("source", "staging_path", "tables", "exclude", "format", "lake"),
        *("options", "merge_tables", "merge_exclude", "where", "reload"),
    )
    template_fields_renderers = {  # noqa: RUF012
        **dict.fromkeys(("source", "tables", "exclude", "merge_tables", "merge_exclude"), "json"),
        "where": "sql",
    }
    operator_extra_links = SOURCE_LINKS
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
        merge_tables: Sequence[str] = (),
        merge_exclude: Sequence[str] = (),
        reload: str | Sequence[str] = RELOAD_OF_RUN,
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
        self.merge_tables = merge_tables
        self.merge_exclude = merge_exclude
        self.reload = reload
        self.engine = engine

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return what each task reads; see the class."""
        with fail_unless_retryable():
            source = read_source(self.source)
            check_choice(Engine, self.engine, "engine")
            most = max_map_length()
            names = self._choose(source, most)
            if self.engine == "spark" or not names:
                return [{"table": join_table_name(name)} for name in names]
            return self._share(source, names, most, name_run(context))

    def _choose(self, source: BinlogSource, most: int) -> list[TableName]:
        from airflow_provider_binlog.sources.lakes import limit_tables

        names = self._list_needed(source)
        chosen = limit_tables(names, most, has_next_run=self.lake is not None)
        shown = list(map(join_table_name, chosen))
        self.log.info("%s: %d tables need a snapshot: %s", source.name, len(names), shown)
        if waiting := len(names) - len(chosen):
            self.log.warning("%s: %d of them wait for the next run", source.name, waiting)
        return chosen

    def _list_needed(self, source: BinlogSource) -> list[TableName]:
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.capture.log_range import TableFilter
        from airflow_provider_binlog.operators.needed_tables import NO_TABLE, NeededTables

        # It refuses globs that can match no table.
        TableFilter(read_globs(self.tables, "tables"), read_globs(self.exclude, "exclude"))
        tables = NeededTables(
            source=source,
            staging_path=self.staging_path,
            tables=self.tables,
            format=self.format,
            lake=self.lake,
            exclude=self.exclude,
            options=self.options,
            merge_tables=self.merge_tables,
            merge_exclude=self.merge_exclude,
            reload=self.reload,
        )
        readable, refused = tables.list_on_server()
        if refused:
            self.log.warning(
                "%s: sequences, and tables WITH SYSTEM VERSIONING, are not loaded, and quarantined "
                "once they change: leave them out with exclude (tables=%s)",
                source.name,
                ", ".join(map(join_table_name, refused)),
            )
        if not readable:
            self.log.warning("%s: %s", source.name, NO_TABLE)
        others = tables.list_unchosen() if self._has_other_plan() else []
        if others:
            self.log.warning(
                "%s: the run is to reload tables that are not captured and merged here: correct "
                "their names, unless another plan of the DAG finds them (tables=%s)",
                source.name,
                ", ".join(map(join_table_name, others)),
            )
        needed, later = tables.find_needed(readable, others)
        for name, time in later.items():
            self.log.warning(
                "%s: %s is not read again before %s, because its snapshots did not help: the "
                "merge reports why",
                source.name,
                ".".join(name),
                f"{time:%Y-%m-%d %H:%M:%S} UTC",
            )
        self._warn_of_keyless(source, tables, needed)
        return needed

    def _has_other_plan(self) -> bool:
        """Whether the conf of a run names tables for another task of the DAG, too."""
        dag = self.get_dag()
        return dag is not None and any(
            isinstance(task, BinlogSnapshotPlanOperator) and task.task_id != self.task_id
            for task in dag.tasks
        )

    def _warn_of_keyless(
        self, source: BinlogSource, tables: NeededTables, needed: Sequence[TableName]
    ) -> None:
        """Name the tables without a key. That this is not known now stops nothing."""
        try:
            keyless = describe_keyless(tables.list_keyless(needed))
        except BinlogError as error:
            self.log.warning("%s: which tables have no key is not known: %s", source.name, error)
            return
        if keyless:
            self.log.warning("%s: %s", source.name, keyless)

    def _share(
        self, source: BinlogSource, names: Sequence[TableName], tasks_max: int, run: str
    ) -> list[dict[str, Any]]:
        """Return the arguments of the mapped tasks; the snapshots of large tables are begun."""
        from airflow_provider_binlog.snapshot.take import plan_tables, share_chunks

        store = open_store(self.staging_path)
        request = self.read_request(source, run, names[0], store)
        planned = plan_tables(
            [replace(request, name=name) for name in names],
            Connections(server_settings(source)).open,
            store,
            on_wait=self._log_wait,
        )
        plans: dict[int, SnapshotPlan] = {}
        for number, plan in enumerate(planned):
            text = ".".join(names[number])
            if isinstance(plan, BinlogError):
                self.log.warning(
                    "%s is left to one task, because its snapshot cannot be begun: %s", text, plan
                )
            elif plan is not None:
                self.log.info("%s: %d chunks", text, plan.chunk_count)
                plans[number] = plan
        counts = [
            plans[number].chunk_count if number in plans else 1 for number in range(len(names))
        ]
        shared: list[dict[str, Any]] = []
        for number, first, stop in share_chunks(counts, tasks_max):
            arguments: dict[str, Any] = {"table": join_table_name(names[number])}
            if number in plans:
                chunks = {"snapshot": plans[number].id, "first": first, "stop": stop}
                arguments["chunks"] = chunks
            shared.append(arguments)
        return shared

    def _log_wait(self, name: TableName, reason: str) -> None:
        self.log.info("%s: the next bound waits: %s", ".".join(name), reason)
