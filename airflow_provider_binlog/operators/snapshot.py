"""Stage a table's rows as they are now, read with SELECT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.hooks.outlets import pass_to_outlets
from airflow_provider_binlog.hooks.retries import fail_unless_retryable
from airflow_provider_binlog.hooks.runs import name_run
from airflow_provider_binlog.hooks.templates import RendersSource
from airflow_provider_binlog.limits import Limits, read_limits, read_size
from airflow_provider_binlog.sources.binlog_source import BinlogSource, read_source
from airflow_provider_binlog.sources.choices import SnapshotLock, check_choice
from airflow_provider_binlog.staging.paths import source_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.snapshot import Progress, SnapshotRequest, TakenSnapshot
    from airflow_provider_binlog.sources.settings import ConnectionSettings


class BinlogSnapshotOperator(RendersSource, BaseOperator):
    """Stage a table's rows, read with ``SELECT`` in chunks by its key, while capture continues.

    Nothing is written to the server and, as a rule, nothing is locked. The snapshot is visible when
    it is complete; the merge then replays the log over it. A retry reads the chunks that the first
    try has not read. Map the operator over ``table`` for several tables.

    Returns ``{"source", "staging_path", "table", "snapshot", "manifest", "rows", "chunks", "low",
    "high", "is_exact"}``: names, positions and counts, never data. The asset event of every outlet
    carries the same.

    .. seealso:: ``docs/snapshots.md``: what is read when, and the account's privileges.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource` whose server to read.
        (templated)
    :param staging_path: Where the files are written, as for the extract. (templated)
    :param table: ``database.table``; what follows the first dot is the table's name. (templated)
    :param where: A condition in SQL on the rows to read; by default all are. (templated)
    :param lock: ``"none"``, or ``"brief"``: all rows are read in one transaction, at a position
        that is exact because the table is locked until the transaction is open. A table without
        a key is always read so.
    :param chunk_bytes: Bytes of the table that one transaction reads, about: a number, or a text
        such as ``"64 MiB"``.
    :param limits: :class:`~airflow_provider_binlog.Limits` of the files' sizes.
    """

    template_fields: Sequence[str] = ("source", "staging_path", "table", "where")
    template_fields_renderers = {"source": "json", "where": "sql"}  # noqa: RUF012
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
        self.limits = limits

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the snapshot; see the class.

        Raises:
            AirflowFailException: A retry would fail for the same reason.
        """
        with fail_unless_retryable():
            taken = self._take(name_run(context))
        pass_to_outlets(self, context, taken)
        return taken

    def _take(self, run: str) -> dict[str, Any]:
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.snapshot import take_snapshot
        from airflow_provider_binlog.sources.connections import Connections

        source = read_source(self.source)
        request = self._request(source, run)
        settings = server_settings(source)
        taken = take_snapshot(
            request,
            Connections(settings).open,
            open_store(self.staging_path),
            on_progress=lambda progress: self._log_progress(source.name, progress),
        )
        described = self._describe(taken, source.name)
        self.log.info("%s: %s: %d rows", source.name, self.table, described["rows"])
        return described

    def _request(self, source: BinlogSource, run: str) -> SnapshotRequest:
        """Return what to read, checked.

        Raises:
            ConfigurationError: An argument cannot be used as given.
        """
        from airflow_provider_binlog.snapshot import SnapshotRequest

        check_choice(SnapshotLock, self.lock, "lock")
        return SnapshotRequest(
            source_name=source.name,
            name=read_table_name(self.table),
            created_by=run,
            where=self.where or None,
            exact=self.lock == "brief",
            chunk_bytes=read_size(self.chunk_bytes, "chunk_bytes"),
            policies=Policies(ZeroDates(source.zero_dates), InvalidText(source.invalid_text)),
            limits=read_limits(self.limits),
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

    def _describe(self, taken: TakenSnapshot, name: str) -> dict[str, Any]:
        manifest = taken.manifest
        return {
            "source": name,
            "staging_path": self.staging_path,
            "table": self.table,
            "snapshot": manifest.id,
            "manifest": f"{self.staging_path.rstrip('/')}/{source_folder(name)}/{taken.path}",
            "rows": manifest.rows,
            "chunks": len(manifest.chunks),
            "low": manifest.low.to_json(),
            "high": manifest.high.to_json(),
            "is_exact": manifest.is_exact,
        }


def server_settings(source: BinlogSource) -> ConnectionSettings:
    """Return how to connect to a source's server.

    Raises:
        ConfigurationError: The source has files in place of a server, or no such connection.
    """
    if source.files is not None:
        raise ConfigurationError("a snapshot reads a server, not files: give conn_id")
    return BinlogHook(source.conn_id).settings


def read_table_name(value: object) -> TableName:
    """Return database and table.

    Raises:
        ConfigurationError: It is not `database.table`.
    """
    database, _, table = value.partition(".") if isinstance(value, str) else ("", "", "")
    if not database or not table:
        raise ConfigurationError("table is the name of one table, such as shop.orders", given=value)
    return database, table
