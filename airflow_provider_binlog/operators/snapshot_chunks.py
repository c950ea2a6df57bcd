"""Share the chunks of tables among mapped tasks, and make their snapshots visible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.hooks.mapping import max_map_length
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.hooks.outlets import pass_to_outlets
from airflow_provider_binlog.hooks.retries import fail_unless_retryable
from airflow_provider_binlog.hooks.runs import name_run
from airflow_provider_binlog.hooks.templates import RendersSource
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.operators.snapshot import (
    describe_taken,
    read_chunk_range,
    read_request,
    read_table_name,
    server_settings,
)
from airflow_provider_binlog.sources.binlog_source import BinlogSource, read_source
from airflow_provider_binlog.sources.connections import Connections

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_provider_binlog.snapshot import SnapshotPlan
    from airflow_provider_binlog.sources.choices import SnapshotLock


class BinlogSnapshotChunksOperator(RendersSource, BaseOperator):
    """Begin snapshots of tables, and share their chunks among the tasks that read them.

    .. code-block:: python

        share = BinlogSnapshotChunksOperator(task_id="share", tables=["shop.orders"], **staging)
        read = BinlogSnapshotOperator.partial(task_id="read", **staging).expand_kwargs(share.output)
        read >> BinlogSnapshotCommitOperator(task_id="commit", chunks=share.output, **staging)

    Returns ``[{"table", "chunks": {"snapshot", "first", "stop"}}, ...]``: at most as many as
    ``max_tasks`` and as Airflow maps a task over, ``[core] max_map_length``; but one for each table
    at least. A retry returns the same chunks, unless a table was altered.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource` whose server to read.
        (templated)
    :param staging_path: Where the files are written, as for the extract. (templated)
    :param tables: Names of tables, ``database.table``. (templated)
    :param where: As the snapshot operator has it. (templated)
    :param lock: See there.
    :param chunk_bytes: See there.
    :param max_tasks: Among how many tasks the chunks are shared; by default among as many as there
        are chunks.
    """

    template_fields: Sequence[str] = ("source", "staging_path", "tables", "where")
    template_fields_renderers = {"source": "json", "tables": "json", "where": "sql"}  # noqa: RUF012
    ui_color = "#d8ecf3"

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str,
        tables: Sequence[str],
        where: str | None = None,
        lock: SnapshotLock = "auto",
        chunk_bytes: int | str = "64 MiB",
        max_tasks: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.tables = tables
        self.where = where
        self.lock = lock
        self.chunk_bytes = chunk_bytes
        self.max_tasks = max_tasks

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Begin the snapshots; see the class.

        Raises:
            AirflowFailException: A retry would fail for the same reason.
        """
        with fail_unless_retryable():
            plans = self._begin(name_run(context))
            most = max_map_length()
            shares = share_chunks(
                [plan.chunk_count for plan in plans], min(most, self.max_tasks or most)
            )
        return [
            {
                "table": join_table_name(plans[each.table].name),
                "chunks": {
                    "snapshot": plans[each.table].id,
                    "first": each.first,
                    "stop": each.stop,
                },
            }
            for each in shares
        ]

    def _begin(self, run: str) -> list[SnapshotPlan]:
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.snapshot import begin_snapshot

        source = read_source(self.source)
        store = open_store(self.staging_path)
        connect = Connections(server_settings(source)).open
        plans = []
        for table in self.tables:
            request = read_request(
                source,
                run=run,
                table=table,
                where=self.where,
                lock=self.lock,
                chunk_bytes=self.chunk_bytes,
            )
            plan = begin_snapshot(request, connect, store)
            self.log.info("%s: %s: %d chunks", source.name, table, plan.chunk_count)
            plans.append(plan)
        return plans


class BinlogSnapshotCommitOperator(RendersSource, BaseOperator):
    """Make snapshots visible whose chunks were read by mapped tasks.

    Returns a list of what :class:`~airflow_provider_binlog.BinlogSnapshotOperator` returns, one for
    each table.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource`. (templated)
    :param staging_path: Where the files are, as for the extract. (templated)
    :param chunks: What a :class:`~airflow_provider_binlog.BinlogSnapshotChunksOperator` returned.
        (templated)
    """

    template_fields: Sequence[str] = ("source", "staging_path", "chunks")
    template_fields_renderers = {"source": "json", "chunks": "json"}  # noqa: RUF012
    ui_color = "#bfe0ec"

    def __init__(
        self,
        *,
        source: BinlogSource | Mapping[str, Any],
        staging_path: str,
        chunks: Sequence[Mapping[str, Any]],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.staging_path = staging_path
        self.chunks = chunks

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Write the manifests; see the class.

        Raises:
            AirflowFailException: A retry would fail for the same reason.
        """
        with fail_unless_retryable():
            taken = self._commit()
        pass_to_outlets(self, context, {"snapshots": taken})
        return taken

    def _commit(self) -> list[dict[str, Any]]:
        from airflow_provider_binlog.snapshot import SnapshotFiles, complete_snapshot

        source = read_source(self.source)
        files = SnapshotFiles(open_store(self.staging_path), source.name)
        wanted = {read_chunk_range(each["chunks"])[0]: each["table"] for each in self.chunks}
        found = []
        for id_, table in wanted.items():
            taken = complete_snapshot(files.read_plan(id_, read_table_name(table)), files)
            described = describe_taken(taken, source.name, self.staging_path)
            self.log.info("%s: %s: %d rows", source.name, table, described["rows"])
            found.append(described)
        return found


@dataclass(frozen=True)
class ChunkShare:
    """Chunks that one task reads.

    Attributes:
        table: Number of the table.
        first, stop: Numbers of its first chunk, and of the one after its last.
    """

    table: int
    first: int
    stop: int


def share_chunks(counts: Sequence[int], tasks_max: int) -> list[ChunkShare]:
    """Share the chunks of tables among tasks, in order; each table has one task at least.

    Raises:
        ConfigurationError: There are more tables than tasks.
    """
    if len(counts) > tasks_max:
        raise ConfigurationError(
            "there are more tables than tasks to read them: name fewer, or increase max_tasks or "
            "[core] max_map_length",
            tables=len(counts),
            tasks=tasks_max,
        )
    size = 1
    while sum(-(-count // size) for count in counts) > tasks_max:
        size += max(1, size // 8)
    return [
        ChunkShare(table, first, min(first + size, count))
        for table, count in enumerate(counts)
        for first in range(0, count, size)
    ]
