"""The log of a source, as a task opens it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.hooks.object_storage import reach
from airflow_provider_binlog.sources.binlog_files import find_files

if TYPE_CHECKING:
    from airflow_provider_binlog.sources.binlog_source import BinlogSource
    from airflow_provider_binlog.sources.log import Log


def open_log(source: BinlogSource, *, server_id: int | None = None) -> Log:
    """Return a source's log, on a server or in files; the caller closes it.

    With `server_id`, a server knows us by it.

    Raises:
        ConfigurationError: The connection cannot be used, or there are no such files.
        StagingError: The store of the files cannot be reached.
    """
    # Here, so that parsing a DAG loads neither NumPy nor Arrow.
    from airflow_provider_binlog.sources.file_log import FileLog
    from airflow_provider_binlog.sources.server_log import ServerLog

    if source.files is None:
        settings = BinlogHook(source.conn_id).settings
        if server_id is not None:
            settings = replace(settings, server_id=server_id)
        return ServerLog(settings, failover=source.failover)
    return FileLog(find_files(source.files, reach))
