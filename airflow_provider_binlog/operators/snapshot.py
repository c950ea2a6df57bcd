"""Stage the present rows of a table, read with SELECT."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import ConfigurationError, ServerChangedError, TableAlteredError
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.object_storage import locate, open_store
from airflow_provider_binlog.hooks.tasks import fail_unless_retryable, name_run, pass_to_outlets
from airflow_provider_binlog.limits import Limits, limits_in_bytes, read_limits
from airflow_provider_binlog.operators.arguments import (
    read_chunk_range,
    read_request,
    read_table_name,
    read_throttle,
    server_settings,
)
from airflow_provider_binlog.operators.spark_engine import EngineOperator
from airflow_provider_binlog.sources.binlog_source import BinlogSource, read_source
from airflow_provider_binlog.sources.settings import Connections
from airflow_provider_binlog.staging.paths import source_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow.sdk import Context

    from airflow_provider_binlog.snapshot import Progress, SnapshotPlan, TakenSnapshot, Throttle
    from airflow_provider_binlog.sources.binlog_source import SnapshotLock
    from airflow_provider_binlog.sources.settings import ConnectionSettings


_WAITS = "%s: %s: the next chunk waits: %s"


class BinlogSnapshotOperator(EngineOperator):
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
    carries the same. A task that leaves chunks to others returns ``{"source", "table", "snapshot",
    "rows", "chunks"}`` of those that it read.

    .. seealso:: ``docs/snapshots.md``: what is read when, and the account's privileges.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource` whose server to read.
        (templated)
    :param staging_path: Where the files are written, as for the extract. (templated)
    :param table: ``database.table``; what follows the first dot is the table's name. A database
        whose name has a dot is between backticks. (templated)
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
    :param limits: :class:`~airflow_provider_binlog.Limits` of the files' sizes.
    :param engine: ``"worker"``: the task reads the chunks. ``"spark"``: Spark's executors do.
    :param parallelism: With ``engine="spark"``, how many chunks are read at the same time.
    :param spark: With ``engine="spark"``, arguments of a SparkSubmitOperator: ``conn_id``,
        ``conf``, ``executor_memory``, ... (templated)
    """

    template_fields: Sequence[str] = ("source", "staging_path", "table", "where", "chunks", "spark")
    template_fields_renderers = {  # noqa: RUF012
        "source": "json",
        "where": "sql",
        "spark": "json",
    }
    ui_color = "#bfe0ec"

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str,
        table: str,
        where: str | None = None,
        lock: SnapshotLock = "none",
        chunk_bytes: int | str = "64 MiB",
        chunks: Mapping[str, Any] | None = None,
        max_rows_per_second: float | None = None,
        max_threads_running: int | None = None,
        max_replica_lag: float | None = None,
        replica_conn_ids: Sequence[str] = (),
        limits: Limits | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.table = table
        self.where = where
        self.lock = lock
        self.chunk_bytes = chunk_bytes
        self.chunks = chunks
        self.max_rows_per_second = max_rows_per_second
        self.max_threads_running = max_threads_running
        self.max_replica_lag = max_replica_lag
        self.replica_conn_ids = replica_conn_ids
        self.limits = limits

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the snapshot; see the class.

        Raises:
            AirflowFailException: A retry would fail for the same reason.
        """
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
            pass_to_outlets(self, context, taken)
        return taken

    def _take(self, run: str) -> dict[str, Any]:
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.snapshot import take_snapshot

        source = read_source(self.source)
        request = read_request(
            source,
            run=run,
            name=read_table_name(self.table),
            where=self.where,
            lock=self.lock,
            chunk_bytes=self.chunk_bytes,
        )
        request = replace(request, limits=read_limits(self.limits), throttle=self._throttle())
        on_spark = self.check_engine()
        settings = server_settings(source)
        taken = take_snapshot(
            request,
            Connections(settings).open,
            open_store(self.staging_path),
            read_plan=partial(self._read_on_spark, source, settings) if on_spark else None,
            on_progress=partial(self._log_progress, source.name),
            on_wait=partial(self.log.info, _WAITS, source.name, self.table),
        )
        return self._describe(taken, source.name)

    def _describe(self, taken: TakenSnapshot, source: str) -> dict[str, Any]:
        manifest = taken.manifest
        self.log.info("%s: %s: %d rows", source, self.table, manifest.rows)
        return {
            "source": source,
            "staging_path": self.staging_path,
            "table": ".".join(manifest.name),
            "snapshot": manifest.id,
            "manifest": f"{self.staging_path.rstrip('/')}/{source_folder(source)}/{taken.path}",
            "rows": manifest.rows,
            "chunks": len(manifest.chunks),
            "low": manifest.low.to_json(),
            "high": manifest.high.to_json(),
            "is_exact": manifest.is_exact,
        }

    def _read_on_spark(
        self, source: BinlogSource, settings: ConnectionSettings, plan: SnapshotPlan
    ) -> None:
        """Read the remaining chunks of a plan on executors."""
        from airflow_provider_binlog.executors.job import ChunkWork, Job
        from airflow_provider_binlog.snapshot import SnapshotFiles

        files = SnapshotFiles(open_store(self.staging_path), source.name)
        numbers = range(plan.chunk_count)
        missing = [number for number in numbers if files.find_record(plan.id, number) is None]
        if not missing:
            return
        parallelism = min(self.parallelism, len(missing))
        throttle = self._throttle()
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
        staging = locate(self.staging_path)
        self.run_on_spark(
            Job(source=source.name, staging=staging, parallelism=parallelism, work=work)
        )

    def _read_chunks(self, chunks: Mapping[str, Any]) -> dict[str, Any]:
        from airflow_provider_binlog.snapshot import (
            ChunkReader,
            SnapshotFiles,
            complete_snapshot,
            read_chunks,
        )

        source = read_source(self.source)
        files = SnapshotFiles(open_store(self.staging_path), source.name)
        id_, first, stop = read_chunk_range(chunks)
        reader = ChunkReader(
            Connections(server_settings(source)).open,
            files,
            read_limits(self.limits),
            self._throttle(),
            partial(self.log.info, _WAITS, source.name, self.table),
        )
        with _naming_shared_plan():
            plan = files.read_plan(id_, read_table_name(self.table), self.where or None)
            progress = read_chunks(
                plan,
                range(first, stop),
                reader,
                on_progress=partial(self._log_progress, source.name),
            )
        # The task that reads the last chunk sees all records: a written record is visible.
        if files.is_read(plan):
            return self._describe(complete_snapshot(plan, files), source.name)
        return {
            "source": source.name,
            "table": self.table,
            "snapshot": id_,
            "rows": progress.rows,
            "chunks": progress.chunks,
        }

    def _throttle(self) -> Throttle:
        return read_throttle(
            self.max_threads_running,
            self.max_replica_lag,
            self.replica_conn_ids,
            rows_per_second=self.max_rows_per_second,
        )

    def _log_progress(self, name: str, progress: Progress) -> None:
        self.log.info(
            "%s: %s: %d of %d chunks, %d rows",
            name,
            self.table,
            progress.chunks,
            progress.chunk_count,
            progress.rows,
        )


@contextmanager
def _naming_shared_plan() -> Iterator[None]:
    """Add the repair to errors that no retry of one task mends: all tasks share the plan."""
    try:
        yield
    except (ServerChangedError, TableAlteredError) as error:
        error.context["repair"] = (
            "clear the task that shared the chunks, and those after it: it begins the snapshot "
            "again"
        )
        # The address may lead to the other server again.
        error.retryable = isinstance(error, ServerChangedError)
        raise
