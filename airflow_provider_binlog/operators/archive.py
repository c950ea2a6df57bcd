"""Copy a server's binlog files to object storage."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.failures import fail_unless_retryable
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.hooks.tasks import RendersObjects
from airflow_provider_binlog.sources.binlog_source import BinlogSource, read_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context


class BinlogArchiveOperator(RendersObjects, BaseOperator):
    """Copy the closed binlog files of a server unchanged, compressed with zstd.

    Files that are in the archive already are not read again. The checksum of every event is
    verified, and the length of every file. A
    :class:`~airflow_provider_binlog.BinlogSource` with ``files=archive_path`` reads the copies as
    it reads the server's own files.

    Returns ``{"source", "archive_path", "files", "bytes"}``: the names of the files that were
    copied, and their bytes on the server.

    :param source: The :class:`~airflow_provider_binlog.BinlogSource` whose server to read.
        (templated)
    :param archive_path: Where the copies are written, a folder of their own on anything that
        Airflow's ObjectStoragePath takes. (templated)
    """

    template_fields: Sequence[str] = ("source", "archive_path")
    template_fields_renderers = {"source": "json"}  # noqa: RUF012
    ui_color = "#d8ecf3"

    def __init__(
        self, *, source: BinlogSource | Mapping[str, Any], archive_path: str, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.archive_path = archive_path

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002  Airflow's signature
        """Copy files that are not archived yet; see the class.

        Raises:
            AirflowFailException: A retry would fail for the same reason.
        """
        with fail_unless_retryable():
            return self._archive(read_source(self.source))

    def _archive(self, source: BinlogSource) -> dict[str, Any]:
        # Here, so that parsing a DAG loads neither NumPy nor Arrow.
        from airflow_provider_binlog.sources.archive import archive_log
        from airflow_provider_binlog.sources.server_log import ServerLog
        from airflow_provider_binlog.transport.server import queries
        from airflow_provider_binlog.transport.stream.commands import file_created

        if source.files is not None:
            raise ConfigurationError("an archive is of a server's files: give conn_id")
        with closing(ServerLog(BinlogHook(source.conn_id).settings)) as log:
            log.check()
            flavor = log.flavor()
            with closing(log.connect()) as connection:
                logs = queries.binary_logs(connection)
            files, size = [], 0
            for copy in archive_log(
                logs,
                log,
                open_store(self.archive_path),
                created=lambda position: file_created(log.connect, flavor, position),
            ):
                self.log.info("%s: archived %s, %d bytes", source.name, copy.file, copy.bytes)
                files.append(copy.file)
                size += copy.bytes
        return {
            "source": source.name,
            "archive_path": self.archive_path,
            "files": files,
            "bytes": size,
        }
