"""Arguments of tasks, checked: what cannot be used as given raises a `ConfigurationError`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import ConfigurationError, error_context
from airflow_provider_binlog.hooks.binlog import BinlogHook
from airflow_provider_binlog.limits import read_size
from airflow_provider_binlog.names import read_table_name
from airflow_provider_binlog.protected_columns import ColumnRules, find_secret
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.sources.binlog_source import BinlogSource, SnapshotLock, check_choice
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.table_options import ColumnOptions, TableOptions, TableRules

if TYPE_CHECKING:
    from airflow_provider_binlog.snapshot.plan import SnapshotRequest, Throttle


def read_globs(value: Any, name: str) -> tuple[str, ...]:
    """Return globs given as a list: a text alone would be read letter by letter."""
    globs = () if value is None else value
    if not isinstance(globs, list | tuple) or not all(isinstance(glob, str) for glob in globs):
        raise ConfigurationError(f"{name} is a list of globs such as shop.*", given=value)
    return tuple(globs)


RELOAD_OF_RUN = "{{ ((dag_run.conf or {}).get('reload') or []) | tojson }}"
"""Template of the tables that a run is triggered to reload, `{"reload": ["shop.orders"]}`."""


def read_reload(value: str | Sequence[str]) -> tuple[TableName, ...]:
    """Return the tables that a run is to reload: a list of names, or its JSON."""
    names: Any = value
    if isinstance(value, str):
        try:
            names = json.loads(value or "[]")
        except ValueError:
            names = None
    if not isinstance(names, list | tuple):
        raise ConfigurationError(
            'reload is a list of names, as in the run\'s conf {"reload": ["shop.orders"]}',
            given=value,
        )
    return tuple(dict.fromkeys(map(read_table_name, names)))


def read_options(value: Mapping[str, Any] | None) -> TableRules:
    """Return the options of tables."""
    return TableRules() if value is None else TableRules.read(value)


def read_columns(
    source: BinlogSource,
    options: Mapping[str, Any] | None,
    columns: Sequence[ColumnOptions] = (),
) -> ColumnRules:
    """Return which columns are excluded or hashed: by the options, or else by `columns`.

    Raises:
        ConfigurationError: Columns are to be hashed, and the connection has no secret.
    """
    if options is not None:
        columns = read_options(options).columns
    text = ""
    if any(own.hash for own in columns):
        text = BinlogHook(source.conn_id).settings.hash_secret
    with error_context(conn_id=source.conn_id):
        return ColumnRules(tuple(columns), find_secret(text))


def check_staged(value: Any) -> None:
    """Refuse what no extract returned, such as the value of an XCom that was lost."""
    if value is None:
        raise ConfigurationError(
            "what the extract task returned is not in its XCom: clear that task, which returns it "
            "again, and those after it; or let the next run continue"
        )
    if not isinstance(value, Mapping):
        raise ConfigurationError("`staged` is what the extract operator returned", given=value)


def read_location(staged: Any) -> tuple[str, str]:
    """Return the source's name and the staging path of what is staged."""
    check_staged(staged)
    try:
        return str(staged["source"]), str(staged["staging_path"])
    except KeyError as error:
        raise ConfigurationError(
            "`staged` is what the extract operator returned, or holds source and staging_path",
            given=staged,
        ) from error


class SnapshotArguments(BaseOperator):
    """Operator on snapshots; `BinlogSnapshotOperator` describes the arguments."""

    max_rows_per_second: float | None = None

    def __init__(
        self,
        *,
        where: str | None = None,
        lock: SnapshotLock = "none",
        chunk_bytes: int | str = "64 MiB",
        max_threads_running: int | None = None,
        max_replica_lag: float | None = None,
        replica_conn_ids: Sequence[str] = (),
        options: Mapping[str, TableOptions | Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.options = options
        self.where = where
        self.lock = lock
        self.chunk_bytes = chunk_bytes
        self.max_threads_running = max_threads_running
        self.max_replica_lag = max_replica_lag
        self.replica_conn_ids = replica_conn_ids

    def read_request(
        self, source: BinlogSource, run: str, name: TableName, store: ObjectStore
    ) -> SnapshotRequest:
        """Return the request of a table's snapshot.

        Without options, the columns that the log was captured without are excluded, too.
        """
        from airflow_provider_binlog.snapshot.plan import SnapshotRequest

        check_choice(SnapshotLock, self.lock, "lock")
        given = self.options is not None
        latest = None if given else ManifestLog(store, source.name).latest()
        return SnapshotRequest(
            source_name=source.name,
            name=name,
            created_by=run,
            where=self.where or None,
            exact=self.lock == "brief",
            chunk_bytes=read_size(self.chunk_bytes, "chunk_bytes"),
            policies=Policies(ZeroDates(source.zero_dates), InvalidText(source.invalid_text)),
            columns=read_columns(source, self.options, () if latest is None else latest.columns),
            throttle=self.read_throttle(),
        )

    def read_throttle(self) -> Throttle:
        """Return the throttle of a task."""
        from airflow_provider_binlog.snapshot.plan import Throttle

        return Throttle(
            read_number(self.max_rows_per_second, "max_rows_per_second"),
            read_number(self.max_threads_running, "max_threads_running"),
            read_number(self.max_replica_lag, "max_replica_lag"),
            tuple(BinlogHook(conn_id).settings.connect for conn_id in self.replica_conn_ids),
        )


def read_chunk_range(value: object) -> tuple[str, int, int]:
    """Return the id of a snapshot, the number of the first chunk to read, and the stop."""
    match value:
        case {"snapshot": str(id_), "first": int(first), "stop": int(stop)}:
            return id_, first, stop
    raise ConfigurationError(
        "chunks are those that a BinlogSnapshotPlanOperator returned", given=value
    )


def read_number(value: object, name: str) -> Any:
    """Return a positive number, or None."""
    if value is None or (type(value) in (int, float) and value > 0):  # type: ignore[operator]
        return value
    raise ConfigurationError("a limit is a positive number, or None for none", **{name: value})


def read_seconds(value: object, name: str) -> float:
    """Return the seconds of a positive timedelta."""
    if isinstance(value, timedelta) and value > timedelta():
        return value.total_seconds()
    raise ConfigurationError("a time is a positive timedelta", **{name: value})


def read_timedelta(value: object, name: str) -> timedelta:
    """Return a timedelta, also if it is given in seconds; None is none at all."""
    if isinstance(value, timedelta):
        return value
    return timedelta(seconds=read_number(value, name) or 0)


def server_settings(source: BinlogSource) -> ConnectionSettings:
    """Return how to connect to a source's server."""
    if source.files is not None:
        raise ConfigurationError("a snapshot reads a server, not files: give conn_id")
    return BinlogHook(source.conn_id).settings
