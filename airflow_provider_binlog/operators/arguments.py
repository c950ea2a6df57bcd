"""Arguments of tasks, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.limits import read_size
from airflow_provider_binlog.names import split_table_name
from airflow_provider_binlog.sources.binlog_source import SnapshotLock, check_choice
from airflow_provider_binlog.table_options import TableRules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.snapshot import SnapshotRequest, Throttle
    from airflow_provider_binlog.sources.binlog_source import BinlogSource
    from airflow_provider_binlog.sources.settings import ConnectionSettings


def read_globs(value: Any, name: str) -> tuple[str, ...]:
    """Return globs given as a list: a text alone would be read letter by letter.

    Raises:
        ConfigurationError: It is no list of texts.
    """
    globs = () if value is None else value
    if not isinstance(globs, list | tuple) or not all(isinstance(glob, str) for glob in globs):
        raise ConfigurationError(f"{name} is a list of globs such as shop.*", given=value)
    return tuple(globs)


def read_options(value: Mapping[str, Any] | None) -> TableRules:
    """Return the options of tables.

    Raises:
        ConfigurationError: An option cannot be used as given.
    """
    return TableRules() if value is None else TableRules.read(value)


def read_request(
    source: BinlogSource,
    *,
    run: str,
    name: TableName,
    where: str | None,
    lock: object,
    chunk_bytes: object,
) -> SnapshotRequest:
    """Return the request of a snapshot.

    Raises:
        ConfigurationError: An argument cannot be used as given.
    """
    from airflow_provider_binlog.snapshot import SnapshotRequest

    check_choice(SnapshotLock, lock, "lock")
    return SnapshotRequest(
        source_name=source.name,
        name=name,
        created_by=run,
        where=where or None,
        exact=lock == "brief",
        chunk_bytes=read_size(chunk_bytes, "chunk_bytes"),
        policies=Policies(ZeroDates(source.zero_dates), InvalidText(source.invalid_text)),
    )


def read_throttle(
    threads_running: object,
    replica_lag: object,
    replica_conn_ids: Sequence[str],
    *,
    rows_per_second: object = None,
) -> Throttle:
    """Return the throttle of a snapshot.

    Raises:
        ConfigurationError: A limit is no positive number.
    """
    from airflow_provider_binlog.snapshot import Throttle

    return Throttle(
        read_number(rows_per_second, "max_rows_per_second"),
        read_number(threads_running, "max_threads_running"),
        read_number(replica_lag, "max_replica_lag"),
        tuple(BinlogHook(conn_id).settings.connect for conn_id in replica_conn_ids),
    )


def read_chunk_range(value: object) -> tuple[str, int, int]:
    """Return the id of a snapshot, the number of the first chunk to read, and the stop.

    Raises:
        ConfigurationError: It is not what `BinlogSnapshotPlanOperator` returns.
    """
    match value:
        case {"snapshot": str(id_), "first": int(first), "stop": int(stop)}:
            return id_, first, stop
    raise ConfigurationError(
        "chunks are those that a BinlogSnapshotPlanOperator returned", given=value
    )


def read_number(value: object, name: str) -> Any:
    """Return a positive number, or None.

    Raises:
        ConfigurationError: It is neither.
    """
    if value is None or (type(value) in (int, float) and value > 0):  # type: ignore[operator]
        return value
    raise ConfigurationError("a limit is a positive number, or None for none", **{name: value})


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
    database, table = split_table_name(value) if isinstance(value, str) else ("", "")
    if not database or not table:
        raise ConfigurationError(
            "table is the name of one table, such as shop.orders, or `my.shop`.orders", given=value
        )
    return database, table
